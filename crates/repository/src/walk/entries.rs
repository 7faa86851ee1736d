//! A set of entries of the index by their number: one bit each, so that 20 million take 2.5 MB. Threads that walk
//! trees insert into it at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::Entry;

/// Numbers below a fixed length.
#[derive(Debug, Default)]
pub struct EntrySet {
    words: Vec<AtomicU64>,
    length: u64,
}

impl EntrySet {
    /// An empty set of numbers below `length`.
    pub fn new(length: u64) -> Self {
        let words = usize::try_from(length.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), length }
    }

    /// Whether it was not in the set before. A number beyond the length is a mistake of the caller and is dropped.
    pub fn insert(&self, number: u64) -> bool {
        let Some((word, bit)) = self.place(number) else { return false };
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
        self.place(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// How many are in the set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// The number that all numbers are below.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn place(&self, number: u64) -> Option<(&AtomicU64, u64)> {
        if number >= self.length {
            return None;
        }
        let word = self.words.get(usize::try_from(number / 64).ok()?)?;
        Some((word, 1 << (number % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let set = EntrySet::new(130);
        assert!(set.insert(0) && set.insert(64) && set.insert(129));
        assert!(!set.insert(64));
        assert!(!set.insert(130) && !set.contains(130));
        assert_eq!([0, 1, 64, 129].map(|number| set.contains(number)), [true, false, true, true]);
        assert_eq!((set.count(), set.length()), (3, 130));
        assert_eq!(EntrySet::new(0).count(), 0);
    }
}
