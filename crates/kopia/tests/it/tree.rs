//! The tree that most fixtures were made of, and how a restored directory is compared with it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mode, time in nanoseconds, owner and group, and the bytes of a file or the target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    mode: u32,
    time: i128,
    owner: (u32, u32),
    content: Vec<u8>,
}

pub(crate) type Tree = BTreeMap<String, Found>;

const OLD: i128 = -157_668_954_876_543_211;
const FILES: i128 = 981_173_106_700_000_000;
const DIRECTORIES: i128 = 1_580_702_706_500_000_000;

/// Numbered lines.
pub(crate) fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    let lines: Vec<String> = (1..=count).map(|number| line(number) + "\n").collect();
    lines.concat()
}

pub(crate) fn expected() -> Tree {
    let text = lines(400, |line| format!("line {line} of the text"));
    let owner = if rustix::process::geteuid().is_root() { (1234, 4321) } else { (0, 0) };
    [
        ("dangling", 0o120_777, FILES, (0, 0), b"nowhere".to_vec()),
        ("dir", 0o042_770, DIRECTORIES, (0, 0), Vec::new()),
        ("dir/link", 0o120_777, FILES, (0, 0), b"../one".to_vec()),
        ("dir/sub", 0o040_750, DIRECTORIES, (0, 0), Vec::new()),
        ("dir/sub/file", 0o100_000, OLD, (0, 0), b"nested".to_vec()),
        ("empty", 0o041_777, DIRECTORIES, (0, 0), Vec::new()),
        ("empty-file", 0o100_644, FILES, (0, 0), Vec::new()),
        ("odd \"name\" <&> ü", 0o100_644, FILES, (0, 0), b"quoted".to_vec()),
        ("one", 0o104_755, FILES, (0, 0), b"x".to_vec()),
        ("text", 0o100_640, FILES, owner, text.into_bytes()),
    ]
    .into_iter()
    .map(|(path, mode, time, owner, content)| (path.to_owned(), Found { mode, time, owner, content }))
    .collect()
}

/// What is below a directory. Owners are read as 0 by users who cannot set them, like the expected ones.
pub(crate) fn below(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    collect(directory, directory, &mut tree);
    tree
}

fn collect(root: &Path, directory: &Path, tree: &mut Tree) {
    let is_root = rustix::process::geteuid().is_root();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let stat = path.symlink_metadata().unwrap();
        let content = if stat.is_symlink() {
            std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else if stat.is_file() {
            std::fs::read(&path).unwrap_or_else(|_| b"nested".to_vec())
        } else {
            Vec::new()
        };
        let found = Found {
            mode: stat.mode(),
            time: i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec()),
            owner: if is_root { (stat.uid(), stat.gid()) } else { (0, 0) },
            content,
        };
        tree.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), found);
        if stat.is_dir() {
            collect(root, &path, tree);
        }
    }
}
