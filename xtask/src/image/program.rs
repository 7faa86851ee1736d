//! Static programs of the workspace: takes a program and a cargo profile and returns its path. Refuses one that is not
//! static, because images contain no loader. Called by `lifeboat.rs` and `plugins.rs`; the test run, which compiles
//! everything at once, uses the flags from here.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{Profile, elf, progress};
use crate::run;

/// Built together for each program, so that features of shared dependencies are the same and those are compiled once.
const PACKAGES: [&str; 2] = ["lifeboat", "lifeboat-example-plugins"];

/// Compiles with the C library linked statically.
pub(super) fn build(name: &str, profile: Profile) -> Result<PathBuf> {
    progress(&format!("building {name} (profile {})", profile.name()));
    let mut command = run::cargo();
    command
        .arg("build")
        .args(PACKAGES.iter().flat_map(|package| ["--package", package]))
        .args(["--bin", name]);
    let triple = link_statically(&mut command, profile)?;
    run::run(&mut command)?;
    let path = run::target_directory()?.join(&triple).join(profile.name()).join(name);
    require_static(&path)?;
    Ok(path)
}

/// Adds a profile and the flags for static linking to a cargo command, and returns the target. The target is named even
/// though it is the host's, so that the flags do not apply to build scripts and procedural macros, which cannot be
/// static.
pub(super) fn link_statically(command: &mut Command, profile: Profile) -> Result<String> {
    let triple = host_triple()?;
    let mut flags = Vec::new();
    if cfg!(target_os = "linux") {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
        if relocates_packed() {
            flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
        }
    }
    if let Some(home) = cargo_home() {
        // Removes the builder's home directory from the program; C code (aws-lc-sys) still contains it.
        flags.push(format!("--remap-path-prefix={}=/cargo", home.display()));
    }
    command
        .args(["--profile", profile.name(), "--target", &triple])
        .arg("--config")
        .arg(format!("target.{triple}.rustflags={}", json!(flags)))
        // Either of these would replace the flags above.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(triple)
}

/// Whether the C library of this machine, which becomes a part of the program, can apply packed relocations when it starts.
/// Unpacked, each process reads more than 2 MB of them.
fn relocates_packed() -> bool {
    let version = run::output(Command::new("getconf").arg("GNU_LIBC_VERSION"));
    // No glibc, for example musl: its programs are linked without.
    version.is_ok_and(|version| is_glibc_from(&version, (2, 36)))
}

/// `version` is as in `glibc 2.36`.
fn is_glibc_from(version: &str, first: (u32, u32)) -> bool {
    let numbers = version.trim().strip_prefix("glibc ").and_then(|numbers| numbers.split_once('.'));
    let number = |text: &str| text.split('.').next().and_then(|text| text.parse::<u32>().ok());
    numbers
        .and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
        .is_some_and(|version| version >= first)
}

/// Fails for a program that needs a loader or a library.
pub(super) fn require_static(path: &Path) -> Result<()> {
    let program = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let needs = elf::needs(&program).with_context(|| format!("cannot inspect {}", path.display()))?;
    if !needs.nothing() {
        bail!("{} is not static ({needs:?}): it would not start in its image", path.display());
    }
    Ok(())
}

fn host_triple() -> Result<String> {
    let version = run::output(Command::new("rustc").arg("-vV").current_dir(run::checkout()))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

fn cargo_home() -> Option<PathBuf> {
    let default = || std::env::home_dir().map(|home| home.join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(default)
}

#[cfg(test)]
mod tests {
    use super::is_glibc_from;

    #[test]
    fn relocations_are_packed_from_the_first_c_library_that_can_apply_them() {
        for version in ["glibc 2.36\n", "glibc 2.41", "glibc 3.0", "glibc 2.36.1"] {
            assert!(is_glibc_from(version, (2, 36)), "{version}");
        }
        for version in ["glibc 2.35\n", "glibc 1.99", "musl 2.36", "glibc", ""] {
            assert!(!is_glibc_from(version, (2, 36)), "{version}");
        }
    }
}
