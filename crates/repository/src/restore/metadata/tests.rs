use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::blobs::BlobReader;
use crate::node::{Mode, Xattr};
use crate::restore::RestoreOptions;
use crate::restore::system::System;
use crate::restore::target::Target;
use crate::restore::tests::make::{file, node};
use crate::testing::memory_repository;

/// A restore without root privileges, even if root runs the test.
async fn shared(target: &Path) -> Arc<Shared> {
    let repository = memory_repository().await;
    let index = Arc::new(repository.load_index().await.unwrap());
    let options = RestoreOptions { target: target.to_owned(), ..RestoreOptions::default() };
    let target = Target::open(target, false).unwrap();
    let reader = BlobReader::new(&repository, index);
    let mut shared =
        Shared::new(reader, target, options, Arc::default(), CancellationToken::new(), System::default());
    Arc::get_mut(&mut shared).unwrap().is_root = false;
    shared
}

fn xattr(name: &str, length: usize) -> Xattr {
    Xattr { name: name.to_owned(), value: vec![b'x'; length] }
}

fn applied(shared: &Shared, directory: &Path, node: &Node) -> Option<String> {
    let handle = std::fs::File::open(directory).unwrap();
    let stat = Stat::at(handle.as_fd(), &node.name).unwrap();
    let target = MetadataTarget::Entry { directory: handle.as_fd(), name: &node.name };
    apply(shared, &target, node, &stat, true, || node.name.clone()).err().map(|failure| failure.to_string())
}

#[tokio::test]
async fn without_root_an_attribute_that_may_not_be_set_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path()).await;
    rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    // Pipes cannot have user attributes: not even root may set one.
    let pipe = node("pipe", NodeKind::Fifo, 0o010_640).with(|node| node.xattrs = vec![xattr("user.one", 1)]);
    let problem = applied(&shared, directory.path(), &pipe.node).unwrap();
    assert!(problem.contains("'user.one'"), "{problem}");
}

#[tokio::test]
async fn an_attribute_that_fails_does_not_prevent_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path()).await;
    let path = directory.path().join("file");
    std::fs::write(&path, b"x").unwrap();
    if rustix::fs::setxattr(&path, "user.old", b"0", XattrFlags::empty()).is_err() {
        return; // This file system has no attributes.
    }
    let xattrs = vec![xattr("user.large", 1 << 20), xattr("user.one", 1), xattr("user.vast", 1 << 20)];
    let file = file("file", &[b"x"]).with(|node| {
        node.xattrs = xattrs;
        node.mode = Mode::from_unix(0o100_604);
    });
    let problem = applied(&shared, directory.path(), &file.node).unwrap();
    assert!(problem.contains("'user.large'") && problem.contains("'user.vast'"), "{problem}");
    let mut value = [0; 10];
    assert_eq!(rustix::fs::getxattr(&path, "user.one", &mut value), Ok(1));
    assert_eq!(rustix::fs::getxattr(&path, "user.old", &mut value), Err(Errno::NODATA));
    let stat = Stat::of(std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!((stat.mode & 0o7777, stat.mtime), (0o604, file.node.mtime));
}

/// In a thread of its own, which is not root even if root runs the test.
#[tokio::test]
async fn without_root_an_owner_that_may_not_be_set_is_counted_and_is_no_failure() {
    const NOBODY: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    let shared = shared(directory.path()).await;
    let path = directory.path().join("file");
    std::fs::write(&path, b"x").unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let file = file("file", &[b"x"]).with(|node| (node.uid, node.gid) = (1, 1));
    let (place, counted) = (directory.path().to_owned(), Arc::clone(&shared));
    let applying = std::thread::spawn(move || {
        if is_root {
            let nobody = Some(Uid::from_raw(NOBODY));
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        applied(&counted, &place, &file.node)
    });
    assert_eq!(applying.join().unwrap(), None);
    let outcome = shared.outcome().unwrap();
    assert_eq!((outcome.kept_owner_count, &*outcome.kept_owners), (1, &["file".to_owned()][..]));
    assert!(!outcome.is_incomplete());
}
