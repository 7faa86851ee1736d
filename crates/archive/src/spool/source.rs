//! A blocking reader for the compressed bytes from storage. It counts them, and keeps the error of storage so that
//! the caller of a failed read can report it.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::rc::Rc;

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;

use crate::object_store::StoreError;

/// State that the reader shares with its user.
#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) compressed: Cell<u64>,
    pub(crate) failure: RefCell<Option<StoreError>>,
}

/// Reads chunks from a channel. The end of the channel is the end of the archive.
pub(crate) struct ChunkReader {
    chunks: mpsc::Receiver<Result<Bytes, StoreError>>,
    chunk: Bytes,
    meter: Rc<Meter>,
}

impl ChunkReader {
    pub(crate) fn new(chunks: mpsc::Receiver<Result<Bytes, StoreError>>, meter: Rc<Meter>) -> Self {
        Self { chunks, chunk: Bytes::new(), meter }
    }

    /// The first bytes, without consuming them.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut begin = Vec::new();
        while begin.len() + self.chunk.len() < count {
            begin.extend_from_slice(&self.chunk);
            self.chunk = Bytes::new();
            if !self.refill()? {
                break;
            }
        }
        begin.extend_from_slice(&self.chunk);
        self.chunk = Bytes::from(begin);
        Ok(self.chunk.iter().take(count).copied().collect())
    }

    fn refill(&mut self) -> io::Result<bool> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                None => return Ok(false),
                Some(Ok(chunk)) => {
                    self.meter.compressed.set(self.meter.compressed.get() + chunk.len() as u64);
                    self.chunk = chunk;
                }
                Some(Err(error)) => {
                    self.meter.failure.replace(Some(error));
                    return Err(io::Error::other("storage failed"));
                }
            }
        }
        Ok(true)
    }
}

impl Read for ChunkReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.refill()? {
            return Ok(0);
        }
        let count = self.chunk.len().min(out.len());
        self.chunk.copy_to_slice(&mut out[..count]);
        Ok(count)
    }
}
