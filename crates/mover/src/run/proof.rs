//! The directory of a volume, opened once, and the proof that it is the expected volume: checked before anything is
//! read or written, and again before the result counts. When a pod ends, its volume is unmounted and an empty
//! directory remains; that must become a failure and never an empty backup.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;
use serde::Deserialize;

use crate::report::{Cause, Failure};
use crate::task::Proof;

/// How directories are opened: never through a symbolic link.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An opened directory.
pub(super) struct Volume {
    path: PathBuf,
    directory: OwnedFd,
    proof: Option<Proof>,
}

/// The target of a path below a volume.
pub(super) enum Below {
    Directory(OwnedFd),
    File {
        /// The directory that contains the file.
        directory: OwnedFd,
        name: String,
    },
}

/// Whether a directory has a file of this name; a symbolic link is none.
pub(super) fn has_file(directory: &OwnedFd, name: &str) -> bool {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// The file that the kubelet keeps beside a CSI volume's mount point.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeData {
    driver_name: String,
    volume_handle: String,
}

impl Volume {
    /// Opens the directory and checks its proof for the first time.
    pub(super) fn open(path: &Path, proof: Option<&Proof>) -> Result<Self, Failure> {
        let directory = open_directory(path).map_err(|error| wrong(path, &gone(error)))?;
        let volume = Self { path: path.to_owned(), directory, proof: proof.cloned() };
        volume.prove()?;
        Ok(volume)
    }

    pub(super) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what is below the volume's root: a directory, or the one that has the file. A symbolic link in the path is
    /// refused: it could lead out of the volume. `at`: its path as the user knows it, for messages.
    pub(super) fn open_below(&self, sub_path: &str, at: Option<&str>) -> Result<Below, Failure> {
        let failed = |error: io::Error| {
            let below = || format!("directory '{sub_path}' of the volume '{}'", self.path.display());
            let what = at.map_or_else(below, |at| format!("'{at}'"));
            let message = format!("cannot open {what}: {error}");
            Failure { cause: Cause::Source, message }
        };
        let mut directory = self.directory.try_clone().map_err(failed)?;
        let names = names_of("subPath", sub_path)?;
        for (place, &name) in names.iter().enumerate() {
            match openat(&directory, name, DIRECTORY, Mode::empty()) {
                Ok(opened) => directory = opened,
                Err(Errno::NOTDIR) if place + 1 == names.len() && has_file(&directory, name) => {
                    return Ok(Below::File { directory, name: name.to_owned() });
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        Ok(Below::Directory(directory))
    }

    pub(super) fn stat(&self) -> Result<Stat, Failure> {
        fstat(&self.directory).map_err(|error| wrong(&self.path, &io::Error::from(error).to_string()))
    }

    /// Fails unless the path still leads to the opened directory and the proof holds.
    pub(super) fn prove(&self) -> Result<(), Failure> {
        let wrong = |problem: &str| wrong(&self.path, problem);
        let now = open_directory(&self.path).map_err(|error| wrong(&gone(error)))?;
        let (held, found) = (self.stat()?, fstat(&now).map_err(|error| wrong(&gone(error)))?);
        if (held.st_dev, held.st_ino) != (found.st_dev, found.st_ino) {
            return Err(wrong("another directory has taken its place: the volume was unmounted or replaced"));
        }
        if held.st_nlink == 0 {
            return Err(wrong("it was removed: the pod has ended"));
        }
        match &self.proof {
            None | Some(Proof::Directory) => Ok(()),
            Some(Proof::MountPoint) => self.must_be_mounted(&now),
            Some(Proof::Csi { file, driver, handle }) => {
                self.must_be_mounted(&now)?;
                compare(file, driver, handle).map_err(|problem| wrong(&problem))
            }
        }
    }

    fn must_be_mounted(&self, directory: &OwnedFd) -> Result<(), Failure> {
        match is_mount_point(directory, &self.path) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(wrong(&self.path, "no volume is mounted there: it was unmounted, or not yet mounted"))
            }
            Err(error) => {
                Err(wrong(&self.path, &format!("cannot find out whether it is a mount point: {error}")))
            }
        }
    }
}

/// The components of a path below a volume; the path may start with a slash.
pub(super) fn names_of<'a>(field: &str, path: &'a str) -> Result<Vec<&'a str>, Failure> {
    let names: Vec<_> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.is_empty() || names.contains(&"..") || path.contains('\0') {
        let message =
            format!("{field}: '{path}' is not a path below the volume; expected one like data/files");
        return Err(Failure { cause: Cause::Task, message });
    }
    Ok(names)
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    open(path, DIRECTORY, Mode::empty())
}

fn gone(error: rustix::io::Errno) -> String {
    match error {
        rustix::io::Errno::NOENT => {
            "it does not exist: the pod has ended, or runs on another node".to_owned()
        }
        other => io::Error::from(other).to_string(),
    }
}

fn wrong(path: &Path, problem: &str) -> Failure {
    let message = format!("'{}' is not the expected volume: {problem}", path.display());
    Failure { cause: Cause::WrongVolume, message }
}

/// Whether a file system is mounted exactly at the opened directory. Compares mount IDs, because a bind mount has the
/// same device as its source.
fn is_mount_point(directory: &OwnedFd, path: &Path) -> io::Result<bool> {
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_fd().as_raw_fd()))?;
    let number = about.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim);
    let Some(number) = number else {
        return Err(io::Error::other("the kernel does not report the mount ID"));
    };
    let path = fs::canonicalize(path)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(mount_point(&mounts, number).is_some_and(|point| point == path))
}

/// The mount point of this mount ID, from `mountinfo`.
fn mount_point(mounts: &str, number: &str) -> Option<PathBuf> {
    let mut lines = mounts.lines().map(|line| line.split(' '));
    let mut fields = lines.find(|fields| fields.clone().next() == Some(number))?;
    Some(PathBuf::from(unescaped(fields.nth(4)?)))
}

/// Spaces, tabs, newlines and backslashes are written as three octal digits.
fn unescaped(text: &str) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    std::ffi::OsString::from_vec(bytes)
}

fn compare(file: &Path, driver: &str, handle: &str) -> Result<(), String> {
    let named = file.display();
    let content = fs::read(file).map_err(|error| format!("cannot read '{named}': {error}"))?;
    let data: VolumeData =
        serde_json::from_slice(&content).map_err(|error| format!("cannot parse '{named}': {error}"))?;
    if data.driver_name == driver && data.volume_handle == handle {
        return Ok(());
    }
    Err(format!(
        "'{named}' names driver '{}' and volume '{}', expected '{driver}' and '{handle}'",
        data.driver_name, data.volume_handle
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
        36 22 0:44 /a /mnt/with\\040space rw,noatime master:1 - tmpfs tmpfs rw\n";

    #[rstest::rstest]
    #[case("22", Some("/"))]
    #[case("36", Some("/mnt/with space"))]
    #[case("6", None)]
    fn mount_points_are_found_by_their_id(#[case] number: &str, #[case] expected: Option<&str>) {
        assert_eq!(mount_point(MOUNTS, number), expected.map(PathBuf::from));
    }

    #[test]
    fn a_mount_point_is_distinguished_from_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Volume::open(Path::new("/proc"), Some(&Proof::MountPoint)).is_ok());
        let failure = Volume::open(directory.path(), Some(&Proof::MountPoint)).err().unwrap();
        assert_eq!(failure.cause, Cause::WrongVolume);
        assert!(failure.message.contains("no volume is mounted there"), "{}", failure.message);
    }

    #[test]
    fn a_directory_that_is_replaced_or_removed_is_noticed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("volume");
        fs::create_dir(&path).unwrap();
        let volume = Volume::open(&path, Some(&Proof::Directory)).unwrap();
        volume.prove().unwrap();
        fs::rename(&path, parent.path().join("old")).unwrap();
        assert!(volume.prove().unwrap_err().message.contains("the pod has ended"));
        fs::create_dir(&path).unwrap();
        assert!(volume.prove().unwrap_err().message.contains("another directory has taken its place"));
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(parent.path().join("old"), &path).unwrap();
        assert_eq!(volume.prove().unwrap_err().cause, Cause::WrongVolume);
    }

    #[rstest::rstest]
    #[case(r#"{"driverName":"csi.test","volumeHandle":"v-1","specVolID":"pvc-1"}"#, None)]
    #[case(r#"{"driverName":"csi.test","volumeHandle":"v-2"}"#, Some("volume 'v-2', expected"))]
    #[case(r#"{"driverName":"other","volumeHandle":"v-1"}"#, Some("driver 'other'"))]
    #[case("{}", Some("cannot parse"))]
    fn the_kubelets_record_has_to_name_the_volume(#[case] content: &str, #[case] problem: Option<&str>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("vol_data.json");
        fs::write(&file, content).unwrap();
        match (compare(&file, "csi.test", "v-1"), problem) {
            (Ok(()), None) => {}
            (Err(text), Some(problem)) => assert!(text.contains(problem), "{text}"),
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
}
