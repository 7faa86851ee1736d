//! A sorted table of blobs, in memory while it is small and in an unlinked temporary file when it is large. `Sorter`
//! takes records in any order, with bounded memory: it writes sorted runs to disk and merges them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id};

const SIZE: usize = 48;
const TREE: u32 = 1 << 31;
/// The buckets of a table in a file: by the first two bytes of the ID.
const BUCKETS: usize = 1 << 16;
/// How many records are sorted in memory at a time: 48 MiB.
const RUN: usize = 1 << 20;

/// One copy of a blob in 48 bytes: ID, pack number and kind, offset, length, uncompressed length. Big-endian, so that
/// the order of the bytes is the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record([u8; SIZE]);

impl Record {
    pub(crate) fn new(kind: BlobKind, id: BlobId, pack: u32, position: [u32; 3]) -> Self {
        let mut bytes = [0; SIZE];
        bytes[..32].copy_from_slice(&id.0.0);
        let pack = if kind == BlobKind::Tree { pack | TREE } else { pack };
        let [offset, length, uncompressed_length] = position;
        for (field, number) in
            bytes[32..].chunks_exact_mut(4).zip([pack, offset, length, uncompressed_length])
        {
            field.copy_from_slice(&number.to_be_bytes());
        }
        Self(bytes)
    }

    pub(crate) fn id(&self) -> BlobId {
        let mut id = [0; 32];
        id.copy_from_slice(&self.0[..32]);
        BlobId(Id(id))
    }

    pub(crate) fn kind_and_pack(&self) -> (BlobKind, u32) {
        let number = self.number(32);
        let kind = if number & TREE == 0 { BlobKind::Data } else { BlobKind::Tree };
        (kind, number & !TREE)
    }

    pub(crate) fn offset(&self) -> u32 {
        self.number(36)
    }

    pub(crate) fn length(&self) -> u32 {
        self.number(40)
    }

    pub(crate) fn uncompressed_length(&self) -> u32 {
        self.number(44)
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn bucket(&self) -> usize {
        usize::from(self.0[0]) << 8 | usize::from(self.0[1])
    }
}

/// Sorted records without duplicates.
#[derive(Debug)]
pub(crate) enum Table {
    Memory(Vec<Record>),
    File { file: File, starts: Box<[u64]> },
}

impl Default for Table {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Table {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(records) => records.len() as u64,
            Self::File { starts, .. } => starts[BUCKETS],
        }
    }

    /// The records of a blob, of either kind, and the number of the first.
    pub(crate) fn find(&self, id: &BlobId) -> Result<(u64, Vec<Record>)> {
        let key = &id.0.0;
        let within = |records: &[Record], before: u64| {
            let from = records.partition_point(|record| record.0[..32] < key[..]);
            let count = records[from..].iter().take_while(|record| record.0[..32] == key[..]).count();
            (before + from as u64, records[from..from + count].to_vec())
        };
        match self {
            Self::Memory(records) => Ok(within(records, 0)),
            Self::File { file, starts } => {
                let bucket = usize::from(key[0]) << 8 | usize::from(key[1]);
                let (start, end) = (starts[bucket], starts[bucket + 1]);
                let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0) * SIZE];
                file.read_exact_at(&mut bytes, start * SIZE as u64).map_err(spilled)?;
                let records: Vec<Record> = bytes.as_chunks::<SIZE>().0.iter().copied().map(Record).collect();
                Ok(within(&records, start))
            }
        }
    }

    pub(crate) fn for_each(&self, each: &mut dyn FnMut(&Record) -> Result<()>) -> Result<()> {
        match self {
            Self::Memory(records) => records.iter().try_for_each(each),
            Self::File { file, .. } => {
                let mut bytes = vec![0; 4096 * SIZE];
                let mut at = 0;
                while at < self.len() {
                    let count = (self.len() - at).min(4096);
                    let part = &mut bytes[..usize::try_from(count).unwrap_or(0) * SIZE];
                    file.read_exact_at(part, at * SIZE as u64).map_err(spilled)?;
                    for record in part.as_chunks::<SIZE>().0 {
                        each(&Record(*record))?;
                    }
                    at += count;
                }
                Ok(())
            }
        }
    }
}

fn spilled(source: std::io::Error) -> Error {
    Error::Local { action: "use the temporary file of a large index (is the disk full?)".to_owned(), source }
}

/// Takes records in any order.
#[derive(Debug)]
pub(crate) struct Sorter<'a> {
    records: Vec<Record>,
    /// The number of records in each sorted run of `file`.
    runs: Vec<u64>,
    file: Option<File>,
    temporary: &'a Path,
    run: usize,
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(temporary: &'a Path) -> Self {
        Self::with_run(temporary, RUN)
    }

    pub(crate) fn with_run(temporary: &'a Path, run: usize) -> Self {
        Self { records: Vec::new(), runs: Vec::new(), file: None, temporary, run }
    }

    pub(crate) fn push(&mut self, record: Record) -> Result<()> {
        self.records.push(record);
        if self.records.len() >= self.run { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(self.temporary).map_err(spilled)?),
        };
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        for record in &self.records {
            writer.write_all(&record.0).map_err(spilled)?;
        }
        writer.flush().map_err(spilled)?;
        self.runs.push(self.records.len() as u64);
        self.records.clear();
        Ok(())
    }

    fn sort(&mut self) {
        self.records.sort_unstable();
        self.records.dedup();
    }

    pub(crate) fn finish(mut self) -> Result<Table> {
        if self.file.is_none() {
            self.sort();
            self.records.shrink_to_fit();
            return Ok(Table::Memory(self.records));
        }
        self.spill()?;
        self.records = Vec::new();
        self.merge()
    }

    /// Merges the sorted runs into one file.
    fn merge(self) -> Result<Table> {
        let Some(source) = self.file else { return Ok(Table::default()) };
        let mut heap = std::collections::BinaryHeap::new();
        let mut start = 0;
        for length in self.runs {
            let mut run = Run {
                file: source.try_clone().map_err(spilled)?,
                at: start,
                end: start + length,
                buffer: Vec::new(),
            };
            start += length;
            if let Some(record) = run.next()? {
                heap.push(std::cmp::Reverse((record, heap.len(), Held(run))));
            }
        }
        let target = tempfile::tempfile_in(self.temporary).map_err(spilled)?;
        let mut writer = BufWriter::with_capacity(1 << 20, &target);
        let mut counts = vec![0_u64; BUCKETS + 1].into_boxed_slice();
        let mut last = None;
        while let Some(std::cmp::Reverse((record, number, Held(mut run)))) = heap.pop() {
            if last != Some(record) {
                writer.write_all(&record.0).map_err(spilled)?;
                counts[record.bucket() + 1] += 1;
                last = Some(record);
            }
            if let Some(next) = run.next()? {
                heap.push(std::cmp::Reverse((next, number, Held(run))));
            }
        }
        writer.flush().map_err(spilled)?;
        drop(writer);
        for bucket in 0..BUCKETS {
            counts[bucket + 1] += counts[bucket];
        }
        Ok(Table::File { file: target, starts: counts })
    }
}

/// A run that is being merged: records `at..end` of the file, read in pieces.
struct Run {
    file: File,
    at: u64,
    end: u64,
    buffer: Vec<Record>,
}

impl Run {
    fn next(&mut self) -> Result<Option<Record>> {
        if self.buffer.is_empty() {
            let count = (self.end - self.at).min(4096);
            let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * SIZE];
            self.file.read_exact_at(&mut bytes, self.at * SIZE as u64).map_err(spilled)?;
            self.buffer = bytes.as_chunks::<SIZE>().0.iter().rev().copied().map(Record).collect();
            self.at += count;
        }
        Ok(self.buffer.pop())
    }
}

/// A run in the heap, which is ordered by record and number only.
struct Held(Run);

impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(id: u8, second: u8, pack: u32) -> Record {
        let mut bytes = [second; 32];
        bytes[0] = id;
        Record::new(BlobKind::Data, BlobId(Id(bytes)), pack, [1, 2, 3])
    }

    #[test]
    fn a_record_keeps_what_it_was_made_of() {
        let id = BlobId(Id([7; 32]));
        for kind in [BlobKind::Data, BlobKind::Tree] {
            let record = Record::new(kind, id, 5, [u32::MAX, 8, 9]);
            assert_eq!((record.id(), record.kind_and_pack()), (id, (kind, 5)));
            assert_eq!((record.offset(), record.length(), record.uncompressed_length()), (u32::MAX, 8, 9));
        }
    }

    proptest! {
        #[test]
        fn a_spilled_table_is_the_same_as_one_in_memory(
            input in prop::collection::vec((0_u8..4, 0_u8..4, 0_u32..3), 0..200),
            run in 1_usize..50,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let fill = |mut sorter: Sorter<'_>| {
                for (id, second, pack) in &input {
                    sorter.push(record(*id, *second, *pack)).unwrap();
                }
                sorter.finish().unwrap()
            };
            let memory = fill(Sorter::with_run(directory.path(), 1000));
            let spilled = fill(Sorter::with_run(directory.path(), run));
            let all = |table: &Table| {
                let mut all = Vec::new();
                table.for_each(&mut |record| { all.push(*record); Ok(()) }).unwrap();
                all
            };
            prop_assert_eq!(all(&memory), all(&spilled));
            prop_assert_eq!(memory.len(), spilled.len());
            for id in 0..5 {
                let wanted = record(id, 2, 0).id();
                prop_assert_eq!(memory.find(&wanted).unwrap(), spilled.find(&wanted).unwrap());
            }
        }
    }
}
