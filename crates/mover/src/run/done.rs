//! The end of a restore into a volume: flushes everything to disk, then creates the file that a waiting pod polls
//! for. No symbolic link from the snapshot is followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fsync, mkdirat, openat, statat, syncfs};
use rustix::io::Errno;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether the done file exists. A symbolic link does not count, nor does a file behind one.
pub(super) fn is_there(target: &OwnedFd, file: &Path) -> bool {
    let look = || -> io::Result<bool> {
        let mut directory = target.try_clone()?;
        for name in file.parent().into_iter().flat_map(Path::components) {
            directory = openat(&directory, name.as_os_str(), DIRECTORY, Mode::empty())?;
        }
        let Some(name) = file.file_name() else { return Ok(false) };
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    };
    look().unwrap_or(false)
}

/// Opens the directory of this name, or creates it. A symbolic link is refused.
pub(super) fn directory(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let made = match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
    if made {
        // A pod of any user must see it, whatever the umask of this process is.
        fchmod(&directory, Mode::from_raw_mode(0o755))?;
        fsync(parent)?;
    }
    Ok(directory)
}

/// `file` is a path below the target, made of plain names.
pub(super) fn finish(target: &OwnedFd, file: Option<&Path>) -> io::Result<()> {
    syncfs(target)?;
    let Some(file) = file else { return Ok(()) };
    let mut directory = target.try_clone()?;
    let parents = file.parent().into_iter().flat_map(Path::components);
    for name in parents {
        directory = self::directory(&directory, name.as_os_str())?;
    }
    let Some(name) = file.file_name() else { return Err(Errno::INVAL.into()) };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let made = openat(&directory, name, flags, Mode::from_raw_mode(0o644))?;
    fchmod(&made, Mode::from_raw_mode(0o644))?;
    fsync(&made)?;
    fsync(&directory)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open(path: &Path) -> OwnedFd {
        std::fs::File::open(path).unwrap().into()
    }

    #[test]
    fn any_user_can_see_the_file() {
        let target = tempfile::tempdir().unwrap();
        let file = Path::new(".velero/uid-1");
        assert!(!is_there(&open(target.path()), file));
        for _ in 0..2 {
            finish(&open(target.path()), Some(file)).unwrap();
            let mode = |path: &str| target.path().join(path).metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(".velero"), mode(".velero/uid-1")), (0o755, 0o644));
            assert!(is_there(&open(target.path()), file));
        }
    }

    #[rstest::rstest]
    fn planted_links_are_not_followed(#[values(".velero", ".velero/uid-1")] link: &str) {
        let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = target.path().join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::fs::create_dir(outside.path().join("planted")).unwrap();
        std::fs::write(outside.path().join("planted/uid-1"), "").unwrap();
        symlink(outside.path().join("planted"), &link).unwrap();
        assert!(!is_there(&open(target.path()), Path::new(".velero/uid-1")));
        assert!(finish(&open(target.path()), Some(Path::new(".velero/uid-1"))).is_err());
        assert_eq!(std::fs::read_dir(outside.path().join("planted")).unwrap().count(), 1);
    }
}
