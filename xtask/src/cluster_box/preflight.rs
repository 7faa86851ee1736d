//! Checks before `up` changes anything: each failure names what is wrong and what to do. No effects.
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::cgroup::Hierarchies;
use super::layout::{self, CACHE, NETWORK, STATE};
use super::subnet::{self, Subnet};
use super::{network, ports, programs};
use crate::run;

const GIB: u64 = 1 << 30;
/// What a box with a few images and volumes takes.
const STATE_SPACE: u64 = 5 * GIB;
/// Go's module and build caches, and the programs themselves, when they must be built.
const BUILD_SPACE: u64 = 8 * GIB;

const ELSEWHERE: &str = "use a cluster you own instead: `cargo xtask demo --context NAME`";

/// Can this machine run a box at all? Also asked by `down` and the small commands.
pub(super) fn machine() -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("the box runs on Linux only; {ELSEWHERE}");
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "the box needs root (it mounts, routes and runs containers): run this with sudo, or {ELSEWHERE}"
        );
    }
    Ok(())
}

/// Is there room for a new box?
pub(super) fn room() -> Result<()> {
    let mut wrong = ports::conflicts(&layout::ports());
    wrong.extend(space()?);
    wrong.extend(addresses()?);
    if let Err(error) = Hierarchies::detect() {
        wrong.push(format!("{error}; {ELSEWHERE}"));
    }
    if !wrong.is_empty() {
        bail!("the box cannot start here:\n  - {}", wrong.join("\n  - "));
    }
    Ok(())
}

fn space() -> Result<Vec<String>> {
    let building = programs::missing()? > 0;
    let needs =
        [(STATE, STATE_SPACE, "the box"), (CACHE, if building { BUILD_SPACE } else { 0 }, "its programs")];
    let mut wrong = Vec::new();
    for (path, bytes, what) in needs {
        let free = free(Path::new(path))?;
        if let Some(text) = shortage(path, bytes, free, what) {
            wrong.push(text);
        }
    }
    Ok(wrong)
}

fn shortage(path: &str, needed: u64, free: u64, what: &str) -> Option<String> {
    let tenths = |bytes: u64| format!("{}.{}", bytes / GIB, bytes % GIB * 10 / GIB);
    (free < needed).then(|| {
        format!(
            "{what} needs {} GiB free at {path}, there are {}: free {} GiB there and run this again",
            tenths(needed),
            tenths(free),
            tenths(needed - free)
        )
    })
}

/// Free bytes of the file system that will hold a path.
fn free(path: &Path) -> Result<u64> {
    let existing = path.ancestors().find(|each| each.exists()).unwrap_or(Path::new("/"));
    let found = rustix::fs::statvfs(existing)?;
    Ok(found.f_bavail * found.f_frsize)
}

fn addresses() -> Result<Vec<String>> {
    let mut wrong: Vec<String> = network::existing_bridges()
        .into_iter()
        .map(|name| {
            format!("an interface {name} exists and no box is recorded: remove it with `ip link del {name}`")
        })
        .collect();
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    // Without `ip` there is nothing to compare yet: apt brings it, and a bridge cannot be created over a taken address.
    if let Ok(routes) = run::output(Command::new("ip").args(["-4", "route", "show", "table", "all"])) {
        let network = Subnet::parse(NETWORK)?;
        wrong.extend(subnet::overlapping(network, &routes).into_iter().map(|route| {
            format!(
                "the box uses {NETWORK}, and this machine has the route `{}`: remove it while the box runs",
                route.trim()
            )
        }));
    }
    Ok(wrong)
}

/// Does the machine's resolver name a server? Else CoreDNS has nothing to forward to.
pub(super) fn has_name_server() -> bool {
    fs::read_to_string("/etc/resolv.conf")
        .is_ok_and(|text| text.lines().any(|line| line.starts_with("nameserver")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_says_how_much_and_where() {
        let text = shortage("/var/lib/x", 5 * GIB, GIB + GIB / 2, "the box").expect("too little");
        assert_eq!(
            text,
            "the box needs 5.0 GiB free at /var/lib/x, there are 1.5: free 3.5 GiB there and run this again"
        );
    }

    #[test]
    fn enough_space_is_no_complaint() {
        assert_eq!(shortage("/x", GIB, GIB, "the box"), None);
    }
}
