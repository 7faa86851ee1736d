//! A directory as a zip archive, for systems without tar. Content is stored uncompressed: it comes from a compressed
//! repository and goes through a pipe. The checksum of a file follows its content; the central directory of the
//! archive is kept in memory until the end, some hundred bytes per entry.

use std::sync::{Arc, Mutex, PoisonError};

use super::pieces::{Piece, Pieces, walk};
use crate::blobs::BlobReader;
use crate::error::Result;
use crate::id::BlobId;
use crate::node::{Node, NodeKind, NodeTime};

/// The largest value of the classic format's fields; larger values need the 64-bit fields.
const LIMIT: u64 = 0xFFFF_FFFF;
/// Checksums follow the content.
const SUM_FOLLOWS: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
const VERSION: u16 = 45;
const UNIX: u16 = 3 << 8;

/// The archive's central directory, which the writer completes as it learns the checksums.
type Central = Arc<Mutex<Vec<u8>>>;

/// Writes everything below `tree`.
pub(super) fn archive(reader: &BlobReader, tree: BlobId, prefix: Vec<u8>, pieces: &mut Pieces) -> Result<()> {
    let central = Central::default();
    let mut at = 0_u64;
    let mut entries = 0_u64;
    walk(reader, tree, prefix, &mut |path, node| {
        if !matches!(node.kind, NodeKind::File | NodeKind::Directory | NodeKind::Symlink) {
            return Ok(());
        }
        let entry = Entry::new(path, &node, at);
        at += entry.total_length();
        entries += 1;
        pieces.bytes(entry.local_header())?;
        pieces.mark(Piece::BeginSum);
        match node.kind {
            NodeKind::File => pieces.content(&node)?,
            NodeKind::Symlink => pieces.bytes(node.link_target.clone())?,
            _ => {}
        }
        let central = Arc::clone(&central);
        pieces.mark(Piece::EndSum(Box::new(move |sum, _| {
            central.lock().unwrap_or_else(PoisonError::into_inner).extend(entry.central_header(sum));
            entry.descriptor(sum)
        })));
        Ok(())
    })?;
    pieces.mark(Piece::EndSum(Box::new(move |_, _| {
        let mut bytes = std::mem::take(&mut *central.lock().unwrap_or_else(PoisonError::into_inner));
        let length = bytes.len() as u64;
        bytes.extend(end(entries, at, length));
        bytes
    })));
    Ok(())
}

struct Entry {
    name: Vec<u8>,
    size: u64,
    mode: u32,
    is_directory: bool,
    mtime: NodeTime,
    at: u64,
}

impl Entry {
    fn new(path: &[u8], node: &Node, at: u64) -> Self {
        let mut name = path.to_vec();
        if node.is_directory() {
            name.push(b'/');
        }
        let (kind, size) = match node.kind {
            NodeKind::Directory => (0o040_000, 0),
            NodeKind::Symlink => (0o120_000, node.link_target.len() as u64),
            _ => (0o100_000, node.size),
        };
        let mode = kind | node.mode.permissions();
        Self { name, size, mode, is_directory: node.is_directory(), mtime: node.mtime, at }
    }

    fn is_large(&self) -> bool {
        self.size >= LIMIT
    }

    /// Names that are not UTF-8 are not marked as such.
    fn flags(&self) -> u16 {
        SUM_FOLLOWS | if std::str::from_utf8(&self.name).is_ok() { UTF8 } else { 0 }
    }

    fn total_length(&self) -> u64 {
        (self.local_header().len() + self.descriptor(0).len()) as u64 + self.size
    }

    fn local_header(&self) -> Vec<u8> {
        let mut extra = self.time_extra();
        if self.is_large() {
            // Marks the sizes after the content as 64-bit values.
            extra.extend([1, 0, 16, 0].into_iter().chain([0; 16]));
        }
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(self.flags().to_le_bytes());
        header.extend([0; 2]);
        header.extend(self.dos_time());
        header.extend([0; 4]);
        let sizes: u32 = if self.is_large() { u32::MAX } else { 0 };
        header.extend(sizes.to_le_bytes());
        header.extend(sizes.to_le_bytes());
        header.extend(short(self.name.len()));
        header.extend(short(extra.len()));
        header.extend_from_slice(&self.name);
        header.extend(extra);
        header
    }

    fn descriptor(&self, sum: u32) -> Vec<u8> {
        let mut bytes = b"PK\x07\x08".to_vec();
        bytes.extend(sum.to_le_bytes());
        for _ in 0..2 {
            if self.is_large() {
                bytes.extend(self.size.to_le_bytes());
            } else {
                bytes.extend(limited(self.size).to_le_bytes());
            }
        }
        bytes
    }

    fn central_header(&self, sum: u32) -> Vec<u8> {
        let mut extra = self.time_extra();
        let mut large = Vec::new();
        if self.is_large() {
            large.extend(self.size.to_le_bytes());
            large.extend(self.size.to_le_bytes());
        }
        if self.at >= LIMIT {
            large.extend(self.at.to_le_bytes());
        }
        if !large.is_empty() {
            extra.extend([1, 0]);
            extra.extend(short(large.len()));
            extra.extend(large);
        }
        let mut header = b"PK\x01\x02".to_vec();
        header.extend((UNIX | VERSION).to_le_bytes());
        header.extend(VERSION.to_le_bytes());
        header.extend(self.flags().to_le_bytes());
        header.extend([0; 2]);
        header.extend(self.dos_time());
        header.extend(sum.to_le_bytes());
        header.extend(limited(self.size).to_le_bytes());
        header.extend(limited(self.size).to_le_bytes());
        header.extend(short(self.name.len()));
        header.extend(short(extra.len()));
        header.extend([0; 6]);
        let directory = if self.is_directory { 0x10 } else { 0 };
        header.extend(((self.mode << 16) | directory).to_le_bytes());
        header.extend(limited(self.at).to_le_bytes());
        header.extend_from_slice(&self.name);
        header.extend(extra);
        header
    }

    /// The modification time in seconds UTC, if it fits.
    fn time_extra(&self) -> Vec<u8> {
        let Ok(seconds) = i32::try_from(self.mtime.seconds) else { return Vec::new() };
        let mut extra = b"UT\x05\x00\x01".to_vec();
        extra.extend(seconds.to_le_bytes());
        extra
    }

    /// Time and date in the DOS format of two 16-bit values, in UTC: from 1980, in steps of two seconds.
    fn dos_time(&self) -> [u8; 4] {
        let utc = jiff::Timestamp::from_second(self.mtime.seconds)
            .map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).datetime())
            .unwrap_or_default();
        let part = |number: i8| u16::try_from(number).unwrap_or(0);
        let Some(year) = u16::try_from(utc.year()).ok().and_then(|year| year.checked_sub(1980)) else {
            return [0, 0, 0x21, 0];
        };
        let time = (part(utc.hour()) << 11) | (part(utc.minute()) << 5) | (part(utc.second()) / 2);
        let date = (year.min(127) << 9) | (part(utc.month()) << 5) | part(utc.day());
        let ([a, b], [c, d]) = (time.to_le_bytes(), date.to_le_bytes());
        [a, b, c, d]
    }
}

/// The end of the archive, which contains the position of its central directory.
fn end(entries: u64, at: u64, length: u64) -> Vec<u8> {
    let mut bytes = b"PK\x06\x06".to_vec();
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend((UNIX | VERSION).to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([0; 8]);
    for number in [entries, entries, length, at] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend((at + length).to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    let few = u16::try_from(entries).unwrap_or(u16::MAX);
    bytes.extend(few.to_le_bytes());
    bytes.extend(few.to_le_bytes());
    bytes.extend(limited(length).to_le_bytes());
    bytes.extend(limited(at).to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

fn limited(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Paths are shorter than 4,096 bytes, so lengths always fit.
fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes()
}
