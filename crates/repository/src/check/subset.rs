//! Selects the packs to read: all, a fixed part, or a random share.

use std::str::FromStr;

use rand::seq::SliceRandom;

use super::packs::KnownPack;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::walk::EntrySet;

/// Whether packs are read, besides the trees in them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum ReadData {
    #[default]
    Nothing,
    All,
    Subset(Subset),
}

/// Some of the packs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Subset {
    /// Part `part` (from 0) of `of`, always the same packs, so that `of` runs read everything.
    Part { part: u8, of: u16 },
    /// A random share, in percent.
    Percent(f64),
    /// Random packs of about this many bytes.
    Bytes(u64),
}

/// By the first byte of a pack's ID.
const MOST_PARTS: u16 = 256;

impl FromStr for Subset {
    type Err = Error;

    /// `2/7`, `2.5%`, `500M`: restic's notation.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |problem: &str| Error::invalid(format!("subset '{text}'"), problem);
        if let Some((part, of)) = text.split_once('/') {
            let number = |word: &str| word.parse::<u16>().ok().filter(|number| *number > 0);
            let (Some(part), Some(of)) = (number(part), number(of)) else {
                return Err(wrong("n/t must be two whole numbers above 0"));
            };
            if part > of || of > MOST_PARTS {
                return Err(wrong("n/t must be a part n of at most 256 parts t"));
            }

            let part = u8::try_from(part - 1).map_err(|_| wrong("n must be at most 256"))?;
            return Ok(Self::Part { part, of });
        }
        if let Some(number) = text.strip_suffix('%') {
            let share =
                number.parse::<f64>().map_err(|_| wrong("x% must be a number with a percent sign"))?;
            return if share > 0.0 && share <= 100.0 {
                Ok(Self::Percent(share))
            } else {
                Err(wrong("x% must be above 0% and at most 100%"))
            };
        }
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return Err(wrong("a size must end in k, m, g or t")),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        match number {
            Some(bytes) if bytes > 0 => Ok(Self::Bytes(bytes)),
            _ => Err(wrong("expected n/t, x% or a size such as 500M")),
        }
    }
}

/// The packs to read; with `used`, only those with at least one blob in it.
pub(super) fn choose(
    read: &ReadData,
    mut packs: Vec<KnownPack>,
    index: &Index,
    used: Option<&EntrySet>,
) -> Result<Vec<KnownPack>> {
    if *read == ReadData::Nothing {
        return Ok(Vec::new());
    }
    if let Some(used) = used {
        let mut needed = vec![false; index.packs().len()];
        index.for_each(&mut |entry| {
            needed[entry.pack_number as usize] |= used.contains(entry.number);
            Ok(())
        })?;
        packs.retain(|pack| needed[pack.number as usize]);
    }
    match *read {
        ReadData::Nothing | ReadData::All => {}
        ReadData::Subset(Subset::Part { part, of }) => {
            packs.retain(|pack| u16::from(pack.id.0.0[0]) % of == u16::from(part));
        }
        ReadData::Subset(Subset::Percent(share)) => shorten(&mut packs, share),
        ReadData::Subset(Subset::Bytes(bytes)) => {
            let all: u64 = packs.iter().map(|pack| pack.size).sum();
            #[allow(clippy::cast_precision_loss, reason = "a share of many packs need not be exact")]
            shorten(&mut packs, bytes.min(all) as f64 / all.max(1) as f64 * 100.0);
        }
    }
    Ok(packs)
}

/// Keeps `share` percent of the packs at random, and at least one.
fn shorten(packs: &mut Vec<KnownPack>, share: f64) {
    packs.shuffle(&mut rand::rng());
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of many packs need not be exact"
    )]
    let count = (packs.len() as f64 * share / 100.0) as usize;
    packs.truncate(count.max(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("1/1", Subset::Part { part: 0, of: 1 })]
    #[case("256/256", Subset::Part { part: 255, of: 256 })]
    #[case("2.5%", Subset::Percent(2.5))]
    #[case("100%", Subset::Percent(100.0))]
    #[case("50M", Subset::Bytes(50 << 20))]
    #[case("7", Subset::Bytes(7))]
    #[case("1k", Subset::Bytes(1024))]
    fn a_subset_is_a_part_a_share_or_a_size(#[case] text: &str, #[case] expected: Subset) {
        assert_eq!(text.parse::<Subset>().unwrap(), expected);
    }

    #[rstest::rstest]
    #[case("")]
    #[case("0/1")]
    #[case("2/1")]
    #[case("1/257")]
    #[case("1/2/3")]
    #[case("0%")]
    #[case("100.1%")]
    #[case("NaN%")]
    #[case("x")]
    #[case("0")]
    #[case("5q")]
    #[case("99999999999999T")]
    fn other_subsets_are_refused(#[case] text: &str) {
        assert!(text.parse::<Subset>().is_err());
    }
}
