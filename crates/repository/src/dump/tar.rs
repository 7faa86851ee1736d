//! A directory as a tar archive in the POSIX format: what the classic header cannot contain (long names, large files,
//! fractions of seconds, attributes, ACLs) is in an extended header before it. As in restic, only files, directories
//! and links are written.

use super::acl;
use super::pieces::{Pieces, walk};
use crate::blobs::BlobReader;
use crate::error::Result;
use crate::id::BlobId;
use crate::node::{Node, NodeKind, NodeTime};

const BLOCK: usize = 512;
/// The largest number that fits into a field of eleven octal digits.
const LARGEST: u64 = 0o77_777_777_777;
const LARGEST_ID: u32 = 0o7_777_777;

/// Writes everything below `tree`.
pub(super) fn archive(reader: &BlobReader, tree: BlobId, prefix: Vec<u8>, pieces: &mut Pieces) -> Result<()> {
    walk(reader, tree, prefix, &mut |path, node| {
        if !matches!(node.kind, NodeKind::File | NodeKind::Directory | NodeKind::Symlink) {
            return Ok(());
        }
        pieces.bytes(headers(path, &node))?;
        if node.is_file() {
            pieces.content(&node)?;
            pieces.bytes(vec![0; padding(node.size)])?;
        }
        Ok(())
    })?;
    pieces.bytes(vec![0; 2 * BLOCK])
}

fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    if over == 0 { 0 } else { BLOCK - over }
}

/// The header of an entry, preceded by the extended one.
fn headers(path: &[u8], node: &Node) -> Vec<u8> {
    let mut name = path.to_vec();
    if node.is_directory() {
        name.push(b'/');
    }
    let size = if node.is_file() { node.size } else { 0 };
    let records = records(&name, node, size);
    let mut bytes = Vec::with_capacity(3 * BLOCK + records.len());
    let extended = Fields {
        name: &b"PaxHeaders.0/entry"[..],
        size: records.len() as u64,
        mode: 0o644,
        ..Fields::default()
    };
    bytes.extend(extended.header(b'x'));
    bytes.extend_from_slice(&records);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    let kind = match node.kind {
        NodeKind::Directory => b'5',
        NodeKind::Symlink => b'2',
        _ => b'0',
    };
    let fields = Fields {
        name: &name,
        link: &node.link_target,
        size,
        mode: node.mode.permissions(),
        uid: node.uid,
        gid: node.gid,
        user: node.user.as_bytes(),
        group: node.group.as_bytes(),
        mtime: node.mtime.seconds,
    };
    bytes.extend(fields.header(kind));
    bytes
}

/// The records of the extended header. Times are always included: the classic header has whole seconds.
fn records(name: &[u8], node: &Node, size: u64) -> Vec<u8> {
    let mut records = Vec::new();
    if name.len() > 100 || !name.is_ascii() {
        record(&mut records, "path", name);
    }
    if node.link_target.len() > 100 || !node.link_target.is_ascii() {
        record(&mut records, "linkpath", &node.link_target);
    }
    if size > LARGEST {
        record(&mut records, "size", size.to_string().as_bytes());
    }
    for (key, id) in [("uid", node.uid), ("gid", node.gid)] {
        if id > LARGEST_ID {
            record(&mut records, key, id.to_string().as_bytes());
        }
    }
    for (key, word) in [("uname", &node.user), ("gname", &node.group)] {
        if word.len() > 31 || !word.is_ascii() {
            record(&mut records, key, word.as_bytes());
        }
    }
    for (key, time) in [("mtime", node.mtime), ("atime", node.atime), ("ctime", node.ctime)] {
        record(&mut records, key, decimal(time).as_bytes());
    }
    for xattr in &node.xattrs {
        let acl_key = match xattr.name.as_str() {
            "system.posix_acl_access" => Some("SCHILY.acl.access"),
            "system.posix_acl_default" => Some("SCHILY.acl.default"),
            _ => None,
        };
        match acl_key {
            Some(key) => {
                if let Some(text) = acl::text(&xattr.value) {
                    record(&mut records, key, text.as_bytes());
                }
            }
            // An `=` in the key would end it early.
            None if xattr.name.contains('=') => {}
            None => record(&mut records, &format!("SCHILY.xattr.{}", xattr.name), &xattr.value),
        }
    }
    records
}

/// `length key=value\n`, where the length includes itself.
fn record(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn decimal(time: NodeTime) -> String {
    // Before 1970, the fraction counts in the other direction.
    let (sign, seconds, nanoseconds) = match (time.seconds, time.nanoseconds) {
        (seconds, 0) => return seconds.to_string(),
        (seconds, nanoseconds) if seconds < 0 => {
            ("-", (seconds + 1).unsigned_abs(), 1_000_000_000_u32.saturating_sub(nanoseconds))
        }
        (seconds, nanoseconds) => ("", seconds.unsigned_abs(), nanoseconds),
    };
    let fraction = format!("{nanoseconds:09}");
    format!("{sign}{seconds}.{}", fraction.trim_end_matches('0'))
}

#[derive(Default)]
struct Fields<'a> {
    name: &'a [u8],
    link: &'a [u8],
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    user: &'a [u8],
    group: &'a [u8],
    mtime: i64,
}

impl Fields<'_> {
    fn header(&self, kind: u8) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, room: usize, bytes: &[u8]| {
            let length = bytes.len().min(room);
            block[at..at + length].copy_from_slice(&bytes[..length]);
        };
        let octal = |number: u64, digits: usize| format!("{number:0digits$o}").into_bytes();
        let id = |id: u32| u64::from(if id > LARGEST_ID { 0 } else { id });
        put(0, 100, self.name);
        put(100, 7, &octal(self.mode.into(), 7));
        put(108, 7, &octal(id(self.uid), 7));
        put(116, 7, &octal(id(self.gid), 7));
        put(124, 11, &octal(if self.size > LARGEST { 0 } else { self.size }, 11));
        put(136, 11, &octal(u64::try_from(self.mtime).unwrap_or(0).min(LARGEST), 11));
        put(148, 8, b"        ");
        put(156, 1, &[kind]);
        put(157, 100, self.link);
        put(257, 8, b"ustar\x0000");
        put(265, 31, self.user);
        put(297, 31, self.group);
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(NodeTime::new(1, 500_000_000), "1.5")]
    #[case(NodeTime::new(-1, 500_000_000), "-0.5")]
    #[case(NodeTime::new(-2, 1), "-1.999999999")]
    #[case(NodeTime::new(-2, 0), "-2")]
    fn times_are_decimal_numbers(#[case] time: NodeTime, #[case] expected: &str) {
        assert_eq!(decimal(time), expected);
    }

    #[rstest::rstest]
    #[case(1, "11 path=12\n")]
    #[case(90, "")]
    #[case(91, "")]
    fn a_record_counts_itself(#[case] length: usize, #[case] expected: &str) {
        let mut out = Vec::new();
        let value = if expected.is_empty() { vec![b'x'; length] } else { b"12".to_vec() };
        record(&mut out, "path", &value);
        if !expected.is_empty() {
            assert_eq!(out, expected.as_bytes());
        }
        let announced: usize = std::str::from_utf8(&out).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(announced, out.len());
    }
}
