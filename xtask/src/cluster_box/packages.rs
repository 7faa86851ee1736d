//! Debian packages the box needs: finds what is missing, installs it. A containerd that apt starts by itself is not
//! ours to use and is stopped again.
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::progress;
use crate::apt::apt_install;
use crate::run;

/// A package and a file that shows it is there: a program in PATH, or a path.
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

/// Where programs of Debian packages are, also for a PATH without the sbin directories.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn install() -> Result<()> {
    let mut missing: Vec<&str> =
        NEEDED.iter().filter(|(_, file)| !is_present(file)).map(|(package, _)| *package).collect();
    if !has_pip() {
        missing.push("python3-pip");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !is_present("apt-get") {
        bail!(
            "these Debian packages are missing and there is no apt-get to install them: {}. Install what they hold in \
             your system's way, or use a cluster you own: `cargo xtask demo --context NAME`",
            missing.join(" ")
        );
    }
    progress::step(&format!("install {}", missing.join(" ")), || apt(&missing))
}

fn apt(packages: &[&str]) -> Result<()> {
    let brings_containerd = packages.contains(&"containerd");
    apt_install(packages)?;
    if brings_containerd && Path::new("/run/systemd/system").exists() {
        run::output(Command::new("systemctl").args(["disable", "--now", "containerd.service"]))
            .context("cannot stop the containerd service that apt has started")?;
    }
    Ok(())
}

fn is_present(file: &str) -> bool {
    if file.starts_with('/') {
        return Path::new(file).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(PATH.split(':')).any(|dir| Path::new(dir).join(file).exists())
}

fn has_pip() -> bool {
    run::output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok()
}
