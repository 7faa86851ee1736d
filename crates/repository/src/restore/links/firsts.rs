//! The first names of files with several names: the newest in memory, the others in temporary files like those of a
//! large index, because a snapshot may have millions of them.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id};
use crate::index::table::{Record, Sorter, Table};

/// Device and inode.
pub(super) type FileKey = (u64, u64);

/// The most names in memory.
const IN_MEMORY: usize = 64 * 1024;
/// The most tables, because each is searched for each name.
const TABLES: usize = 8;
/// Names in the file of paths start at multiples of this, so that the offset fits into a record.
const ALIGNMENT: u64 = 16;

/// The first name of a file.
#[derive(Debug, Clone)]
pub(super) struct First {
    /// Counts the first names. If there are several for one file, the last one is valid.
    pub(super) number: u32,
    /// A hash of its content: a file with the same inode and other content is another file, whatever the snapshot
    /// says.
    pub(super) content: u64,
    /// Not restored, so its content is unknown: the next name takes its role.
    pub(super) skipped: bool,
}

/// The path of a first name: its directory, below the target, and the name in it.
pub(super) type FirstPath = (Arc<[u8]>, Vec<u8>);

/// All first names so far.
#[derive(Debug)]
pub(super) struct Firsts {
    recent: HashMap<FileKey, (First, FirstPath)>,
    tables: Vec<Table>,
    /// The paths of the names in the tables, and the length of that file.
    paths: Option<(File, u64)>,
    temporary: PathBuf,
    in_memory: usize,
}

impl Firsts {
    /// Files are created in `temporary` when they are needed.
    pub(super) fn new(temporary: &Path) -> Self {
        Self::with_limit(temporary, IN_MEMORY)
    }

    fn with_limit(temporary: &Path, in_memory: usize) -> Self {
        let temporary = temporary.to_owned();
        Self { recent: HashMap::new(), tables: Vec::new(), paths: None, temporary, in_memory }
    }

    pub(super) fn get(&self, key: FileKey) -> Result<Option<First>> {
        match self.recent.get(&key) {
            Some((first, _)) => Ok(Some(first.clone())),
            None => Ok(self.spilled(key)?.map(|(first, _)| first)),
        }
    }

    pub(super) fn path(&self, key: FileKey) -> Result<Option<(First, FirstPath)>> {
        if let Some((first, path)) = self.recent.get(&key) {
            return Ok(Some((first.clone(), path.clone())));
        }
        let (Some((first, offset)), Some((paths, _))) = (self.spilled(key)?, &self.paths) else {
            return Ok(None);
        };
        Ok(Some((first, read_path(paths, offset).map_err(failed)?)))
    }

    /// Adds the first name of a file, or replaces it.
    pub(super) fn insert(&mut self, key: FileKey, first: First, path: FirstPath) -> Result<()> {
        self.recent.insert(key, (first, path));
        if self.recent.len() >= self.in_memory { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let (paths, end) = match &mut self.paths {
            Some(paths) => paths,
            None => self.paths.insert((tempfile::tempfile_in(&self.temporary).map_err(failed)?, 0)),
        };
        let mut sorter = Sorter::with_run(&self.temporary, self.in_memory.div_ceil(2));
        for (key, (first, path)) in std::mem::take(&mut self.recent) {
            let offset = *end;
            *end = write_path(paths, offset, &path).map_err(failed)?.next_multiple_of(ALIGNMENT);
            sorter.push(record(key, &first, offset)?)?;
        }
        self.tables.push(sorter.finish()?);
        if self.tables.len() >= TABLES {
            let mut sorter = Sorter::with_run(&self.temporary, self.in_memory.div_ceil(2));
            for table in std::mem::take(&mut self.tables) {
                table.for_each(&mut |record| sorter.push(*record))?;
            }
            self.tables.push(sorter.finish()?);
        }
        Ok(())
    }

    /// The last first name of a file in the tables, and the offset of its path.
    fn spilled(&self, key: FileKey) -> Result<Option<(First, u64)>> {
        let mut last: Option<(First, u64)> = None;
        for table in &self.tables {
            for found in table.find(&id_of(key))?.1.iter().map(first_of) {
                if last.as_ref().is_none_or(|(first, _)| first.number < found.0.number) {
                    last = Some(found);
                }
            }
        }
        Ok(last)
    }
}

/// Spread evenly, as the buckets of a table expect.
fn id_of((device, inode): FileKey) -> BlobId {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&device.to_be_bytes());
    key[8..].copy_from_slice(&inode.to_be_bytes());
    BlobId(Id::of(&key))
}

fn record(key: FileKey, first: &First, offset: u64) -> Result<Record> {
    let offset = u32::try_from(offset / ALIGNMENT).ok().filter(|_| first.number < 1 << 31);
    let offset = offset.ok_or_else(|| Error::invalid("snapshot", "it has too many hard links"))?;
    let kind = if first.skipped { BlobKind::Tree } else { BlobKind::Data };
    let content = first.content.to_be_bytes();
    let half = |from: usize| u32::from_be_bytes([0, 1, 2, 3].map(|at: usize| content[from + at]));
    Ok(Record::new(kind, id_of(key), first.number, [offset, half(0), half(4)]))
}

fn first_of(record: &Record) -> (First, u64) {
    let (kind, number) = record.kind_and_pack();
    let content = u64::from(record.length()) << 32 | u64::from(record.uncompressed_length());
    let first = First { number, content, skipped: kind == BlobKind::Tree };
    (first, u64::from(record.offset()) * ALIGNMENT)
}

/// Returns the end.
fn write_path(file: &File, at: u64, (directory, name): &FirstPath) -> std::io::Result<u64> {
    let mut bytes = Vec::with_capacity(8 + directory.len() + name.len());
    for part in [&**directory, name] {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    file.write_all_at(&bytes, at)?;
    Ok(at + bytes.len() as u64)
}

fn read_path(file: &File, at: u64) -> std::io::Result<FirstPath> {
    let part = |at: u64| -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        file.read_exact_at(&mut length, at)?;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        file.read_exact_at(&mut bytes, at + 4)?;
        Ok(bytes)
    };
    let directory = part(at)?;
    let name = part(at + 4 + directory.len() as u64)?;
    Ok((directory.into(), name))
}

fn failed(source: std::io::Error) -> Error {
    Error::Local { action: "use the temporary file for hard links (is the disk full?)".to_owned(), source }
}

/// What became of first names that were not restored completely, by number, for the names that are linked to them.
#[derive(Debug, Default)]
pub(super) struct Fates(Mutex<HashMap<u32, Outcome>>);

/// What became of a first name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Incomplete,
    /// The file at its path is not from the snapshot.
    Lost,
}

impl Fates {
    pub(super) fn of(&self, number: u32) -> Option<Outcome> {
        self.locked().get(&number).copied()
    }

    pub(super) fn set(&self, number: u32, outcome: Outcome) {
        let mut fates = self.locked();
        if fates.get(&number) != Some(&Outcome::Lost) {
            fates.insert(number, outcome);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<u32, Outcome>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn names_in_files_are_found_as_those_in_memory_and_the_last_one_is_valid(
            inserted in prop::collection::vec((0_u64..40, any::<u64>(), any::<bool>()), 0..200),
            in_memory in 10_usize..50,
        ) {
            let temporary = tempfile::tempdir().unwrap();
            let mut few = Firsts::with_limit(temporary.path(), in_memory);
            let mut all = Firsts::with_limit(temporary.path(), 1000);
            for (number, (inode, content, skipped)) in (0..).zip(&inserted) {
                let first = First { number, content: *content, skipped: *skipped };
                let path = || (format!("d{}", number % 3).into_bytes().into(), format!("name {number}").into_bytes());
                for firsts in [&mut few, &mut all] {
                    firsts.insert((1, *inode), first.clone(), path()).unwrap();
                }
                prop_assert!(few.recent.len() < in_memory.max(1) && few.tables.len() < TABLES);
            }
            for inode in 0..41 {
                let found = |firsts: &Firsts| {
                    let (first, path) = firsts.path((1, inode)).unwrap()?;
                    assert_eq!(firsts.get((1, inode)).unwrap().unwrap().number, first.number);
                    Some((first.number, first.content, first.skipped, path))
                };
                prop_assert_eq!(found(&few), found(&all));
            }
        }
    }
}
