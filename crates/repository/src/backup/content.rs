//! Reads the content of an open file from start to end and splits it into chunks, which are passed to the workers.
//! Positions are explicit, so that holes can be skipped. Called for files (`file`) and devices (`stream`).

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::buffer::{Buffer, READ_AHEAD};
use super::context::{Context, ZEROS};
use super::holes::Holes;
use super::workers::{Pieces, Worker};
use super::zeros::ZeroRun;
use crate::chunker::{MAX_SIZE, ZEROS_LENGTH};
use crate::error::{Error, Result};
use crate::source::stat::Stat;

/// The outer error is the file's; the inner error is the repository's and ends the backup.
pub(super) type FileResult<T> = io::Result<Result<T>>;

/// The content of one file.
pub(super) struct Content<'a> {
    context: &'a Context,
    worker: &'a Worker<'a>,
    file: &'a File,
    pieces: &'a Arc<Pieces>,
    size: u64,
    /// How much is read at most.
    most: u64,
    holes: Holes,
    zeros: ZeroRun,
}

impl<'a> Content<'a> {
    /// The content of a file with this metadata; `size` differs from that of the metadata for devices. Its chunks are
    /// added to `pieces`.
    pub(super) fn new(
        context: &'a Context,
        worker: &'a Worker<'a>,
        file: &'a File,
        stat: &Stat,
        size: u64,
        pieces: &'a Arc<Pieces>,
    ) -> Self {
        let holes = Holes::of(file, stat, context.settle);
        Self { context, worker, file, pieces, size, most: u64::MAX, holes, zeros: ZeroRun::in_file_of(size) }
    }

    /// Reads no more than this, even if the file is larger by then.
    pub(super) fn at_most(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Reads to the end; returns the number of bytes.
    pub(super) fn read(mut self) -> FileResult<u64> {
        let mut buffer = self.worker.buffer();
        // The offset of the buffer in the file.
        let mut start = 0_u64;
        let mut searched = 0;
        loop {
            if self.context.cancel.is_cancelled() {
                return Ok(Err(Error::Cancelled));
            }
            if buffer.is_empty()
                && let Some(chunks) = self.holes.at(self.file, start)
            {
                match self.skip(chunks) {
                    Ok(skipped) => start += skipped,
                    Err(error) => return Ok(Err(error)),
                }
            }
            let at = start + buffer.len() as u64;
            let allowed = usize::try_from(self.most.saturating_sub(at)).unwrap_or(usize::MAX);
            let wanted = room(self.size.saturating_sub(start), buffer.len()).min(allowed);
            let read = buffer.fill(wanted, |room| Ok(rustix::io::pread(self.file, room, at)?))?;
            if read == 0 {
                let bytes = start + buffer.len() as u64;
                return Ok(self.finish(buffer).map(|()| bytes));
            }
            while let Some(cut) = self.context.tables.find_cut(&buffer, searched) {
                let mut next = self.worker.buffer();
                let beyond = start + cut as u64;
                // In a hole, the bytes after the cut are zeros: they are skipped instead of being copied.
                if self.holes.at(self.file, beyond).is_none() {
                    buffer.split_into(cut, &mut next);
                }
                buffer.truncate(cut);
                start = beyond;
                if let Err(error) = self.take_piece(buffer) {
                    return Ok(Err(error));
                }
                (buffer, searched) = (next, 0);
            }
            searched = buffer.len();
        }
    }

    /// Adds chunks of zeros for a hole.
    fn skip(&mut self, chunks: u64) -> Result<u64> {
        let bytes = chunks * ZEROS_LENGTH;
        self.holes.skipped(bytes);
        self.zeros.add(self.context, self.pieces, chunks)?;
        Ok(bytes)
    }

    /// Passes a chunk on; a chunk of zeros is not stored separately.
    fn take_piece(&mut self, piece: Buffer) -> Result<()> {
        if *piece == ZEROS {
            self.worker.give_back(piece);
            return self.zeros.add(self.context, self.pieces, 1);
        }
        self.zeros.end(self.context, self.pieces)?;
        self.worker.offer(self.context, self.pieces, piece)
    }

    /// Adds the last chunk, which may be empty.
    fn finish(mut self, rest: Buffer) -> Result<()> {
        self.zeros.end(self.context, self.pieces)?;
        if rest.is_empty() {
            self.worker.give_back(rest);
            return Ok(());
        }
        self.worker.keep(self.context, self.pieces, rest)
    }
}

/// How much to read: a small file at once with one byte more, which detects its end; otherwise a fixed amount.
fn room(left: u64, filled: usize) -> usize {
    let left = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(filled).saturating_add(1);
    left.min(READ_AHEAD).min((MAX_SIZE + READ_AHEAD).saturating_sub(filled)).max(1)
}
