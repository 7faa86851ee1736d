//! Generates the content of files: takes a seed, always returns the same bytes. Text consists of words with the
//! frequencies of a natural language (zstd level 3 compresses it to about a third); random bytes do not compress. Called
//! by `data`.

/// The size of a block. Each block of a file has its own seed, so that any part of a large file can be rewritten alone.
pub(super) const BLOCK: u64 = 1 << 20;
const WORDS: u16 = 8000;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Random,
}

/// SplitMix64: small, fast even unoptimised, and the same everywhere.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.next() % u64::from(limit.max(1))).unwrap_or_default()
    }

    /// A random number, more than 0 and at most 1.
    pub(super) fn fraction(&mut self) -> f64 {
        (f64::from(self.below(1 << 30)) + 1.0) / f64::from(1 << 30)
    }
}

/// A seed from several numbers.
pub(super) fn seed(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |seed, part| Random::new(seed ^ part).next())
}

/// The words of the generated language.
pub(super) struct Language {
    words: Vec<Vec<u8>>,
    /// The word for each of 65,536 numbers; frequent words have more numbers, by Zipf's law.
    by_chance: Vec<u16>,
}

impl Language {
    pub(super) fn new() -> Self {
        let mut random = Random::new(0);
        let words = (0..WORDS).map(|_| word(&mut random)).collect();
        let total: f64 = (1..=WORDS).map(|rank| 1.0 / f64::from(rank)).sum();
        let mut by_chance = Vec::with_capacity(1 << 16);
        let mut share = 0.0;
        for index in 0..WORDS {
            share += 1.0 / f64::from(index + 1) / total;
            while (by_chance.len() < 1 << 16)
                && f64::from(u32::try_from(by_chance.len()).unwrap_or_default()) < share * 65_536.0
            {
                by_chance.push(index);
            }
        }
        by_chance.resize(1 << 16, 0);
        Self { words, by_chance }
    }

    /// Replaces the content of `out` by `length` bytes.
    pub(super) fn fill(&self, kind: Kind, seed: u64, length: usize, out: &mut Vec<u8>) {
        let mut random = Random::new(seed);
        out.clear();
        while out.len() < length {
            let mut number = random.next();
            match kind {
                Kind::Random => out.extend_from_slice(&number.to_le_bytes()),
                Kind::Text => {
                    while number != 0 {
                        let chance = usize::from(u16::try_from(number & 0xffff).unwrap_or_default());
                        out.extend_from_slice(&self.words[usize::from(self.by_chance[chance])]);
                        number >>= 16;
                    }
                }
            }
        }
        out.truncate(length);
    }
}

fn word(random: &mut Random) -> Vec<u8> {
    let length = 2 + random.below(5) + random.below(5);
    let letter = |random: &mut Random| b'a' + u8::try_from(random.below(26)).unwrap_or_default();
    (0..length).map(|_| letter(random)).chain([b' ']).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn block(kind: Kind, seed: u64) -> Vec<u8> {
        let mut out = Vec::new();
        Language::new().fill(kind, seed, 1 << 20, &mut out);
        out
    }

    fn deflated(bytes: &[u8]) -> usize {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(bytes).expect("compressed");
        encoder.finish().expect("compressed").len()
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
        for kind in [Kind::Text, Kind::Random] {
            assert!(block(kind, 1) == block(kind, 1));
            assert!(block(kind, 1) != block(kind, 2));
        }
    }

    #[test]
    fn text_compresses_about_three_times_and_random_bytes_do_not() {
        let text = block(Kind::Text, 1);
        let times = text.len() * 10 / deflated(&text);
        assert!((25..35).contains(&times), "{times} tenths");
        let random = block(Kind::Random, 1);
        assert!(deflated(&random) >= random.len());
    }
}
