//! Writes and removes single files durably. Blocking; called by the local backend.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::backend::{ObjectInfo, PutMode};
use crate::error::{Error, Result};
use crate::key::Key;

const UNFINISHED: &str = ".lifeboat-tmp-";

/// How often the parent directory is created again when a concurrent delete removes it because it is empty.
const PARENT_ATTEMPTS: u32 = 10;

/// The modes of new files and directories, before the umask of the process. Repositories and backups are private, as
/// with restic, unless the owner of the root lets others write to it: then they use it together, for example movers of
/// several users on one NFS export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Modes {
    file: u32,
    directory: u32,
}

impl Modes {
    /// By the permissions of the root directory.
    fn below(root: &Path) -> Self {
        match fs::metadata(root).map_or(0, |metadata| metadata.mode()) {
            mode if mode & 0o002 != 0 => Self { file: 0o666, directory: 0o777 },
            mode if mode & 0o020 != 0 => Self { file: 0o660, directory: 0o770 },
            _ => Self { file: 0o600, directory: 0o700 },
        }
    }
}

pub(super) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

pub(super) fn disk(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Disk { action, path: path.display().to_string(), source }
}

pub(super) fn info(key: &str, metadata: &Metadata) -> ObjectInfo {
    let nanoseconds = i32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    let etag = format!("{:x}-{:x}-{:x}-{nanoseconds:x}", metadata.ino(), metadata.size(), metadata.mtime());
    ObjectInfo {
        key: key.to_owned(),
        size: metadata.len(),
        modified: jiff::Timestamp::new(metadata.mtime(), nanoseconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH),
        is_dated: true,
        etag: Some(etag),
    }
}

/// Reads the bytes `range` into one buffer; fewer if the file became shorter.
pub(super) fn read(mut file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = range.end.saturating_sub(range.start);
    let mut buffer = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.seek(SeekFrom::Start(range.start))?;
    file.take(length).read_to_end(&mut buffer)?;
    Ok(buffer.into())
}

/// Creates the root for `Local::create` and flushes each directory that got a new entry.
pub(super) fn create_root(root: &Path) -> Result<()> {
    let attempt = || fs::DirBuilder::new().mode(0o700).create(root);
    let mut made = attempt();
    if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        && let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty())
    {
        create_root(parent)?;
        // Only once: some directories, such as those in /proc, report this for everything below them.
        made = attempt();
    }
    match made {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return must_be_directory(root),
        Err(error) => return Err(disk("create", root, error)),
    }
    match root.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_directory(Path::new(".")),
        Some(parent) => sync_directory(parent),
        None => Ok(()),
    }
}

fn must_be_directory(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(disk("create", path, ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let error = io::Error::new(ErrorKind::NotFound, "it is a dangling symbolic link");
            Err(disk("create", path, error))
        }
        Err(error) => Err(disk("create", path, error)),
    }
}

/// Writes `body` to `target` atomically.
pub(super) fn write(root: &Path, target: &Path, body: &[u8], mode: PutMode, key: &Key) -> Result<()> {
    let (mut file, path) = create_beside(root, target)?;
    match file.write_all(body) {
        Ok(()) => publish(&file, &path, target, mode, key),
        Err(error) => {
            discard(&path);
            Err(disk("write", &path, error))
        }
    }
}

/// Gives the finished file its name and waits until it is on disk.
pub(super) fn publish(file: &File, path: &Path, target: &Path, mode: PutMode, key: &Key) -> Result<()> {
    let published = file.sync_all().and_then(|()| match mode {
        PutMode::Overwrite => fs::rename(path, target),
        PutMode::Create => fs::hard_link(path, target),
    });
    if mode == PutMode::Create || published.is_err() {
        discard(path);
    } else {
        unfinished_now().remove(path);
    }
    match published {
        Ok(()) => target.parent().map_or(Ok(()), sync_directory),
        Err(error) if mode == PutMode::Create && error.kind() == ErrorKind::AlreadyExists => {
            Err(Error::AlreadyExists { key: key.to_string() })
        }
        Err(error) => Err(disk("write", target, error)),
    }
}

/// Creates a new hidden file in the directory of `target`, and the directory if it is missing.
pub(super) fn create_beside(root: &Path, target: &Path) -> Result<(File, PathBuf)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let parent = target.parent().unwrap_or(root);
    let modes = Modes::below(root);
    for _ in 0..PARENT_ATTEMPTS {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        // Process, time and counter: two movers on one NFS mount must not choose the same name.
        let now = jiff::Timestamp::now().as_nanosecond();
        let path = parent.join(format!("{UNFINISHED}{:x}-{now:x}-{count:x}", std::process::id()));
        match File::options().write(true).create_new(true).mode(modes.file).open(&path) {
            Ok(file) => {
                unfinished_now().insert(path.clone());
                return Ok((file, path));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => create_directories(root, parent, modes)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(disk("write", &path, error)),
        }
    }
    Err(disk("write", target, io::Error::other("other processes keep removing its directory")))
}

/// Creates `directory` below `root` and flushes each directory that got a new entry.
fn create_directories(root: &Path, directory: &Path, modes: Modes) -> Result<()> {
    let Ok(below) = directory.strip_prefix(root) else {
        return Err(disk("create", directory, ErrorKind::InvalidInput.into()));
    };
    let mut path = root.to_path_buf();
    for segment in below.components() {
        let parent = path.clone();
        path.push(segment);
        match fs::DirBuilder::new().mode(modes.directory).create(&path) {
            Ok(()) => sync_directory(&parent)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // A concurrent delete removed it: the caller tries again.
            Err(error) if error.kind() == ErrorKind::NotFound && parent != root => return Ok(()),
            Err(error) => return Err(disk("create", &path, error)),
        }
    }
    Ok(())
}

/// Removes a file, and the directories that become empty: a bucket has no empty directories.
pub(super) fn remove(root: &Path, path: &Path) -> Result<()> {
    unfinished_now().remove(path);
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        // A prefix is not an object.
        Err(error) if error.kind() == ErrorKind::IsADirectory => return Ok(()),
        Err(error) => return Err(disk("delete", path, error)),
    }
    let mut parent = path.parent();
    while let Some(directory) = parent.filter(|directory| *directory != root && directory.starts_with(root)) {
        if fs::remove_dir(directory).is_err() {
            break;
        }
        parent = directory.parent();
    }
    Ok(())
}

/// The current time of the file system, which may be on another machine: the modification time of a new file.
pub(super) fn clock(root: &Path) -> Result<jiff::Timestamp> {
    let (file, path) = create_beside(root, &root.join("clock"))?;
    let metadata = file.metadata();
    discard(&path);
    metadata.map(|metadata| info("clock", &metadata).modified).map_err(|error| disk("read", &path, error))
}

/// The hidden files that this process is writing.
fn unfinished_now() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that this process is still writing, for a process that exits without waiting for its writers.
/// Writers that continue get an error.
pub fn abandon_unfinished() {
    abandon_below(Path::new(""));
}

fn abandon_below(directory: &Path) {
    for path in unfinished_now().extract_if(.., |path| path.starts_with(directory)) {
        let _ = fs::remove_file(path);
    }
}

/// Best effort: a file that cannot be removed is hidden, and its name marks it as unfinished.
fn discard(path: &Path) {
    unfinished_now().remove(path);
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "cannot remove an unfinished file");
    }
}

fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|d| d.sync_all()).map_err(|error| disk("flush", directory, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::private(0o755, 0o700, 0o600)]
    #[case::of_a_group(0o2775, 0o770, 0o660)]
    #[case::of_everyone(0o1777, 0o777, 0o666)]
    fn files_and_directories_are_private_unless_the_root_is_shared(
        #[case] of_root: u32,
        #[case] of_directories: u32,
        #[case] of_files: u32,
    ) {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (root, key) = (directory.path(), Key::new("keys/a").unwrap());
        fs::set_permissions(root, fs::Permissions::from_mode(of_root)).unwrap();
        write(root, &root.join("keys/a"), b"x", PutMode::Overwrite, &key).unwrap();
        let mode = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o777;
        let own = |name: &str| (mode(name) & 0o700, mode(name) & 0o077);
        // The umask of the tests may take away more.
        for (name, expected) in [("keys", of_directories), ("keys/a", of_files)] {
            assert_eq!(own(name).0, expected & 0o700, "{name}: {:o}", mode(name));
            assert_eq!(own(name).1 & !expected, 0, "{name}: {:o}", mode(name));
        }
    }

    #[test]
    fn a_process_that_ends_takes_its_unfinished_files_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let (root, key) = (directory.path(), Key::new("a/c").unwrap());
        let (file, path) = create_beside(root, &root.join("a/b")).unwrap();
        write(root, &root.join("a/c"), b"x", PutMode::Overwrite, &key).unwrap();
        write(root, &root.join("a/d"), b"x", PutMode::Create, &key).unwrap();
        abandon_below(root);
        let left: BTreeSet<_> =
            fs::read_dir(root.join("a")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["c", "d"].map(Into::into).into());
        assert!(publish(&file, &path, &root.join("a/b"), PutMode::Overwrite, &key).is_err());
        assert!(!unfinished_now().iter().any(|path| path.starts_with(root)));
    }
}
