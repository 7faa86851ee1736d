//! Uploads a gzip file while it is produced: each block of plain bytes is compressed on a blocking thread as a gzip
//! member, and the members are uploaded in order. At most one block waits while `threads` blocks are compressed. Used
//! by the archive writer.

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use crate::object_store::{ByteStream, ObjectStore, StoreError};

/// The compression level: the next higher one takes longer and saves only one part in a thousand.
const LEVEL: u32 = 5;

enum Message {
    Block(Vec<u8>),
    End,
}

/// A file being uploaded. If it is dropped before `finish` has returned, nothing of it remains.
pub(crate) struct GzipUpload {
    blocks: mpsc::Sender<Message>,
    task: JoinHandle<Option<u64>>,
    failure: Arc<OnceLock<Arc<StoreError>>>,
    stall_limit: Duration,
    _abort: AbortOnDrop,
}

/// Aborts the upload's task when its writer is dropped: if storage hangs, the task would hang for ever.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GzipUpload {
    /// `stall_limit`: how long storage may accept no data.
    pub(crate) fn start(
        store: Arc<dyn ObjectStore>,
        key: String,
        threads: usize,
        stall_limit: Duration,
    ) -> Self {
        let (blocks, receiver) = mpsc::channel(1);
        let failure = Arc::new(OnceLock::new());
        let noted = Arc::clone(&failure);
        let task = tokio::spawn(async move {
            match store.put_stream(&key, members(receiver, threads.max(1))).await {
                Ok(size) => Some(size),
                Err(error) => {
                    let _ = noted.set(Arc::new(error));
                    None
                }
            }
        });
        let abort = AbortOnDrop(task.abort_handle());
        Self { blocks, task, failure, stall_limit, _abort: abort }
    }

    /// Waits until one more block may be sent. Dropping the call, or the permit, has no effect.
    pub(crate) async fn permit(&self) -> Result<BlockPermit<'_>, Arc<StoreError>> {
        match timeout(self.stall_limit, self.blocks.reserve()).await {
            Ok(Ok(permit)) => Ok(BlockPermit(permit)),
            Ok(Err(_)) => Err(gone(&self.failure)),
            Err(_elapsed) => Err(stalled(self.stall_limit)),
        }
    }

    /// Sends the last block, waits until the object is complete and returns its size.
    pub(crate) async fn finish(mut self, rest: Vec<u8>) -> Result<u64, Arc<StoreError>> {
        let (blocks, task) = (self.blocks, &mut self.task);
        let ended = async {
            for message in [Message::Block(rest), Message::End] {
                if blocks.send(message).await.is_err() {
                    break;
                }
            }
            task.await
        };
        match timeout(self.stall_limit, ended).await {
            Ok(Ok(Some(size))) => Ok(size),
            Ok(_) => Err(gone(&self.failure)),
            Err(_elapsed) => Err(stalled(self.stall_limit)),
        }
    }
}

fn stalled(stall_limit: Duration) -> Arc<StoreError> {
    let minutes = stall_limit.as_secs().div_ceil(60);
    Arc::new(StoreError::Source(format!("storage accepted no data for {minutes} minutes")))
}

/// The permission to send one block.
pub(crate) struct BlockPermit<'a>(mpsc::Permit<'a, Message>);

impl BlockPermit<'_> {
    pub(crate) fn send(self, block: Vec<u8>) {
        self.0.send(Message::Block(block));
    }
}

fn gone(failure: &OnceLock<Arc<StoreError>>) -> Arc<StoreError> {
    let unknown = || Arc::new(StoreError::Source("the upload was aborted".into()));
    failure.get().cloned().unwrap_or_else(unknown)
}

/// The compressed members in the order of their blocks. A channel that closes without an `End` is an error, so that a
/// writer that was dropped never leaves a partial file that looks complete.
fn members(receiver: mpsc::Receiver<Message>, threads: usize) -> ByteStream {
    let blocks = futures::stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Message::Block(block)) => Some((Ok(block), Some(receiver))),
            Some(Message::End) => None,
            None => Some((Err(StoreError::Source("the writer of the file was stopped".into())), None)),
        }
    });
    blocks
        .map(|block| async {
            let block = block?;
            match tokio::task::spawn_blocking(move || compress(&block)).await {
                Ok(Ok(member)) => Ok(member),
                Ok(Err(error)) => Err(StoreError::Source(error.to_string())),
                Err(_) => Err(StoreError::Source("compression was stopped".into())),
            }
        })
        .buffered(threads)
        .boxed()
}

/// Compresses a block into one complete gzip member.
pub(crate) fn compress(block: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(block.len() / 4), Compression::new(LEVEL));
    encoder.write_all(block)?;
    Ok(encoder.finish()?.into())
}
