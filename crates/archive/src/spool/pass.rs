//! The pass over an archive, on a blocking thread: decompresses, checks each entry and spools each item.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use lifeboat_api::catalogue::ItemId;
use tokio::sync::mpsc;

use super::blocks::BlockWriter;
use super::head::HeadError;
use super::index::Index;
use super::names::{self, Entry};
use super::source::{ChunkReader, Meter};
use super::tar::{Header, TarReader};
use super::{Spool, SpoolError, SpoolLimits, Unreadable, head};
use crate::FORMAT_VERSION;
use crate::documents::weight;
use crate::memory::{Memory, Share};
use crate::object_store::StoreError;

/// The most unreadable items that are listed; with more, the archive is not accepted as a backup.
const MOST_UNREADABLE: usize = 10_000;

/// The longest message about an unreadable item, in characters.
const LONGEST_PROBLEM: usize = 500;

/// The most memory that one item may need once it is parsed. The largest objects that Kubernetes stores need less.
const ITEM_WEIGHT: usize = 72 * 1024 * 1024;

/// The memory of a name that was seen: its hash, in a table that is at least half full.
const NAME: u64 = 40;

/// How much memory is taken at once.
const CHARGE: usize = 1024 * 1024;

pub(super) fn run(
    chunks: mpsc::Receiver<Result<Bytes, StoreError>>,
    size: Option<u64>,
    directory: &Path,
    limits: &SpoolLimits,
) -> Result<Spool, SpoolError> {
    let meter = Rc::new(Meter::default());
    let result = Pass::begin(chunks, size, directory, limits, &meter).and_then(Pass::run);
    match meter.failure.take() {
        Some(error) => Err(SpoolError::Storage(error)),
        None => result,
    }
}

struct Pass<'a> {
    tar: TarReader<MultiGzDecoder<ChunkReader>>,
    limits: &'a SpoolLimits,
    meter: Rc<Meter>,
    seen: SeenNames,
    blocks: BlockWriter,
    index: Index,
    unreadable: Vec<Unreadable>,
    format: String,
    content: Vec<u8>,
    /// What the index and the names take of the memory for whole restores and deletions.
    memory: Share,
    charged: u64,
}

impl<'a> Pass<'a> {
    fn begin(
        chunks: mpsc::Receiver<Result<Bytes, StoreError>>,
        size: Option<u64>,
        directory: &Path,
        limits: &'a SpoolLimits,
        meter: &Rc<Meter>,
    ) -> Result<Self, SpoolError> {
        let blocks = BlockWriter::create(directory, size, limits)?;
        let mut reader = ChunkReader::new(chunks, Rc::clone(meter));
        let magic = reader.peek(2).map_err(|error| SpoolError::Damaged(error.to_string()))?;
        if magic.is_empty() {
            return Err(SpoolError::Damaged("it is empty".into()));
        }
        if magic != [0x1f, 0x8b] {
            return Err(SpoolError::NotGzip(magic));
        }
        Ok(Self {
            tar: TarReader::new(MultiGzDecoder::new(reader)),
            limits,
            meter: Rc::clone(meter),
            seen: SeenNames::default(),
            blocks,
            index: Index::default(),
            unreadable: Vec::new(),
            format: String::new(),
            content: Vec::new(),
            memory: Share::default(),
            charged: 0,
        })
    }

    fn run(mut self) -> Result<Spool, SpoolError> {
        while let Some(header) = self.tar.next()? {
            self.entry(&header)?;
        }
        self.index.finish();
        let Self { blocks, index, unreadable, format, memory, .. } = self;
        Ok(Spool { index, blocks: blocks.finish()?, unreadable, format, memory })
    }

    fn entry(&mut self, header: &Header) -> Result<(), SpoolError> {
        let entry = names::parse(&header.name)?;
        if !self.seen.is_new(&header.name) {
            return Err(SpoolError::Entry { name: header.name.clone(), problem: "it occurs twice" });
        }
        if self.seen.count() > self.limits.entries {
            return Err(too_large(format!("it has more than {} entries", self.limits.entries)));
        }
        if header.size > self.limits.entry_bytes {
            let limit = self.limits.entry_bytes;
            let name = &header.name;
            return Err(too_large(format!("'{name}' has {} bytes, the limit is {limit}", header.size)));
        }
        self.read(header.size)?;
        match entry {
            Entry::FormatVersion => self.format = format(&self.content)?,
            Entry::Metadata | Entry::Twin => {}
            Entry::Item { id, version } => self.item(id, version)?,
        }
        self.charge()
    }

    fn item(&mut self, id: ItemId, version: Option<String>) -> Result<(), SpoolError> {
        let weight = weight(&self.content);
        let head =
            if weight > ITEM_WEIGHT { Err(HeadError::TooHeavy) } else { head::read(&id, &self.content) };
        match head {
            Ok(head) => {
                let place = self.blocks.append(&self.content, weight)?;
                self.index.add(id, version, head, place);
            }
            Err(problem) if self.unreadable.len() < MOST_UNREADABLE => {
                // The message may quote the object, which may be large.
                let problem = problem.to_string().chars().take(LONGEST_PROBLEM).collect();
                self.unreadable.push(Unreadable { id, problem });
            }
            Err(problem) => return Err(SpoolError::Damaged(format!("{id}: {problem}"))),
        }
        Ok(())
    }

    /// Takes memory for what is kept of the archive, in steps.
    fn charge(&mut self) -> Result<(), SpoolError> {
        let kept = self.index.bytes() + self.seen.count() * NAME;
        if kept > self.limits.index_bytes {
            let limit = self.limits.index_bytes;
            return Err(too_large(format!("names and labels of its items need more than {limit} bytes")));
        }
        while self.charged < kept {
            Memory::of_process().held.try_extend(&mut self.memory, CHARGE)?;
            self.charged += CHARGE as u64;
        }
        Ok(())
    }

    fn read(&mut self, size: u64) -> Result<(), SpoolError> {
        let Self { tar, content, meter, limits, .. } = self;
        bomb(tar.plain, meter.compressed.get(), limits)?;
        tar.content(size, content, |plain| bomb(plain, meter.compressed.get(), limits))
    }
}

/// The names that were found, as keyed hashes, so that an archive cannot cause collisions.
struct SeenNames {
    names: HashSet<u128>,
    keys: (RandomState, RandomState),
}

impl Default for SeenNames {
    fn default() -> Self {
        Self { names: HashSet::new(), keys: (RandomState::new(), RandomState::new()) }
    }
}

impl SeenNames {
    fn is_new(&mut self, name: &str) -> bool {
        let (high, low) = (self.keys.0.hash_one(name), self.keys.1.hash_one(name));
        self.names.insert(u128::from(high) << 64 | u128::from(low))
    }

    fn count(&self) -> u64 {
        self.names.len() as u64
    }
}

fn bomb(plain: u64, compressed: u64, limits: &SpoolLimits) -> Result<(), SpoolError> {
    if plain > limits.plain_bytes {
        return Err(too_large(format!("it is larger than {} bytes when decompressed", limits.plain_bytes)));
    }
    if plain > limits.ratio_from && plain / limits.ratio > compressed {
        let ratio = limits.ratio;
        return Err(too_large(format!(
            "{compressed} bytes decompress to {plain}, a ratio of more than {ratio}"
        )));
    }
    Ok(())
}

fn too_large(problem: String) -> SpoolError {
    SpoolError::TooLarge { problem }
}

/// The format version that the archive names; newer ones are refused. Very old archives contain `1`.
fn format(content: &[u8]) -> Result<String, SpoolError> {
    let unknown = || SpoolError::Damaged("metadata/version contains no version".into());
    let text = std::str::from_utf8(content).map_err(|_| unknown())?.trim();
    let parts = |version: &str| -> Option<(u64, u64)> {
        let mut numbers = version.splitn(3, '.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next().unwrap_or(Some(0))?))
    };
    let found = parts(text).ok_or_else(unknown)?;
    if Some(found) > parts(FORMAT_VERSION) {
        return Err(SpoolError::Newer { found: text.to_owned(), newest: FORMAT_VERSION });
    }
    Ok(text.to_owned())
}
