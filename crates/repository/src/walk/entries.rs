//! A set of index entries: one bit for each, by its number.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::{Entry, Index};

/// Which entries of an index are meant. May be filled from several threads at once.
#[derive(Debug)]
pub struct EntrySet {
    words: Box<[AtomicU64]>,
}

impl EntrySet {
    /// With room for the entries of `index`.
    pub fn new(index: &Index) -> Self {
        let words = usize::try_from(index.len().div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: std::iter::repeat_with(AtomicU64::default).take(words).collect() }
    }

    /// Whether it was not in the set before.
    pub fn insert(&self, number: u64) -> bool {
        let Some(word) = self.word(number) else { return false };
        let bit = 1 << (number % 64);
        word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Inserts every copy of a blob; whether the first was new, which one caller of many is told.
    pub fn insert_all(&self, entries: &[Entry]) -> bool {
        let mut new = None;
        for entry in entries {
            let inserted = self.insert(entry.number);
            new.get_or_insert(inserted);
        }
        new.unwrap_or(false)
    }

    pub fn contains(&self, number: u64) -> bool {
        self.word(number).is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 == 1)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    fn word(&self, number: u64) -> Option<&AtomicU64> {
        self.words.get(usize::try_from(number / 64).ok()?)
    }
}
