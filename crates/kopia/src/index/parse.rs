//! Parses one index blob, of version 1 or 2. Every offset and length is checked against the blob before it is used.

use super::{LONGEST_CONTENT, Location};
use crate::compress;
use crate::crypto::OVERHEAD;

const DELETED: u32 = 1 << 31;
const HEAD_1: usize = 8;
const ENTRY_1: usize = 20;
const HEAD_2: usize = 17;
const ENTRY_2: std::ops::RangeInclusive<usize> = 16..=19;
const PACK_2: usize = 5;
const FORMAT_2: usize = 6;
/// The length of keys in an index without entries.
const NO_KEYS: usize = 255;

/// Why an index cannot be used.
#[derive(Debug)]
pub(super) enum Problem {
    Unsupported(&'static str, String),
    Damaged(String),
}

fn damaged<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Damaged(detail.into()))
}

/// What identifies a pack within one blob: its number, or offset and length of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PackRef {
    Number(u32),
    Name { offset: u32, length: u8 },
}

/// An entry; the number of its pack is not in its location yet.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) pack: PackRef,
    pub(super) location: Location,
}

/// An index blob whose header was checked.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    bytes: &'a [u8],
    version: u8,
    key: usize,
    entry: usize,
    count: usize,
    packs: usize,
    base_time: u32,
    /// The compression of each format.
    compressions: Vec<u32>,
}

impl<'a> Parsed<'a> {
    pub(super) fn of(bytes: &'a [u8], hash_length: usize, corrected: bool) -> Result<Self, Problem> {
        let parsed = match bytes.first() {
            Some(1) if corrected => {
                let detail = "kopia cannot read such a repository either".to_owned();
                return Err(Problem::Unsupported("index version 1 with error correction", detail));
            }
            Some(1) => Self::version_1(bytes)?,
            Some(2) => Self::version_2(bytes)?,
            Some(other) => {
                return Err(Problem::Unsupported("an index version", format!("{other}; 1 and 2 are known")));
            }
            None => return damaged("it is empty"),
        };
        if parsed.count > 0 && parsed.key != 1 + hash_length {
            let detail = format!("its keys have {} bytes instead of {}", parsed.key, 1 + hash_length);
            return damaged(detail);
        }
        Ok(parsed)
    }

    fn version_1(bytes: &'a [u8]) -> Result<Self, Problem> {
        let entry = usize::from(u16_at(bytes, 2)?);
        if entry != ENTRY_1 {
            return damaged(format!("its entries have {entry} bytes instead of {ENTRY_1}"));
        }
        let (key, count) = (usize::from(u8_at(bytes, 1)?), u32_at(bytes, 4)? as usize);
        let parsed =
            Self { bytes, version: 1, key, entry, count, packs: 0, base_time: 0, compressions: Vec::new() };
        parsed.end_of_entries()?;
        Ok(parsed)
    }

    fn version_2(bytes: &'a [u8]) -> Result<Self, Problem> {
        let mut parsed = Self {
            bytes,
            version: 2,
            key: usize::from(u8_at(bytes, 1)?),
            entry: usize::from(u16_at(bytes, 2)?),
            count: u32_at(bytes, 4)? as usize,
            packs: u32_at(bytes, 8)? as usize,
            base_time: u32_at(bytes, 13)?,
            compressions: Vec::new(),
        };
        let formats = usize::from(u8_at(bytes, 12)?);
        if parsed.count == 0 && parsed.key == NO_KEYS {
            return Ok(parsed);
        }
        if !ENTRY_2.contains(&parsed.entry) {
            return damaged(format!("its entries have {} bytes instead of 16 to 19", parsed.entry));
        }
        let start = parsed
            .packs
            .checked_mul(PACK_2)
            .and_then(|length| parsed.end_of_entries().ok()?.checked_add(length));
        let Some(start) = start
            .filter(|start| bytes.len().checked_sub(*start).is_some_and(|left| left >= formats * FORMAT_2))
        else {
            return damaged("it is too short for its entries");
        };
        for number in 0..formats {
            let at = start + number * FORMAT_2;
            let (compression, key) = (u32_at(bytes, at)?, u8_at(bytes, at + 5)?);
            if key != 0 {
                return Err(Problem::Unsupported("an encryption key", format!("number {key}")));
            }
            let known = compression == 0 || compress::check(compression).is_ok();
            if !known {
                return Err(Problem::Unsupported("a compression", format!("number {compression:#06x}")));
            }
            parsed.compressions.push(compression);
        }
        Ok(parsed)
    }

    /// Where the entries end, which lies within the blob.
    fn end_of_entries(&self) -> Result<usize, Problem> {
        let head = if self.version == 1 { HEAD_1 } else { HEAD_2 };
        let end = (self.key + self.entry).checked_mul(self.count).and_then(|length| length.checked_add(head));
        match end.filter(|end| *end <= self.bytes.len()) {
            Some(end) => Ok(end),
            None => damaged("it is too short for its entries"),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn entry(&self, number: usize) -> Result<Entry<'a>, Problem> {
        let head = if self.version == 1 { HEAD_1 } else { HEAD_2 };
        let start = head + number * (self.key + self.entry);
        let Some(row) = self.bytes.get(start..start + self.key + self.entry) else {
            return damaged("it is too short for its entries");
        };
        let (key, value) = row.split_at(self.key);
        let found = if self.version == 1 { entry_1(key, value)? } else { self.entry_2(key, value)? };
        let location = &found.location;
        if location.length >= LONGEST_CONTENT || location.original >= LONGEST_CONTENT {
            return damaged(format!("it has a content of {} bytes", location.length.max(location.original)));
        }
        Ok(found)
    }

    fn entry_2(&self, key: &'a [u8], value: &[u8]) -> Result<Entry<'a>, Problem> {
        let offset = u32_at(value, 4)?;
        let mut original = u24_at(value, 8)?;
        let mut length = u24_at(value, 11)?;
        let mut pack = u32::from(u16_at(value, 14)?);
        let format = value.get(16).copied().unwrap_or(0);
        pack |= u32::from(value.get(17).copied().unwrap_or(0)) << 16;
        let high = u32::from(value.get(18).copied().unwrap_or(0));
        original |= (high >> 4) << 24;
        length |= (high & 0xf) << 24;
        let compression = match self.compressions.get(usize::from(format)) {
            Some(compression) => *compression,
            None => return damaged(format!("it refers to format {format}, which it does not have")),
        };
        let location = Location {
            pack: 0,
            offset: offset & !DELETED,
            length,
            original,
            compression,
            deleted: offset & DELETED != 0,
            time: u64::from(self.base_time) + u64::from(u32_at(value, 0)?),
        };
        Ok(Entry { key, pack: PackRef::Number(pack), location })
    }

    pub(super) fn pack_name(&self, pack: PackRef) -> Result<&'a [u8], Problem> {
        let (offset, length) = match pack {
            PackRef::Name { offset, length } => (offset, length),
            PackRef::Number(number) => {
                if number as usize >= self.packs {
                    return damaged(format!("it refers to pack {number}, which it does not have"));
                }
                let at = self.end_of_entries()? + number as usize * PACK_2;
                (u32_at(self.bytes, at + 1)?, u8_at(self.bytes, at)?)
            }
        };
        let offset = offset as usize;
        let name = offset.checked_add(length.into()).and_then(|end| self.bytes.get(offset..end));
        name.map_or_else(|| damaged("the name of a pack lies outside of it"), Ok)
    }
}

fn entry_1<'a>(key: &'a [u8], value: &[u8]) -> Result<Entry<'a>, Problem> {
    let time = u64::from(u16_at(value, 0)?) << 32 | u64::from(u32_at(value, 2)?);
    let (offset, length) = (u32_at(value, 12)?, u32_at(value, 16)?);
    let Some(original) = length.checked_sub(OVERHEAD) else {
        return damaged(format!("it has a sealed content of {length} bytes"));
    };
    let location = Location {
        pack: 0,
        offset: offset & !DELETED,
        length,
        original,
        compression: 0,
        deleted: offset & DELETED != 0,
        time,
    };
    let pack = PackRef::Name { offset: u32_at(value, 8)?, length: u8_at(value, 7)? };
    Ok(Entry { key, pack, location })
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Problem> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    found.map_or_else(|| damaged("it is cut off"), |part| Ok(*part))
}

fn u8_at(bytes: &[u8], at: usize) -> Result<u8, Problem> {
    part::<1>(bytes, at).map(|part| part[0])
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Problem> {
    part(bytes, at).map(u16::from_be_bytes)
}

fn u24_at(bytes: &[u8], at: usize) -> Result<u32, Problem> {
    part::<3>(bytes, at).map(|part| u32::from_be_bytes([0, part[0], part[1], part[2]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Problem> {
    part(bytes, at).map(u32::from_be_bytes)
}
