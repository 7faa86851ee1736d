//! Error correction: Reed-Solomon parity with a CRC for each shard. Blobs and contents are wrapped in it outside of their
//! encryption. A blob consists of blocks of the same number of data and parity shards: first the parity shards of all
//! blocks, then the data shards, each after its CRC. The data starts with its length. Shards whose CRC does not match
//! are computed from the others.

mod field;

use crate::error::{Error, Result};

const CRC: usize = 4;
const LENGTH: usize = 4;
const SMALL: (usize, usize) = (6, 2);
/// The name of the only algorithm.
pub const ALGORITHM: &str = "REED-SOLOMON-CRC32";

/// Why a wrapped blob has no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Uncorrectable {
    #[error("it is cut off")]
    CutOff,
    #[error("its length is wrong")]
    WrongLength,
    #[error("more of it is damaged than its error correction can repair")]
    TooDamaged,
}

/// The shape of the code, which follows from the overhead that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Correction {
    data: usize,
    parity: usize,
    shard: usize,
    /// Up to this stored length, a blob has one block of few shards.
    few_shards: usize,
    /// Up to this stored length, a blob has one block, of smaller shards.
    one_block: usize,
}

/// The shape of one wrapped blob.
struct Shape {
    blocks: usize,
    data: usize,
    parity: usize,
    shard: usize,
}

impl Correction {
    /// `percent` is at most 100, as kopia checks, too.
    pub(crate) fn new(algorithm: &str, percent: u32) -> Result<Self> {
        if algorithm != ALGORITHM {
            return Err(Error::unsupported("an error correction", format!("'{algorithm}'")));
        }
        if !(1..=100).contains(&percent) {
            return Err(Error::damaged(
                "the repository's format",
                format!("error correction of {percent} %"),
            ));
        }
        let shard: usize = match percent {
            1 => 1024,
            2 => 512,
            3 => 256,
            4..=6 => 128,
            _ => 64,
        };
        let (data, parity) = shards(percent, shard);
        let few_input = 2 * CRC * (data + parity);
        let stored = |(data, parity): (usize, usize), shard: usize| (data + parity) * (CRC + shard);
        Ok(Self {
            data,
            parity,
            shard,
            few_shards: stored(SMALL, few_input.div_ceil(SMALL.0)),
            one_block: stored((data, parity), shard),
        })
    }

    fn shape(&self, stored: usize) -> Shape {
        let one = |(data, parity): (usize, usize)| Shape {
            blocks: 1,
            data,
            parity,
            shard: stored.div_ceil(data + parity).max(1 + CRC) - CRC,
        };
        if stored <= self.few_shards {
            one(SMALL)
        } else if stored <= self.one_block {
            one((self.data, self.parity))
        } else {
            let block = (self.data + self.parity) * (CRC + self.shard);
            Shape { blocks: stored.div_ceil(block), data: self.data, parity: self.parity, shard: self.shard }
        }
    }

    /// The content of a wrapped blob, corrected if that is necessary and possible.
    pub(crate) fn unwrap(&self, stored: &[u8]) -> Result<Vec<u8>, Uncorrectable> {
        let shape = self.shape(stored.len());
        let parity_length = shape.parity * (CRC + shape.shard) * shape.blocks;
        let (parity, data) = stored.split_at_checked(parity_length).ok_or(Uncorrectable::CutOff)?;
        let mut plain = Vec::with_capacity(data.len());
        for block in 0..shape.blocks {
            shape.block(parity, data, block, &mut plain)?;
        }
        let length = plain.first_chunk::<LENGTH>().ok_or(Uncorrectable::CutOff)?;
        let length = u32::from_be_bytes(*length) as usize;
        let end =
            length.checked_add(LENGTH).filter(|end| *end <= plain.len()).ok_or(Uncorrectable::WrongLength)?;
        plain.truncate(end);
        plain.drain(..LENGTH);
        Ok(plain)
    }
}

impl Shape {
    /// Appends the data of one block.
    fn block(
        &self,
        parity: &[u8],
        data: &[u8],
        block: usize,
        plain: &mut Vec<u8>,
    ) -> Result<(), Uncorrectable> {
        let unit = CRC + self.shard;
        let mut shards: Vec<Option<Vec<u8>>> = Vec::with_capacity(self.data + self.parity);
        for number in 0..self.data {
            let start = (block * self.data + number) * unit;
            let stored = data.get(start..).unwrap_or_default();
            if stored.is_empty() {
                // Padding that is not stored.
                shards.push(Some(vec![0; self.shard]));
                continue;
            }
            let mut whole = stored[..stored.len().min(unit)].to_vec();
            whole.resize(unit, 0);
            shards.push(intact(&whole));
        }
        for number in 0..self.parity {
            let start = (block * self.parity + number) * unit;
            shards.push(parity.get(start..start + unit).and_then(intact));
        }
        if shards[..self.data].iter().any(Option::is_none) {
            field::reconstruct(&mut shards, self.data).ok_or(Uncorrectable::TooDamaged)?;
        }
        shards.into_iter().take(self.data).flatten().for_each(|shard| plain.extend_from_slice(&shard));
        Ok(())
    }
}

/// The shard behind its CRC, if that matches.
fn intact(stored: &[u8]) -> Option<Vec<u8>> {
    let (crc, shard) = stored.split_first_chunk::<CRC>()?;
    (u32::from_be_bytes(*crc) == crc32fast::hash(shard)).then(|| shard.to_vec())
}

/// The numbers of data and parity shards, in the single precision that kopia computes them with.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn shards(percent: u32, shard: usize) -> (usize, usize) {
    let free = (percent as f32 - 100.0 * CRC as f32 / shard as f32).max(0.01);
    let part = |of: usize, share: f32| (of as f64 * f64::from(share)).floor() as usize;
    let parity = part(128, free / 100.0).clamp(1, 128);
    if parity > 1 { (128, parity) } else { (part(2, 100.0 / free).clamp(128, 254), 2) }
}

#[cfg(test)]
mod tests;
