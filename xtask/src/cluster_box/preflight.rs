//! Checks before `up` changes anything: each failure says what is wrong and what to do. No effects.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cgroup::Hierarchies;
use super::layout::{self, CACHE, NETWORK, STATE};
use super::subnet::{self, Subnet};
use super::{network, ports, programs};
use crate::run;

const GIB: u64 = 1 << 30;
/// The disk space of a box with a few images and volumes.
const STATE_SPACE: u64 = 5 * GIB;
/// The disk space for Go's module and build caches and for the programs, if they must be built.
const BUILD_SPACE: u64 = 8 * GIB;

const ELSEWHERE: &str = "use a cluster you own instead: `cargo xtask demo --context NAME`";

/// Checks that this machine can run a box. Also called by `down` and the small commands.
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

/// Checks that there is enough disk space for a new box.
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

/// A need for disk space, and the file system that it applies to.
#[derive(Debug)]
struct Need {
    what: &'static str,
    path: &'static str,
    bytes: u64,
    device: u64,
    free: u64,
}

fn space() -> Result<Vec<String>> {
    let build = if programs::missing()? > 0 { BUILD_SPACE } else { 0 };
    Ok(shortages(&[need("the box", STATE, STATE_SPACE)?, need("its programs", CACHE, build)?]))
}

/// Determines the file system that will hold a path.
fn need(what: &'static str, path: &'static str, bytes: u64) -> Result<Need> {
    use std::os::unix::fs::MetadataExt;
    let existing = Path::new(path).ancestors().find(|each| each.exists()).unwrap_or(Path::new("/"));
    let device =
        fs::metadata(existing).with_context(|| format!("cannot inspect {}", existing.display()))?.dev();
    let found = rustix::fs::statvfs(existing)?;
    Ok(Need { what, path, bytes, device, free: found.f_bavail * found.f_frsize })
}

/// Needs on the same file system are added up.
fn shortages(needs: &[Need]) -> Vec<String> {
    let mut by_device = BTreeMap::<u64, Vec<&Need>>::new();
    for need in needs.iter().filter(|need| need.bytes > 0) {
        by_device.entry(need.device).or_default().push(need);
    }
    by_device.into_values().filter_map(|group| shortage(&group)).collect()
}

fn shortage(group: &[&Need]) -> Option<String> {
    let tenths = |bytes: u64| format!("{}.{}", bytes / GIB, bytes % GIB * 10 / GIB);
    let list =
        |of: fn(&Need) -> &'static str| group.iter().map(|need| of(need)).collect::<Vec<_>>().join(" and ");
    let needed: u64 = group.iter().map(|need| need.bytes).sum();
    let free = group.first()?.free;
    let verb = if group.len() == 1 && group[0].what == "the box" { "needs" } else { "need" };
    (free < needed).then(|| {
        format!(
            "{} {verb} {} GiB free at {}, there are {}: free {} GiB there and run this again",
            list(|need| need.what),
            tenths(needed),
            list(|need| need.path),
            tenths(free),
            tenths(needed - free)
        )
    })
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
    // Without `ip` there is nothing to compare yet: apt will install it, and a bridge cannot be created with a taken
    // address.
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

/// Whether the machine's resolver names a server; without one CoreDNS cannot forward.
pub(super) fn has_name_server() -> bool {
    fs::read_to_string("/etc/resolv.conf")
        .is_ok_and(|text| text.lines().any(|line| line.starts_with("nameserver")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(what: &'static str, path: &'static str, bytes: u64, device: u64, free: u64) -> Need {
        Need { what, path, bytes, device, free }
    }

    #[test]
    fn too_little_space_says_how_much_and_where() {
        let needs =
            [need("the box", "/state", 5 * GIB, 1, GIB + GIB / 2), need("its programs", "/cache", 0, 1, 0)];
        assert_eq!(
            shortages(&needs),
            ["the box needs 5.0 GiB free at /state, there are 1.5: free 3.5 GiB there and run this again"]
        );
    }

    #[test]
    fn needs_on_one_file_system_count_together() {
        let on = |device| {
            [
                need("the box", "/state", 5 * GIB, 1, 9 * GIB),
                need("its programs", "/cache", 8 * GIB, device, 9 * GIB),
            ]
        };
        assert_eq!(
            shortages(&on(1)),
            [
                "the box and its programs need 13.0 GiB free at /state and /cache, there are 9.0: free 4.0 GiB there and \
              run this again"
            ]
        );
        assert!(shortages(&on(2)).is_empty());
    }

    #[test]
    fn enough_space_is_no_complaint() {
        assert!(shortages(&[need("the box", "/x", GIB, 1, GIB)]).is_empty());
    }
}
