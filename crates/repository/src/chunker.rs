//! Splits a file into chunks: Rabin fingerprints over a window of 64 bytes, with restic's sizes and mask, so that the
//! same content gives the same blobs as with restic. Takes the bytes of the current chunk and returns its length; the
//! backup pipeline calls it on its read buffer, without copying.
//!
//! A plain rolling loop waits for one table lookup per byte. The fingerprint depends only on the last 64 bytes, so
//! several parts of the data can be searched side by side in one loop: `LANES` lookups are then in flight at the same
//! time, which is three and a half times as fast.

mod polynomial;

pub use polynomial::{DEGREE, Polynomial};

use crate::error::{Error, Result};
use crate::id::{BlobId, Id};

/// The smallest chunk, except for the last one of a file.
pub const MIN_SIZE: usize = 512 * 1024;
/// The largest chunk.
pub const MAX_SIZE: usize = 8 * 1024 * 1024;

/// The blob of zeros into which chunkers split holes; it need not be fetched. Zeros are split as early as possible: a
/// window of zeros has the fingerprint zero, whatever the polynomial.
pub const ZEROS: BlobId = BlobId(Id([
    0x07, 0x85, 0x4d, 0x2f, 0xef, 0x29, 0x7a, 0x06, 0xba, 0x81, 0x68, 0x5e, 0x66, 0x0c, 0x33, 0x2d, 0xe3,
    0x6d, 0x5d, 0x18, 0xd5, 0x46, 0x92, 0x7d, 0x30, 0xda, 0xad, 0x6d, 0x7f, 0xda, 0x15, 0x41,
]));
pub const ZEROS_LENGTH: u64 = MIN_SIZE as u64;

/// The blob of zeros into which long runs of zeros in very large files are split: 16 times as long as `ZEROS`, so that
/// a hole of terabytes takes a sixteenth of the memory. The end of a run is split into `ZEROS`, so that the chunks
/// after it are those that restic makes.
pub const LONG_ZEROS: BlobId = BlobId(Id([
    0x2d, 0xae, 0xb1, 0xf3, 0x60, 0x95, 0xb4, 0x4b, 0x31, 0x84, 0x10, 0xb3, 0xf4, 0xe8, 0xb5, 0xd9, 0x89,
    0xdc, 0xc7, 0xbb, 0x02, 0x3d, 0x14, 0x26, 0xc4, 0x92, 0xda, 0xb0, 0xa3, 0x05, 0x3e, 0x74,
]));
pub const LONG_ZEROS_LENGTH: u64 = MAX_SIZE as u64;

/// The length of a blob that is known to be zeros, which need not be fetched.
pub fn length_of_zeros(blob: &BlobId) -> Option<u64> {
    match *blob {
        ZEROS => Some(ZEROS_LENGTH),
        LONG_ZEROS => Some(LONG_ZEROS_LENGTH),
        _ => None,
    }
}

/// How many bytes the fingerprint covers.
const WINDOW: usize = 64;
/// Fingerprints are kept in the upper bits of the word: the next byte to reduce is then the uppermost, and bits that
/// are shifted out need no mask.
const SHIFT: u32 = 64 - DEGREE;
/// A chunk ends where these bits of the fingerprint, its lowest 20, are zero.
const SPLIT_MASK: u64 = ((1 << 20) - 1) << SHIFT;

/// As many as keep the fingerprints in registers; more lanes were not faster.
const LANES: usize = 5;
/// The bytes of one lane. Not a power of two, because the lanes would then compete for the same cache lines.
const LONG_LANE: usize = 4032;
const SHORT_LANE: usize = 448;
const LONG_BLOCK: usize = WINDOW + LANES * LONG_LANE;
const SHORT_BLOCK: usize = WINDOW + LANES * SHORT_LANE;

/// The lookup tables of the search, computed once for the polynomial of a repository.
#[derive(Clone)]
pub struct Tables {
    /// The remainder of the uppermost byte of a fingerprint when it is shifted out.
    reduce: [u64; 256],
    /// The contribution of a byte that leaves the window.
    leave: [u64; 256],
}

impl Tables {
    /// Fails for a polynomial whose degree is not 53: restic generates no others.
    pub fn new(polynomial: Polynomial) -> Result<Self> {
        if polynomial.degree() != Some(DEGREE) {
            let problem = format!("its degree is not {DEGREE}");
            return Err(Error::invalid(format!("the chunker polynomial '{polynomial}'"), problem));
        }
        let mut tables = Self { reduce: [0; 256], leave: [0; 256] };
        for (byte, (reduce, leave)) in (0_u64..).zip(tables.reduce.iter_mut().zip(&mut tables.leave)) {
            *reduce = polynomial.remainder(u128::from(byte) << DEGREE) << SHIFT;
            let left = (0..WINDOW).fold(byte, |sum, _| polynomial.remainder(u128::from(sum) << 8));
            *leave = left << SHIFT;
        }
        Ok(tables)
    }

    /// The length of the chunk that starts at `chunk[0]`, or `None` if more bytes are needed. `searched` is the
    /// length of `chunk` at the previous call, 0 at first. The end of a file also ends a chunk; only the caller knows
    /// it.
    pub fn find_cut(&self, chunk: &[u8], searched: usize) -> Option<usize> {
        let first = MIN_SIZE.max(searched.saturating_add(1));
        let last = chunk.len().min(MAX_SIZE);
        let found = (first <= last)
            .then(|| self.search(&chunk[first - WINDOW..last]))
            .flatten()
            .map(|position| first - WINDOW + position);
        found.or((chunk.len() >= MAX_SIZE).then_some(MAX_SIZE))
    }

    /// The smallest `n` of at least 64 such that the 64 bytes before `data[n]` end a chunk.
    fn search(&self, data: &[u8]) -> Option<usize> {
        let window = data.first_chunk::<WINDOW>()?;
        let start = window.iter().fold(0, |digest, byte| self.roll(digest, 0, *byte));
        if ends_chunk(start) {
            return Some(WINDOW);
        }
        let mut done = 0;
        while let Some(block) = data[done..].first_chunk::<LONG_BLOCK>() {
            if let Some(position) = self.search_block(block) {
                return Some(done + position);
            }
            done += LONG_BLOCK - WINDOW;
        }
        while let Some(block) = data[done..].first_chunk::<SHORT_BLOCK>() {
            if let Some(position) = self.search_block(block) {
                return Some(done + position);
            }
            done += SHORT_BLOCK - WINDOW;
        }
        self.search_rest(&data[done..]).map(|position| done + position)
    }

    /// Searches `LANES` parts of a block side by side, each after the 64 bytes before it.
    fn search_block<const BLOCK: usize>(&self, block: &[u8; BLOCK]) -> Option<usize> {
        let length = const { (BLOCK - WINDOW) / LANES };
        let mut digests = [0; LANES];
        for at in 0..WINDOW {
            for (lane, digest) in digests.iter_mut().enumerate() {
                *digest = self.roll(*digest, 0, block[lane * length + at]);
            }
        }
        let mut first = Hit { lane: LANES, at: 0 };
        'block: for at in 0..length {
            for (lane, digest) in digests.iter_mut().enumerate() {
                let start = lane * length + at;
                *digest = self.roll(*digest, block[start], block[start + WINDOW]);
                if ends_chunk(*digest) {
                    first.note(lane, at);
                    if first.lane == 0 {
                        break 'block;
                    }
                }
            }
        }
        (first.lane < LANES).then(|| WINDOW + first.lane * length + first.at + 1)
    }

    /// Searches byte by byte, for the remainder that is smaller than a block.
    fn search_rest(&self, data: &[u8]) -> Option<usize> {
        let (window, new) = data.split_first_chunk::<WINDOW>()?;
        let mut digest = window.iter().fold(0, |digest, byte| self.roll(digest, 0, *byte));
        let found = data.iter().zip(new).position(|(old, new)| {
            digest = self.roll(digest, *old, *new);
            ends_chunk(digest)
        });
        found.map(|at| WINDOW + at + 1)
    }

    /// The fingerprint after `old` has left the window and `new` has entered it.
    #[inline]
    fn roll(&self, digest: u64, old: u8, new: u8) -> u64 {
        let top = (digest >> 56) as u8;
        (digest << 8)
            ^ self.reduce[usize::from(top)]
            ^ self.leave[usize::from(old)]
            ^ (u64::from(new) << SHIFT)
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

fn ends_chunk(digest: u64) -> bool {
    digest & SPLIT_MASK == 0
}

/// The earliest hit so far: the lowest lane wins, and in it the lowest offset.
struct Hit {
    lane: usize,
    at: usize,
}

impl Hit {
    /// Hits are rare: this must not take registers from the loop.
    #[cold]
    #[inline(never)]
    fn note(&mut self, lane: usize, at: usize) {
        if lane < self.lane {
            *self = Self { lane, at };
        }
    }
}

#[cfg(test)]
mod tests;
