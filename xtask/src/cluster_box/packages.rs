//! Debian packages that the box needs: finds the missing ones and installs them. The containerd that apt would start
//! must not run, because the box starts its own.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::progress;
use crate::{apt, run};

/// A package and a file that shows whether it is installed: a program in PATH, or a path.
const NEEDED: [(&str, &str); 11] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("containernetworking-plugins", "/usr/lib/cni/bridge"),
    ("iptables", "iptables-save"),
    ("nftables", "nft"),
    ("iproute2", "ip"),
    ("e2fsprogs", "mkfs.ext4"),
    ("mount", "losetup"),
    ("kmod", "modprobe"),
    ("python3", "python3"),
    ("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
];

pub(super) fn install() -> Result<()> {
    let mut missing = apt::missing(&NEEDED);
    if !has_pip() {
        missing.push("python3-pip");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !apt::is_present("apt-get") {
        bail!(
            "these Debian packages are missing and there is no apt-get to install them: {}. Install their programs in \
             your system's way, or use a cluster you own: `cargo xtask demo --context NAME`",
            missing.join(" ")
        );
    }
    progress::step(&format!("install {}", missing.join(" ")), || install_quietly(&missing))
}

/// No containerd of the installed packages runs afterwards, even if the installation fails.
fn install_quietly(packages: &[&str]) -> Result<()> {
    if !packages.contains(&"containerd") {
        return apt::apt_install(packages);
    }
    let quiet = Quiet::new(Path::new("/usr/sbin/policy-rc.d"))?;
    let installed = apt::apt_install(packages);
    drop(quiet);
    let service = Path::new("/lib/systemd/system/containerd.service").exists();
    let stopped = if service && Path::new("/run/systemd/system").exists() {
        run::output(Command::new("systemctl").args(["disable", "--now", "containerd.service"]))
            .map(drop)
            .context("cannot stop the containerd service that apt has started")
    } else {
        Ok(())
    };
    installed.and(stopped)
}

/// While it exists, Debian's packages start no service. A policy file of another program is not changed.
struct Quiet<'a>(Option<&'a Path>);

/// Marks our policy file, also after a run that was killed.
const POLICY: &str = "#!/bin/sh\n# written by lifeboat's `cargo xtask box up` while apt runs\nexit 101\n";

impl<'a> Quiet<'a> {
    fn new(policy: &'a Path) -> Result<Self> {
        let theirs = policy.exists() && fs::read_to_string(policy).ok().as_deref() != Some(POLICY);
        if theirs {
            return Ok(Self(None));
        }
        fs::write(policy, POLICY)
            .and_then(|()| fs::set_permissions(policy, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", policy.display()))?;
        Ok(Self(Some(policy)))
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        if let Some(policy) = self.0 {
            let _ = fs::remove_file(policy);
        }
    }
}

fn has_pip() -> bool {
    run::output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_stay_quiet_only_as_long_as_it_takes() {
        let dir = tempfile::tempdir().expect("a directory");
        let policy = dir.path().join("policy-rc.d");
        let quiet = Quiet::new(&policy).expect("written");
        assert_eq!(fs::metadata(&policy).expect("there").permissions().mode() & 0o777, 0o755);
        drop(quiet);
        assert!(!policy.exists());
        fs::write(&policy, POLICY).expect("as a killed run leaves it");
        drop(Quiet::new(&policy).expect("taken over"));
        assert!(!policy.exists());
    }

    #[test]
    fn a_policy_of_another_program_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let policy = dir.path().join("policy-rc.d");
        fs::write(&policy, "#!/bin/sh\nexit 0\n").expect("written");
        drop(Quiet::new(&policy).expect("left alone"));
        assert_eq!(fs::read_to_string(&policy).expect("still there"), "#!/bin/sh\nexit 0\n");
    }
}
