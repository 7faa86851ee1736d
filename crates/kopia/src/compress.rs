//! The compressions that kopia offers. What is decompressed may have the expected number of bytes and not one more, so a
//! small content cannot take much memory.

mod s2;

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder};

use crate::error::{Error, Result};

/// A family of compressions that are read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Also several members one after the other, as parallel gzip writes.
    Gzip,
    Zstd,
    S2,
    Lz4,
    Deflate,
}

/// The number of each compression, and its name for policies.
pub const COMPRESSIONS: [(u32, &str); 18] = [
    (0x1000, "gzip"),
    (0x1001, "gzip-best-speed"),
    (0x1002, "gzip-best-compression"),
    (0x1100, "zstd"),
    (0x1101, "zstd-fastest"),
    (0x1102, "zstd-better-compression"),
    (0x1103, "zstd-best-compression"),
    (0x1200, "s2-default"),
    (0x1201, "s2-better"),
    (0x1202, "s2-parallel-4"),
    (0x1203, "s2-parallel-8"),
    (0x1300, "pgzip"),
    (0x1301, "pgzip-best-speed"),
    (0x1302, "pgzip-best-compression"),
    (0x1400, "lz4"),
    (0x1500, "deflate-default"),
    (0x1501, "deflate-best-speed"),
    (0x1502, "deflate-best-compression"),
];

fn unknown(id: u32) -> Error {
    Error::unsupported("a compression", format!("number {id:#06x}"))
}

fn family(id: u32) -> Option<Family> {
    if !COMPRESSIONS.iter().any(|(known, _)| *known == id) {
        return None;
    }
    Some(match id >> 8 {
        0x10 | 0x13 => Family::Gzip,
        0x11 => Family::Zstd,
        0x12 => Family::S2,
        0x14 => Family::Lz4,
        _ => Family::Deflate,
    })
}

/// Fails if this version cannot read a compression.
pub(crate) fn check(id: u32) -> Result<()> {
    family(id).map(|_| ()).ok_or_else(|| unknown(id))
}

/// Why a content cannot be decompressed.
#[derive(Debug)]
pub(crate) enum Problem {
    /// A compression that this version does not know.
    Unknown(u32),
    Damaged(String),
}

impl Problem {
    /// The error for a content.
    pub(crate) fn of(self, what: impl FnOnce() -> String) -> Error {
        match self {
            Self::Unknown(id) => unknown(id),
            Self::Damaged(detail) => Error::damaged(what(), detail),
        }
    }
}

fn damaged(detail: impl std::fmt::Display) -> Problem {
    Problem::Damaged(detail.to_string())
}

/// Decompresses a content that starts with the number of its compression, which must be the expected one, into exactly
/// `length` bytes.
pub(crate) fn decompress(id: u32, stored: &[u8], length: usize) -> std::result::Result<Vec<u8>, Problem> {
    let (found, stream) = split(stored)?;
    if found != id {
        return Err(damaged(format!("it is compressed as {found:#06x}, but the index says {id:#06x}")));
    }
    let plain = at_most(id, stream, length)?;
    if plain.len() != length {
        return Err(damaged(format!("it has {} bytes, but the index says {length}", plain.len())));
    }
    Ok(plain)
}

/// Decompresses what starts with the number of its compression, into at most `most` bytes.
pub(crate) fn decompress_any(stored: &[u8], most: usize) -> std::result::Result<Vec<u8>, Problem> {
    let (id, stream) = split(stored)?;
    at_most(id, stream, most)
}

/// Decompresses gzip into at most `most` bytes.
pub(crate) fn gunzip(stream: &[u8], most: usize) -> std::result::Result<Vec<u8>, Problem> {
    read(MultiGzDecoder::new(stream), most)
}

fn split(stored: &[u8]) -> std::result::Result<(u32, &[u8]), Problem> {
    let (id, stream) = stored.split_first_chunk::<4>().ok_or_else(|| damaged("it is too short"))?;
    Ok((u32::from_be_bytes(*id), stream))
}

fn at_most(id: u32, stream: &[u8], most: usize) -> std::result::Result<Vec<u8>, Problem> {
    match family(id).ok_or(Problem::Unknown(id))? {
        Family::Gzip => read(MultiGzDecoder::new(stream), most),
        Family::Deflate => read(DeflateDecoder::new(stream), most),
        Family::Lz4 => read(lz4_flex::frame::FrameDecoder::new(stream), most),
        Family::S2 => s2::decode(stream, most).map_err(damaged),
        Family::Zstd => zstd(stream, most),
    }
}

/// Into a buffer of fixed size: a frame that wants more fails, and its window is the buffer.
fn zstd(stream: &[u8], most: usize) -> std::result::Result<Vec<u8>, Problem> {
    zstd::bulk::decompress(stream, most).map_err(damaged)
}

fn read(decoder: impl Read, most: usize) -> std::result::Result<Vec<u8>, Problem> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut plain = Vec::with_capacity(most.min(64 * 1024));
    decoder.take(limit).read_to_end(&mut plain).map_err(damaged)?;
    if plain.len() > most {
        return Err(damaged(format!("it has more than {most} bytes")));
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
