//! Fetches and decodes several batches concurrently; one thread writes them in order.

use std::io::Write;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::pieces::{Batch, EndOfEntry, Piece};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::BlobKind;

/// The number of batches that wait to be fetched.
pub(super) const BATCHES: usize = 16;
/// The number of batches that are fetched, decoded or waiting to be written.
const AHEAD: usize = 6;

/// A piece that is ready to be written.
enum Ready {
    Bytes(Vec<u8>),
    BeginSum,
    EndSum(EndOfEntry),
}

/// Runs until everything is written. Ends early, with the error, when the writer or the store fails.
pub(super) async fn run(
    reader: &BlobReader,
    batches: mpsc::Receiver<Batch>,
    writer: impl Write + Send + 'static,
    stop: &CancellationToken,
) -> Result<()> {
    let (sender, mut ready) = mpsc::channel::<Vec<Ready>>(1);
    let writing = tokio::task::spawn_blocking(move || {
        let mut output = Output { writer, sum: crc32fast::Hasher::new(), length: 0 };
        while let Some(pieces) = ready.blocking_recv() {
            pieces.into_iter().try_for_each(|piece| output.write(piece))?;
        }
        output.writer.flush()
    });
    let stream = futures::stream::unfold(batches, |mut batches| async {
        batches.recv().await.map(|batch| (batch, batches))
    });
    let ahead = AHEAD.min(reader.repository().reads());
    let loading = stream.map(|batch| load(reader.clone(), batch)).buffered(ahead);
    let mut loading = std::pin::pin!(loading);
    let mut outcome = Ok(());
    loop {
        let next = tokio::select! {
            next = loading.next() => next,
            () = stop.cancelled() => Some(Err(Error::Cancelled)),
        };
        match next {
            // A writer that has failed no longer receives, and reports its error below.
            Some(Ok(pieces)) => {
                let sent = tokio::select! {
                    sent = sender.send(pieces) => sent.is_ok(),
                    () = stop.cancelled() => {
                        outcome = Err(Error::Cancelled);
                        false
                    }
                };
                if !sent {
                    break;
                }
            }
            Some(Err(error)) => {
                outcome = Err(error);
                break;
            }
            None => break,
        }
    }
    drop(sender);
    if matches!(outcome, Err(Error::Cancelled)) {
        // The writer may be blocked on a pipe that no process reads.
        return outcome;
    }
    let written = writing.await.map_err(std::io::Error::other).flatten();
    outcome.and(written.map_err(|source| Error::Local { action: "write the dump".to_owned(), source }))
}

struct Output<W> {
    writer: W,
    sum: crc32fast::Hasher,
    length: u64,
}

impl<W: Write> Output<W> {
    fn write(&mut self, piece: Ready) -> std::io::Result<()> {
        match piece {
            Ready::Bytes(bytes) => {
                self.sum.update(&bytes);
                self.length += bytes.len() as u64;
                self.writer.write_all(&bytes)
            }
            Ready::BeginSum => {
                self.sum.reset();
                self.length = 0;
                Ok(())
            }
            Ready::EndSum(end) => {
                let bytes = end(self.sum.clone().finalize(), self.length);
                self.writer.write_all(&bytes)
            }
        }
    }
}

/// Fetches and decodes one batch.
async fn load(reader: BlobReader, batch: Batch) -> Result<Vec<Ready>> {
    let sealed = match batch.pack {
        None => None,
        Some(pack) => {
            let key = FileKind::Pack.key(pack.0);
            let read = reader.repository().store().get_range(&key, batch.start..batch.end).await;
            // If this fails, each blob is read separately, from every copy.
            read.ok().filter(|sealed| sealed.len() as u64 == batch.end - batch.start)
        }
    };
    let runtime = tokio::runtime::Handle::current();
    let decoding = tokio::task::spawn_blocking(move || {
        let mut sealed = sealed.map(Vec::from);
        let mut ready = Vec::with_capacity(batch.pieces.len());
        for piece in batch.pieces {
            ready.push(match piece {
                Piece::Bytes(bytes) => Ready::Bytes(bytes),
                Piece::BeginSum => Ready::BeginSum,
                Piece::EndSum(end) => Ready::EndSum(end),
                Piece::Blob(id, location) => {
                    let from =
                        usize::try_from(u64::from(location.offset) - batch.start).unwrap_or(usize::MAX);
                    let until = from.saturating_add(location.length as usize);
                    let mut plain = Vec::new();
                    // A copy, because the same blob may occur twice in a batch, and decoding is in place.
                    let part = sealed.as_mut().and_then(|sealed| sealed.get(from..until)).map(<[u8]>::to_vec);
                    let decoded = part.is_some_and(|mut part| {
                        reader.decode(BlobKind::Data, &id, &location, &mut part, &mut plain).is_ok()
                    });
                    if !decoded {
                        let loaded: Bytes = runtime.block_on(reader.load(BlobKind::Data, &id))?;
                        plain = loaded.into();
                    }
                    Ready::Bytes(plain)
                }
            });
        }
        Ok(ready)
    });
    decoding.await.map_err(|error| Error::Local {
        action: "decode blobs".to_owned(),
        source: std::io::Error::other(error),
    })?
}
