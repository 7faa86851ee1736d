//! A run of zeros in a file that is being read, whether it was read or skipped as a hole. Zeros are split as restic
//! does, except in very large files, where every chunk of a long run would cost memory: 1.25 TB of hole, as
//! /var/log/lastlog may have, would be 2.4 million chunks.

use super::context::Context;
use super::workers::Pieces;
use crate::chunker::{LONG_ZEROS_LENGTH, ZEROS_LENGTH};
use crate::error::Result;

/// From this size on, the zeros of a file are split into chunks of the largest size. It depends on the size only, so
/// that equal files get equal chunks, with and without holes.
const VERY_LARGE: u64 = 64 << 30;
const SHORT_IN_LONG: u64 = LONG_ZEROS_LENGTH / ZEROS_LENGTH;

/// The zeros since the last chunk that was not zeros.
#[derive(Debug)]
pub(super) struct ZeroRun {
    is_split_long: bool,
    /// Chunks of the smallest size that were not added to the file yet.
    pending: u64,
}

impl ZeroRun {
    pub(super) fn in_file_of(size: u64) -> Self {
        Self { is_split_long: size >= VERY_LARGE, pending: 0 }
    }

    /// Adds chunks of the smallest size.
    pub(super) fn add(&mut self, context: &Context, file: &Pieces, chunks: u64) -> Result<()> {
        context.progress.add_done(0, chunks * ZEROS_LENGTH);
        self.pending += chunks;
        let long = if self.is_split_long { self.pending / SHORT_IN_LONG } else { 0 };
        if long > 0 {
            file.add_known(context.save_zeros(LONG_ZEROS_LENGTH)?, long);
            self.pending -= long * SHORT_IN_LONG;
        }
        Ok(())
    }

    /// Called before a chunk that is not zeros, and at the end of the file.
    pub(super) fn end(&mut self, context: &Context, file: &Pieces) -> Result<()> {
        if self.pending > 0 {
            file.add_known(context.save_zeros(ZEROS_LENGTH)?, std::mem::take(&mut self.pending));
        }
        Ok(())
    }
}
