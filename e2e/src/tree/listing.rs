//! The files below a directory as far as a backup must store them, and the differences between two listings. Access
//! times and change times are not included: no program can set the latter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{lgetxattr, llistxattr, major, minor};
use sha2::{Digest, Sha256};

/// Entries by their path below the root; the root itself is the empty path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing(pub BTreeMap<PathBuf, Entry>);

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub content: Content,
    /// Permissions with the setuid, setgid and sticky bits.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The number of names of the file, and the first of them in this tree.
    pub names: (u64, PathBuf),
    /// Its size on disk, in blocks of 512 bytes.
    pub blocks: u64,
}

/// The type of an entry and its content.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The hash is SHA-256.
    File {
        size: u64,
        hash: [u8; 32],
    },
    Directory,
    Link {
        target: Vec<u8>,
    },
    Fifo,
    Socket,
    CharacterDevice {
        major: u32,
        minor: u32,
    },
    BlockDevice {
        major: u32,
        minor: u32,
    },
}

impl Listing {
    /// Reads everything below `root`, and `root` itself.
    pub fn of(root: &Path) -> Self {
        let mut entries = BTreeMap::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(path) = pending.pop() {
            let full = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(&path) };
            let entry = entry(&full, &path);
            if entry.content == Content::Directory {
                let inner =
                    fs::read_dir(&full).unwrap_or_else(|error| panic!("cannot read {full:?}: {error}"));
                pending.extend(inner.map(|each| path.join(each.unwrap().file_name())));
            }
            entries.insert(path, entry);
        }
        Self(with_first_names(root, entries))
    }

    /// All differences of `found` from this listing, one per line. The size on disk is not compared: see
    /// [`Listing::holes_lost`].
    #[must_use]
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, expected) in &self.0 {
            match found.0.get(path) {
                None => lines.push(format!("{path:?}: is missing")),
                Some(entry) => compare(path, expected, entry, &mut lines),
            }
        }
        lines.extend(
            found
                .0
                .keys()
                .filter(|path| !self.0.contains_key(*path))
                .map(|path| format!("{path:?}: is extra")),
        );
        lines
    }

    /// Files that use more disk space than before, by more than `slack` bytes: programs differ in the smallest hole
    /// that they keep.
    #[must_use]
    pub fn holes_lost(&self, found: &Self, slack: u64) -> Vec<String> {
        let both =
            self.0.iter().filter_map(|(path, entry)| Some((path, entry.blocks, found.0.get(path)?.blocks)));
        both.filter(|(_, before, after)| *after > before + slack / 512)
            .map(|(path, before, after)| format!("{path:?}: takes {after} blocks, expected {before}"))
            .collect()
    }

    /// Without sockets, which restic stores and does not restore.
    #[must_use]
    pub fn without_sockets(mut self) -> Self {
        self.0.retain(|_, entry| entry.content != Content::Socket);
        self
    }

    /// Fails the test with all differences, or with the first hundred.
    pub fn assert_same(&self, found: &Self, what: &str) {
        let lines = self.differences(found);
        let shown: Vec<&str> = lines.iter().take(100).map(String::as_str).collect();
        assert!(lines.is_empty(), "{what}: {} differences:\n{}", lines.len(), shown.join("\n"));
    }
}

fn compare(path: &Path, expected: &Entry, found: &Entry, lines: &mut Vec<String>) {
    let mut differ = |what: &str, is: String, should: String| {
        if is != should {
            lines.push(format!("{path:?}: {what} is {is}, expected {should}"));
        }
    };
    differ("content", found.content.to_string(), expected.content.to_string());
    differ("mode", format!("{:04o}", found.mode), format!("{:04o}", expected.mode));
    differ("user", found.user.to_string(), expected.user.to_string());
    differ("group", found.group.to_string(), expected.group.to_string());
    let time = |(seconds, nanoseconds): (i64, i64)| format!("{seconds} s + {nanoseconds} ns");
    differ("time of modification", time(found.modified), time(expected.modified));
    let names = |(count, first): &(u64, PathBuf)| format!("{count}, the first {first:?}");
    differ("number of names", names(&found.names), names(&expected.names));
    let all: BTreeSet<&Vec<u8>> = expected.attributes.keys().chain(found.attributes.keys()).collect();
    for name in all {
        let value = |entry: &Entry| entry.attributes.get(name).map_or("missing".into(), |value| shown(value));
        differ(&format!("attribute {}", shown(name)), value(found), value(expected));
    }
}

impl Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { size, hash } => {
                write!(f, "a file of {size} bytes with hash ")?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Directory => f.write_str("a directory"),
            Self::Link { target } => write!(f, "a link to {}", shown(target)),
            Self::Fifo => f.write_str("a fifo"),
            Self::Socket => f.write_str("a socket"),
            Self::CharacterDevice { major, minor } => write!(f, "a character device {major}:{minor}"),
            Self::BlockDevice { major, minor } => write!(f, "a block device {major}:{minor}"),
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn entry(full: &Path, path: &Path) -> Entry {
    let metadata = fs::symlink_metadata(full).unwrap_or_else(|error| panic!("cannot read {full:?}: {error}"));
    let content = content(full, &metadata);
    let names = if content == Content::Directory { 1 } else { metadata.nlink() };
    Entry {
        content,
        mode: metadata.mode() & 0o7777,
        user: metadata.uid(),
        group: metadata.gid(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        attributes: attributes(full),
        names: (names, path.to_owned()),
        blocks: metadata.blocks(),
    }
}

fn content(full: &Path, metadata: &Metadata) -> Content {
    let kind = metadata.file_type();
    let (major, minor) = (major(metadata.rdev()), minor(metadata.rdev()));
    if kind.is_file() {
        Content::File { size: metadata.len(), hash: hash(full) }
    } else if kind.is_dir() {
        Content::Directory
    } else if kind.is_symlink() {
        Content::Link { target: fs::read_link(full).unwrap().as_os_str().as_bytes().to_vec() }
    } else if kind.is_fifo() {
        Content::Fifo
    } else if kind.is_socket() {
        Content::Socket
    } else if kind.is_char_device() {
        Content::CharacterDevice { major, minor }
    } else {
        Content::BlockDevice { major, minor }
    }
}

fn hash(full: &Path) -> [u8; 32] {
    let mut file = File::open(full).unwrap_or_else(|error| panic!("cannot read {full:?}: {error}"));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => break,
            length => hash.update(&buffer[..length]),
        }
    }
    hash.finalize().into()
}

fn attributes(full: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut buffer = vec![0; 1 << 16];
    let length = llistxattr(full, &mut buffer).unwrap_or(0);
    let names: Vec<Vec<u8>> = buffer[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    let value = |name: &Vec<u8>| {
        let mut buffer = vec![0; 1 << 16];
        let length = lgetxattr(full, name.as_slice(), &mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    };
    names.iter().map(|name| (name.clone(), value(name))).collect()
}

/// Hard links have a common inode, which differs in a restored tree; the first name replaces it.
fn with_first_names(root: &Path, mut entries: BTreeMap<PathBuf, Entry>) -> BTreeMap<PathBuf, Entry> {
    let mut first: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    for (path, entry) in entries.iter_mut().filter(|(_, entry)| entry.names.0 > 1) {
        let metadata = fs::symlink_metadata(root.join(path)).unwrap();
        let name = first.entry((metadata.dev(), metadata.ino())).or_insert_with(|| path.clone());
        entry.names.1.clone_from(name);
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use super::*;

    fn tree(make: impl Fn(&Path)) -> Listing {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let file = root.path().join(name);
            fs::write(&file, "text").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        symlink("a", root.path().join("link")).unwrap();
        make(root.path());
        let mut listing = Listing::of(root.path());
        // The current times differ from tree to tree.
        for (path, entry) in &mut listing.0 {
            if path != Path::new("b") || entry.modified.0 > 2000 {
                entry.modified = (0, 0);
            }
        }
        listing
    }

    #[test]
    fn a_tree_is_the_same_as_itself() {
        assert_eq!(tree(|_| {}).differences(&tree(|_| {})), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_listed_by_name() {
        let expected = tree(|_| {});
        let differences = |make: fn(&Path)| expected.differences(&tree(make)).join("; ");
        assert_eq!(differences(|root| fs::remove_file(root.join("a")).unwrap()), "\"a\": is missing");
        assert_eq!(differences(|root| fs::write(root.join("d"), "").unwrap()), "\"d\": is extra");
        assert!(
            differences(|root| fs::write(root.join("a"), "Text").unwrap())
                .contains("\"a\": content is a file of 4")
        );
        let chmod =
            |root: &Path| fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o4711)).unwrap();
        assert_eq!(differences(chmod), "\"a\": mode is 4711, expected 0644");
        let stamp = |root: &Path| {
            let file = File::options().write(true).open(root.join("b")).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1000, 1)).unwrap();
        };
        assert_eq!(differences(stamp), "\"b\": time of modification is 1000 s + 1 ns, expected 0 s + 0 ns");
        let link = |root: &Path| {
            fs::remove_file(root.join("link")).unwrap();
            symlink("b", root.join("link")).unwrap();
        };
        assert_eq!(differences(link), "\"link\": content is a link to \"b\", expected a link to \"a\"");
    }

    #[test]
    fn names_of_one_file_are_distinguished_from_copies() {
        let linked = |names: [&str; 2]| {
            tree(|root| {
                fs::remove_file(root.join(names[1])).unwrap();
                fs::hard_link(root.join(names[0]), root.join(names[1])).unwrap();
            })
        };
        assert_eq!(linked(["a", "b"]).differences(&linked(["a", "b"])), Vec::<String>::new());
        let lines = linked(["a", "b"]).differences(&linked(["b", "c"]));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[1], "\"b\": number of names is 2, the first \"b\", expected 2, the first \"a\"");
    }

    #[test]
    fn a_file_that_lost_its_holes_is_named() {
        let sparse = tree(|root| File::create(root.join("a")).unwrap().set_len(1 << 20).unwrap());
        let full = tree(|root| fs::write(root.join("a"), vec![0; 1 << 20]).unwrap());
        assert_eq!(sparse.differences(&full), Vec::<String>::new());
        assert!(
            sparse.holes_lost(&full, 1 << 16)[0].starts_with("\"a\": takes 20"),
            "{:?}",
            sparse.holes_lost(&full, 1 << 16)
        );
    }
}
