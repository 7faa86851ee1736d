//! Installing Debian packages on this machine: takes package names, installs those that are missing. Image and box
//! modules call it for the tools they need.
use std::fs::File;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// Only root can create it; nobody else could install either.
const LOCK: &str = "/run/lifeboat-apt.lock";

/// Installs what is missing among `packages`; does nothing, and needs no root, where all are there.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    eprintln!("apt: installing {names}");
    install(&missing)
        .with_context(|| format!("cannot install packages; as root, try: apt-get install {names}"))
}

fn install(packages: &[&str]) -> Result<()> {
    // apt-get waits for dpkg's lock but not for that of its package lists: two clones take turns here.
    let lock = File::create(LOCK).with_context(|| format!("cannot create {LOCK}"))?;
    lock.lock().with_context(|| format!("cannot lock {LOCK}"))?;
    if apt_get("install", packages).is_ok() {
        return Ok(());
    }
    // Most often the package lists are old or absent; a second failure is the one to report.
    apt_get("update", &[])?;
    apt_get("install", packages)
}

fn installed(package: &str) -> bool {
    run::output(Command::new("dpkg-query").args(["--show", "--showformat=${Status}", package]))
        .is_ok_and(|status| status == "install ok installed")
}

fn apt_get(action: &str, packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", action])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    run::output(&mut command).map(drop)
}
