//! The worker threads: they read files, split them into chunks, and save the chunks. A large file keeps one thread
//! reading and splitting; it offers its chunks to the others and saves one itself whenever no other thread is free,
//! so that all cores are busy with one file as with a thousand, and memory is bounded by the number of threads.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};

use super::buffer::Buffer;
use super::context::Context;
use super::file::FileJob;
use crate::error::Result;
use crate::id::{BlobId, BlobKind};

/// How many files the walker may queue ahead of the readers.
const FILES_AHEAD: usize = 64;

/// A chunk of a file, for the next free thread.
pub(super) struct PieceJob {
    file: Arc<Pieces>,
    position: usize,
    bytes: Buffer,
}

/// The queues that the threads share.
pub(super) struct Queues {
    files: Receiver<FileJob>,
    pieces: Receiver<PieceJob>,
    buffers: Mutex<Vec<Buffer>>,
}

/// One thread's access to the queues. It waits for chunks until no other worker can offer one.
pub(super) struct Worker<'a> {
    queues: &'a Queues,
    offer: Sender<PieceJob>,
}

impl Queues {
    /// Queues for `threads` workers; the walker gets the sender of files, and each worker one of chunks.
    pub(super) fn new(threads: usize) -> (Self, Sender<FileJob>, Sender<PieceJob>) {
        let (walker, files) = bounded(FILES_AHEAD);
        let (offer, pieces) = bounded(threads.div_ceil(2));
        (Self { files, pieces, buffers: Mutex::new(Vec::new()) }, walker, offer)
    }

    fn save(&self, context: &Context, piece: PieceJob) -> Result<()> {
        context.check_running()?;
        let id = context.save(BlobKind::Data, &piece.bytes)?;
        context.progress.add_done(0, piece.bytes.len() as u64);
        self.give_back(piece.bytes);
        piece.file.fill(context, piece.position, id)
    }

    fn give_back(&self, mut buffer: Buffer) {
        buffer.clear();
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

impl<'a> Worker<'a> {
    pub(super) fn new(queues: &'a Queues, offer: Sender<PieceJob>) -> Self {
        Self { queues, offer }
    }

    /// Works until the queues are empty. Chunks come first, because they hold memory.
    pub(super) fn work(self, context: &Context) -> Result<()> {
        let Queues { files, pieces, .. } = self.queues;
        loop {
            if let Ok(piece) = pieces.try_recv() {
                self.queues.save(context, piece)?;
                continue;
            }
            select! {
                recv(pieces) -> piece => match piece {
                    Ok(piece) => self.queues.save(context, piece)?,
                    Err(_) => return Ok(()),
                },
                recv(files) -> file => match file {
                    Ok(file) => file.run(context, &self)?,
                    Err(_) => break,
                },
            }
        }
        // There are no more files, but other threads may still be reading theirs.
        let queues = self.queues;
        drop(self);
        queues.pieces.iter().try_for_each(|piece| queues.save(context, piece))
    }

    /// Saves a chunk on another thread if one is free, otherwise on this one.
    pub(super) fn offer(&self, context: &Context, file: &Arc<Pieces>, bytes: Buffer) -> Result<()> {
        let piece = PieceJob { file: Arc::clone(file), position: file.add(), bytes };
        match self.offer.try_send(piece) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(piece) | TrySendError::Disconnected(piece)) => {
                self.queues.save(context, piece)
            }
        }
    }

    /// Saves a chunk on this thread.
    pub(super) fn keep(&self, context: &Context, file: &Arc<Pieces>, bytes: Buffer) -> Result<()> {
        self.queues.save(context, PieceJob { file: Arc::clone(file), position: file.add(), bytes })
    }

    pub(super) fn buffer(&self) -> Buffer {
        self.queues.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(super) fn give_back(&self, buffer: Buffer) {
        self.queues.give_back(buffer);
    }
}

type Completion = Box<dyn FnOnce(&Context, Vec<BlobId>) -> Result<()> + Send>;

/// The chunks of one file, saved in any order. If reading is aborted, it is simply never closed.
pub(super) struct Pieces {
    state: Mutex<PiecesState>,
}

struct PiecesState {
    ids: Vec<Option<BlobId>>,
    missing: usize,
    /// Set when the file was read to its end.
    complete: Option<Completion>,
}

impl Pieces {
    pub(super) fn new() -> Arc<Self> {
        let state = PiecesState { ids: Vec::new(), missing: 0, complete: None };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Reserves the position of the next chunk.
    fn add(&self) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ids.push(None);
        state.missing += 1;
        state.ids.len() - 1
    }

    /// Adds chunks whose blob is known without saving it.
    pub(super) fn add_known(&self, id: BlobId, chunks: u64) {
        let ids = &mut self.state.lock().unwrap_or_else(PoisonError::into_inner).ids;
        ids.extend(std::iter::repeat_n(Some(id), usize::try_from(chunks).unwrap_or(usize::MAX)));
    }

    fn fill(&self, context: &Context, position: usize, id: BlobId) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ids[position] = Some(id);
        state.missing -= 1;
        Self::finish(state, context)
    }

    /// Called when the file was read; `complete` gets its blobs as soon as all of them are saved.
    pub(super) fn close(&self, context: &Context, complete: Completion) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.complete = Some(complete);
        Self::finish(state, context)
    }

    fn finish(mut state: std::sync::MutexGuard<'_, PiecesState>, context: &Context) -> Result<()> {
        if state.missing > 0 {
            return Ok(());
        }
        let Some(complete) = state.complete.take() else { return Ok(()) };
        let ids = std::mem::take(&mut state.ids).into_iter().flatten().collect();
        drop(state);
        complete(context, ids)
    }
}
