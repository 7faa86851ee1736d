//! The options of a prune, with restic's names and defaults, and the checks for invalid combinations.

use std::str::FromStr;
use std::time::Duration;

use super::DEFAULT_GRACE;
use crate::error::{Error, Result};

/// The options of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How much unused data may remain in partly used packs.
    pub max_unused: MaxUnused,
    /// Stop repacking before this many bytes were read.
    pub max_repack: Option<u64>,
    /// Repack only what is cached: packs with trees.
    pub repack_cacheable_only: bool,
    /// Repack everything that is not compressed.
    pub repack_uncompressed: bool,
    /// Packs below this size are merged; by default by restic's rule (four fifths of the size of nearly all packs).
    pub small_pack: Option<u64>,
    /// The size of new packs.
    pub pack_size: u64,
    /// How long a pack stays in the store after it was removed from the index.
    pub grace: Duration,
    /// Whether the exclusive lock is held.
    pub exclusive: bool,
    /// Continue although there is no snapshot, so that everything is removed from the index. For a user who forgot
    /// all snapshots on purpose (`forget --unsafe-allow-remove-all`); never a default, because a listing that is
    /// wrongly empty looks the same (restic#4612).
    pub allow_no_snapshots: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_unused: MaxUnused::Percent(5.0),
            max_repack: None,
            repack_cacheable_only: false,
            repack_uncompressed: false,
            small_pack: None,
            pack_size: 16 << 20,
            grace: DEFAULT_GRACE,
            exclusive: false,
            allow_no_snapshots: false,
        }
    }
}

impl Options {
    pub(super) fn check(&self, compresses: bool) -> Result<()> {
        if self.grace.is_zero() && !self.exclusive {
            return Err(Error::invalid("grace 0", "it needs the exclusive lock"));
        }
        if self.repack_uncompressed && !compresses {
            let problem = "repositories of version 1 are not compressed; `migrate` upgrades to version 2";
            return Err(Error::invalid("repacking uncompressed packs", problem));
        }
        if self.small_pack.is_some_and(|small| small > self.pack_size) {
            let problem = format!("it is larger than the size of new packs, {} bytes", self.pack_size);
            return Err(Error::invalid("the size below which packs are merged", problem));
        }
        Ok(())
    }
}

/// The limit for unused data: `5%`, `200M`, `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxUnused {
    /// A share of all data after the prune; at least 0, below 100.
    Percent(f64),
    Bytes(u64),
    Unlimited,
}

impl MaxUnused {
    /// The limit when `used` bytes are in use.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share need not be exact, and conversion to integers saturates"
    )]
    pub(super) fn limit(self, used: u64) -> u64 {
        match self {
            Self::Percent(percent) => (percent / (100.0 - percent) * used as f64) as u64,
            Self::Bytes(bytes) => bytes,
            Self::Unlimited => u64::MAX,
        }
    }
}

impl FromStr for MaxUnused {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        if trimmed == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let Some(percent) = trimmed.strip_suffix('%') else { return bytes(trimmed).map(Self::Bytes) };
        match percent.parse::<f64>() {
            Ok(percent) if (0.0..100.0).contains(&percent) => Ok(Self::Percent(percent)),
            _ => {
                Err(Error::invalid(format!("limit '{text}'"), "expected a percentage from 0% to below 100%"))
            }
        }
    }
}

/// `300`, `20k`, `5M`, `1G`, `2T`: bytes in powers of 1024, as in restic.
pub fn bytes(text: &str) -> Result<u64> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'b' | b'B') => (&text[..text.len() - 1], 0),
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        Some(b't' | b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: Option<u64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << unit))
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or_else(|| {
            Error::invalid(
                format!("size '{text}'"),
                "expected a number followed by k, M, G or T, such as '500M'",
            )
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("5%", 950, 50)]
    #[case("0%", 950, 0)]
    #[case("50%", 950, 950)]
    #[case("99.9%", 1, 999)]
    #[case("200k", 950, 204_800)]
    #[case("7", 950, 7)]
    #[case("1T", 0, 1 << 40)]
    #[case(" unlimited ", 950, u64::MAX)]
    fn a_limit_is_a_share_of_what_stays_or_a_size(
        #[case] limit: MaxUnused,
        #[case] used: u64,
        #[case] expected: u64,
    ) {
        assert_eq!(limit.limit(used), expected);
    }

    #[rstest]
    #[case("")]
    #[case("%")]
    #[case("100%")]
    #[case("-1%")]
    #[case("NaN%")]
    #[case("-5")]
    #[case("k")]
    #[case("5X")]
    #[case("9999999999T")]
    fn a_text_that_is_not_a_limit_is_refused(#[case] text: &str) {
        assert!(text.parse::<MaxUnused>().is_err());
    }

    #[test]
    fn contradicting_options_are_refused() {
        let good = Options { exclusive: true, ..Options::default() };
        assert!(good.check(true).is_ok());
        assert!(Options { grace: Duration::ZERO, ..good.clone() }.check(true).is_ok());
        assert!(Options { grace: Duration::ZERO, exclusive: false, ..good.clone() }.check(true).is_err());
        assert!(Options { repack_uncompressed: true, ..good.clone() }.check(false).is_err());
        assert!(Options { small_pack: Some(17 << 20), ..good }.check(true).is_err());
    }
}
