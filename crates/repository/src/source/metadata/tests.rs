//! On real temporary directories; what needs root is skipped for other users.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode as Bits, XattrFlags, fsetxattr, lsetxattr, makedev, mknodat};

use super::*;
use crate::node::Xattr;

fn reader(options: MetadataOptions) -> NodeReader {
    let accounts = Accounts::parse(b"someone:x:0:0:::\n", b"some:x:0:\n");
    NodeReader { options, accounts, zone: Zone::new(jiff::tz::TimeZone::UTC) }
}

fn node(dir: &Path, name: &str) -> Taken {
    let dir = File::open(dir).unwrap();
    reader(MetadataOptions::default()).node_of(dir.as_fd(), name.as_bytes()).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_file_has_all_that_the_file_system_tells() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "hello").unwrap();
    let expected = fs::symlink_metadata(&path).unwrap();
    let Taken { node, stat, problems } = node(dir.path(), "file");
    assert!(problems.is_empty());
    assert!(stat.is_file() && !stat.is_directory());
    assert_eq!(
        (node.name.as_slice(), &node.kind, node.size, node.links),
        (&b"file"[..], &NodeKind::File, 5, 1)
    );
    assert_eq!(node.mode, Mode::from_unix(expected.mode()));
    assert_eq!((node.inode, node.device_id), (expected.ino(), expected.dev()));
    assert_eq!((node.uid, node.gid), (expected.uid(), expected.gid()));
    assert_eq!(
        (node.mtime.seconds, i64::from(node.mtime.nanoseconds)),
        (expected.mtime(), expected.mtime_nsec())
    );
    assert_eq!(
        (node.ctime.seconds, i64::from(node.ctime.nanoseconds)),
        (expected.ctime(), expected.ctime_nsec())
    );
    assert_eq!((node.atime, node.device, node.content), (node.mtime, 0, None));
    if is_root() {
        assert_eq!((node.user.as_str(), node.group.as_str()), ("someone", "some"));
    }
}

#[test]
fn the_time_of_access_is_stored_on_request_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::create(dir.path().join("file")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(12);
    file.set_times(fs::FileTimes::new().set_accessed(old)).unwrap();
    let options = MetadataOptions { with_atime: true, ..MetadataOptions::default() };
    let taken = reader(options).for_open_file(file.as_fd(), b"file").unwrap();
    assert_eq!(taken.node.atime.seconds, 12);
    let taken = node(dir.path(), "file");
    assert_eq!(taken.node.atime, taken.node.mtime);
}

#[test]
fn numbers_of_file_systems_can_be_kept_for_hard_links_only() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["single", "double"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    fs::hard_link(dir.path().join("double"), dir.path().join("other")).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    let options = MetadataOptions { device_ids: DeviceIds::HardLinks, ..MetadataOptions::default() };
    let handle = File::open(dir.path()).unwrap();
    let device =
        |name: &str| reader(options).node_of(handle.as_fd(), name.as_bytes()).unwrap().node.device_id;
    assert_eq!((device("single"), device("dir")), (0, 0));
    assert_eq!(device("double"), handle.metadata().unwrap().dev());
    assert_eq!(node(dir.path(), "double").node.links, 2);
    assert_ne!(node(dir.path(), "dir").node.device_id, 0);
}

#[test]
fn a_link_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/nowhere/at all", dir.path().join("link")).unwrap();
    let Taken { node, .. } = node(dir.path(), "link");
    assert_eq!((node.kind, node.size, node.links), (NodeKind::Symlink, 0, 1));
    assert_eq!(node.link_target, b"/nowhere/at all");
}

#[test]
fn directories_and_pipes_have_no_count_of_links_and_no_size() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Bits::RUSR, 0).unwrap();
    for (name, kind) in [("dir", NodeKind::Directory), ("pipe", NodeKind::Fifo)] {
        let Taken { node, .. } = node(dir.path(), name);
        assert_eq!((node.kind, node.links, node.size, node.device), (kind, 0, 0, 0));
    }
}

#[test]
fn devices_have_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let made = [("char", FileType::CharacterDevice), ("block", FileType::BlockDevice)].map(|(name, kind)| {
        mknodat(CWD, dir.path().join(name), kind, Bits::RUSR, makedev(300, 70_000)).is_ok()
    });
    if made != [true, true] {
        return;
    }
    let nodes = ["char", "block"].map(|name| node(dir.path(), name).node);
    assert_eq!([&nodes[0].kind, &nodes[1].kind], [&NodeKind::CharDevice, &NodeKind::BlockDevice]);
    for node in nodes {
        assert_eq!((node.device, node.links), (makedev(300, 70_000), 1));
    }
}

#[test]
fn extended_attributes_are_read_by_name_and_by_handle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = File::create(&path).unwrap();
    let long = vec![7; 3000];
    for (name, value) in [("user.empty", &b""[..]), ("user.long", &long), ("user.short", b"\0\xff")] {
        if fsetxattr(&file, name, value, XattrFlags::CREATE).is_err() {
            return; // not on this file system
        }
    }
    let open = reader(MetadataOptions::default()).for_open_file(file.as_fd(), b"file").unwrap();
    let named = node(dir.path(), "file");
    assert!(open.problems.is_empty() && named.problems.is_empty());
    assert_eq!(open.node, named.node);
    let mut xattrs = named.node.xattrs;
    xattrs.sort_by(|a, b| a.name.cmp(&b.name));
    let expected = [("user.empty", Vec::new()), ("user.long", long), ("user.short", b"\0\xff".to_vec())];
    let expected = expected.map(|(name, value)| Xattr { name: name.to_owned(), value });
    let found: Vec<_> = xattrs.into_iter().filter(|xattr| xattr.name.starts_with("user.")).collect();
    assert_eq!(found, expected);
}

#[test]
fn attributes_of_links_and_devices_are_their_own() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("target"), "").unwrap();
    symlink("target", dir.path().join("link")).unwrap();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Bits::RUSR, 0).unwrap();
    for name in ["link", "pipe"] {
        // Only root may set attributes of anything but files and directories.
        if lsetxattr(dir.path().join(name), "trusted.own", name.as_bytes(), XattrFlags::empty()).is_err() {
            return;
        }
    }
    for name in ["link", "pipe"] {
        let own = Xattr { name: "trusted.own".to_owned(), value: name.as_bytes().to_vec() };
        assert!(node(dir.path(), name).node.xattrs.contains(&own));
    }
    assert!(!node(dir.path(), "target").node.xattrs.iter().any(|xattr| xattr.name == "trusted.own"));
}

#[test]
fn a_missing_entry_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let handle = File::open(dir.path()).unwrap();
    let error = reader(MetadataOptions::default()).node_of(handle.as_fd(), b"gone").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
