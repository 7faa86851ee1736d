//! A gzip file that is written while it is made: blocks of plain bytes go in, each is compressed on a thread of its own
//! as a member of the file, and the members go up in order. At most one block waits while `threads` are compressed.
//! Used by the archive writer.

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

/// Level of compression: the next one takes longer for one part in a thousand.
const LEVEL: u32 = 5;

enum Message {
    Block(Vec<u8>),
    End,
}

/// A file on its way into storage. Dropped before `finish` has ended, nothing of it stays.
pub(crate) struct GzipUpload {
    blocks: mpsc::Sender<Message>,
    task: JoinHandle<Option<u64>>,
    failure: Arc<OnceLock<Arc<StoreError>>>,
    patience: Duration,
    _end: EndOnDrop,
}

/// Ends the task of an upload that nobody waits for any more: storage may hang, and a task of its own would hang with it.
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl GzipUpload {
    /// `patience`: how long storage may take nothing.
    pub(crate) fn start(
        store: Arc<dyn ObjectStore>,
        key: String,
        threads: usize,
        patience: Duration,
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
        let end = EndOnDrop(task.abort_handle());
        Self { blocks, task, failure, patience, _end: end }
    }

    /// Room for one block. Dropping the call, or the room, changes nothing.
    pub(crate) async fn room(&self) -> Result<Room<'_>, Arc<StoreError>> {
        match timeout(self.patience, self.blocks.reserve()).await {
            Ok(Ok(permit)) => Ok(Room(permit)),
            Ok(Err(_)) => Err(gone(&self.failure)),
            Err(_elapsed) => Err(silent(self.patience)),
        }
    }

    /// Sends the rest and waits until the object is there; gives its size.
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
        match timeout(self.patience, ended).await {
            Ok(Ok(Some(size))) => Ok(size),
            Ok(_) => Err(gone(&self.failure)),
            Err(_elapsed) => Err(silent(self.patience)),
        }
    }
}

fn silent(patience: Duration) -> Arc<StoreError> {
    let minutes = patience.as_secs().div_ceil(60);
    Arc::new(StoreError::Source(format!("storage took nothing for {minutes} minutes")))
}

/// The right to send one block.
pub(crate) struct Room<'a>(mpsc::Permit<'a, Message>);

impl Room<'_> {
    pub(crate) fn send(self, block: Vec<u8>) {
        self.0.send(Message::Block(block));
    }
}

fn gone(failure: &OnceLock<Arc<StoreError>>) -> Arc<StoreError> {
    let unknown = || Arc::new(StoreError::Source("the upload was given up".into()));
    failure.get().cloned().unwrap_or_else(unknown)
}

/// The compressed members in the order of their blocks. A channel that closes without an `End` is an error, so that a
/// writer that was dropped never leaves half a file that looks whole.
fn members(receiver: mpsc::Receiver<Message>, threads: usize) -> ByteStream {
    let blocks = futures::stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Message::Block(block)) => Some((Ok(block), Some(receiver))),
            Some(Message::End) => None,
            None => Some((Err(StoreError::Source("its writer was stopped".into())), None)),
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

/// One member of a gzip file, whole in itself.
pub(crate) fn compress(block: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(block.len() / 4), Compression::new(LEVEL));
    encoder.write_all(block)?;
    Ok(encoder.finish()?.into())
}
