//! A set of entries of the index by number: one bit each, so that 20 million take 2.5 MB. Threads that walk trees
//! insert into it concurrently.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::Entry;

/// Numbers below a fixed length.
#[derive(Debug, Default)]
pub struct EntrySet {
    blocks: Vec<AtomicU64>,
    length: u64,
}

impl EntrySet {
    /// An empty set of numbers below `length`.
    pub fn new(length: u64) -> Self {
        let blocks = usize::try_from(length.div_ceil(64)).unwrap_or(usize::MAX);
        Self { blocks: (0..blocks).map(|_| AtomicU64::new(0)).collect(), length }
    }

    /// Whether it was not in the set before. A number beyond the length is a bug of the caller and is ignored.
    pub fn insert(&self, number: u64) -> bool {
        let Some((block, bit)) = self.bit(number) else { return false };
        block.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Inserts every copy of a blob; true if the first was new, which is true for exactly one of several concurrent
    /// callers.
    pub fn insert_all(&self, entries: &[Entry]) -> bool {
        let mut new = None;
        for entry in entries {
            let inserted = self.insert(entry.number);
            new.get_or_insert(inserted);
        }
        new.unwrap_or(false)
    }

    pub fn contains(&self, number: u64) -> bool {
        self.bit(number).is_some_and(|(block, bit)| block.load(Ordering::Relaxed) & bit != 0)
    }

    /// The number of entries in the set.
    pub fn count(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// The upper bound of all numbers.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn bit(&self, number: u64) -> Option<(&AtomicU64, u64)> {
        if number >= self.length {
            return None;
        }
        let block = self.blocks.get(usize::try_from(number / 64).ok()?)?;
        Some((block, 1 << (number % 64)))
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
