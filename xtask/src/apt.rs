//! Installs Debian packages on this machine: takes package names and installs the missing ones. Image, box and test
//! modules call it for the tools they need. Can also unpack a package without installing it.
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// Only root can create it, and only root can install packages.
const LOCK: &str = "/run/lifeboat-apt.lock";

/// The directories of Debian's programs, for a PATH that lacks the sbin directories.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Packages whose file (a program in PATH, or an absolute path) is missing; each once.
pub(crate) fn missing<'a>(needed: &[(&'a str, &str)]) -> Vec<&'a str> {
    let mut packages: Vec<&str> =
        needed.iter().filter(|(_, file)| !is_present(file)).map(|(package, _)| *package).collect();
    packages.dedup();
    packages
}

pub(crate) fn is_present(file: &str) -> bool {
    if file.starts_with('/') {
        return Path::new(file).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(PATH.split(':')).any(|dir| Path::new(dir).join(file).exists())
}

/// Installs the missing ones of `packages`; does nothing, and needs no root, if none is missing.
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
    with_fresh_lists(|| run::output(&mut apt_get("install", packages)).map(drop))
}

/// Downloads a package and unpacks its files below `out`; nothing is installed or run.
pub(crate) fn unpack(package: &str, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    with_fresh_lists(|| run::output(apt_get("download", &[package]).current_dir(out)).map(drop))
        .with_context(|| format!("cannot download the Debian package {package}"))?;
    let archive = fs::read_dir(out)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get downloaded no package {package}"))?;
    run::output(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(out))?;
    Ok(fs::remove_file(archive)?)
}

/// A failure is most often caused by old or missing package lists: they are updated and the action is repeated. The
/// second failure is reported.
fn with_fresh_lists(action: impl Fn() -> Result<()>) -> Result<()> {
    // apt-get waits for dpkg's lock but not for that of its package lists, so clones take turns with this lock.
    let lock = File::create(LOCK).with_context(|| format!("cannot create {LOCK}"))?;
    lock.lock().with_context(|| format!("cannot lock {LOCK}"))?;
    if action().is_ok() {
        return Ok(());
    }
    run::output(&mut apt_get("update", &[]))?;
    action()
}

fn installed(package: &str) -> bool {
    run::output(Command::new("dpkg-query").args(["--show", "--showformat=${Status}", package]))
        .is_ok_and(|status| status == "install ok installed")
}

fn apt_get(action: &str, packages: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", action])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_missing_once_however_many_of_its_programs_are() {
        let needed =
            [("shell", "sh"), ("ghost", "no-such-program"), ("ghost", "/no/such/file"), ("root", "/")];
        assert_eq!(missing(&needed), ["ghost"]);
    }
}
