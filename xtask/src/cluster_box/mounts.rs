//! Mounts and loop devices of the box: creates them, and finds and removes all that are in its directory.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::system;
use crate::run;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub target: PathBuf,
    pub kind: String,
}

/// The lines of /proc/self/mountinfo: the fifth field is the target, the first after ` - ` the file system.
pub(super) fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            Some(Mount {
                target: PathBuf::from(unescape(left.split(' ').nth(4)?)),
                kind: right.split(' ').next()?.to_owned(),
            })
        })
        .collect()
}

/// The kernel writes spaces and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Unmounts everything in a directory, the last mount first; a mount that is in use is detached.
pub(super) fn unmount_below(dir: &Path) -> Result<()> {
    // Shared mounts can appear again below another one, so the search is repeated until none is left.
    for _ in 0..50 {
        let text = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
        let ours: Vec<PathBuf> = parse(&text)
            .into_iter()
            .map(|mount| mount.target)
            .filter(|target| target.starts_with(dir))
            .collect();
        if ours.is_empty() {
            return Ok(());
        }
        for target in ours.iter().rev() {
            // An error is ignored: the mount is gone together with another one, or is tried again.
            let _ = system::unmount(target);
        }
    }
    anyhow::bail!("cannot unmount everything in {}; `mount` shows what is left", dir.display())
}

/// Frees loop devices whose file is in a directory: block volumes, which can be stacked, and detached mounts. A mounted
/// device is freed when it is unmounted.
pub(super) fn detach_loops_below(dir: &Path) -> Result<()> {
    for device in loops_below(dir) {
        run::output(Command::new("losetup").arg("--detach").arg(device))?;
    }
    Ok(())
}

/// The newest first, because a loop device may be the file of another one.
fn loops_below(dir: &Path) -> Vec<PathBuf> {
    let mut numbers: Vec<u32> = fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            fs::read_to_string(entry.path().join("loop/backing_file"))
                .is_ok_and(|file| lies_below(file.trim(), dir))
        })
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("loop")?.parse().ok())
        .collect();
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.into_iter().map(|number| PathBuf::from(format!("/dev/loop{number}"))).collect()
}

fn lies_below(file: &str, dir: &Path) -> bool {
    Path::new(file.trim_end_matches(" (deleted)")).starts_with(dir)
}

/// The purpose of a file system in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Data of programs that is useless after a crash: no journal, no flushes.
    Scratch,
    /// Volumes of pods: an ordinary file system.
    Volumes,
}

/// Mounts a separate file system in a sparse file: `df` shows its size, and freezing it freezes nothing else.
pub(super) fn mount_file_system(file: &Path, target: &Path, size: u64, purpose: Purpose) -> Result<()> {
    let (features, options) = match purpose {
        Purpose::Scratch => ("^has_journal", "loop,noatime,noinit_itable,nobarrier"),
        Purpose::Volumes => ("has_journal", "loop,noatime,noinit_itable"),
    };
    fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
    fs::File::create(file)
        .and_then(|created| created.set_len(size))
        .with_context(|| format!("cannot create {}", file.display()))?;
    run::output(
        Command::new("mkfs.ext4")
            .args(["-q", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", "-O", features])
            .arg(file),
    )?;
    run::output(Command::new("mount").args(["-o", options]).arg(file).arg(target))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_file_systems_are_read() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            90 27 7:0 / /var/lib/a\\040b rw shared:1 master:2 - overlay overlay rw,lowerdir=/x\n";
        assert_eq!(
            parse(text),
            [
                Mount { target: "/".into(), kind: "ext4".into() },
                Mount { target: "/var/lib/a b".into(), kind: "overlay".into() }
            ]
        );
    }

    #[test]
    fn a_file_in_the_directory_is_ours_even_when_it_was_deleted() {
        let dir = Path::new("/var/lib/lifeboat-box");
        assert!(lies_below("/var/lib/lifeboat-box/disk/x", dir));
        assert!(lies_below("/var/lib/lifeboat-box/disk.img (deleted)", dir));
        assert!(!lies_below("/var/lib/lifeboat-boxes/x", dir));
    }
}
