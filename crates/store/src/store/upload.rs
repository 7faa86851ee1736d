//! Uploads of any length with bounded memory: at most `upload_concurrency` parts are held. Content that fits into one
//! part is written with one plain request. An upload that fails, or whose future is dropped, is aborted, so that no
//! parts remain in the bucket and cost money.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{FuturesUnordered, Stream};
use futures::{StreamExt, TryStreamExt};

use super::Store;
use crate::backend::{Backend, Part, PartId, PutMode, UploadId};
use crate::error::{Error, Result};
use crate::key::Key;

/// The most parts that S3 accepts.
const MAX_PARTS: usize = 10_000;

impl Store {
    /// Writes the stream as one object, replacing an existing one, and returns its size. Nothing is visible until the
    /// upload is complete; if the stream fails, nothing remains.
    pub async fn put_stream<S, E>(&self, key: &str, body: S) -> Result<u64>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: std::fmt::Display,
    {
        let full = self.key(key)?;
        let action = format!("write '{key}'");
        let body = body.map_err(|error| Error::Other { action: action.clone(), detail: error.to_string() });
        let mut chunker =
            Chunker { body: Box::pin(body), part: BytesMut::new(), rest: Bytes::new(), done: false };
        let first = chunker.next_part(self.tuning.part_size).await?;
        if chunker.done {
            let size = first.len() as u64;
            self.relative(self.backend.put(&full, first, PutMode::Overwrite).await)?;
            return Ok(size);
        }
        let upload = Upload::begin(&self.backend, full).await?;
        upload.run(first, chunker, self.tuning.part_size, self.tuning.upload_concurrency.max(1)).await
    }
}

/// Splits a stream into parts.
struct Chunker<S> {
    body: std::pin::Pin<Box<S>>,
    /// The beginning of the next part.
    part: BytesMut,
    /// The remainder of the last chunk.
    rest: Bytes,
    done: bool,
}

impl<S: Stream<Item = Result<Bytes>> + Send> Chunker<S> {
    /// The next part: exactly `size` bytes, or the remaining ones; then `done` is set. Cancellation-safe.
    async fn next_part(&mut self, size: usize) -> Result<Bytes> {
        loop {
            if self.part.is_empty() && self.rest.len() >= size {
                return Ok(self.rest.split_to(size));
            }
            let take = self.rest.len().min(size.saturating_sub(self.part.len()));
            self.part.extend_from_slice(&self.rest.split_to(take));
            if self.part.len() >= size {
                return Ok(self.part.split().freeze());
            }
            let Some(chunk) = self.body.try_next().await? else {
                self.done = true;
                return Ok(self.part.split().freeze());
            };
            self.rest = chunk;
        }
    }
}

/// A multipart upload in progress; aborted if it is dropped before it is complete.
struct Upload {
    backend: Arc<dyn Backend>,
    key: Key,
    id: UploadId,
    before: Previous,
    finished: bool,
}

/// The object under this key before the upload.
enum Previous {
    Nothing,
    Version(Option<String>),
    Unknown,
}

impl Upload {
    async fn begin(backend: &Arc<dyn Backend>, key: Key) -> Result<Self> {
        let before = match backend.head(&key).await {
            Ok(info) => Previous::Version(info.etag),
            Err(error) if error.is_not_found() => Previous::Nothing,
            // The right to write is enough; the right to read may be missing.
            Err(_) => Previous::Unknown,
        };
        let id = backend.begin_upload(&key).await?;
        Ok(Self { backend: Arc::clone(backend), key, id, before, finished: false })
    }

    async fn run<S>(
        mut self,
        first: Bytes,
        mut chunks: Chunker<S>,
        part_size: usize,
        concurrency: usize,
    ) -> Result<u64>
    where
        S: Stream<Item = Result<Bytes>> + Send,
    {
        let result = self.send_parts(first, &mut chunks, part_size, concurrency).await;
        let outcome = match result {
            Ok((parts, size)) => match self.backend.complete_upload(&self.key, &self.id, &parts).await {
                Err(error) if !self.arrived(size).await => Err(error),
                _ => Ok(size),
            },
            Err(error) => Err(error),
        };
        if outcome.is_err()
            && let Err(error) = self.backend.abort_upload(&self.key, &self.id).await
        {
            tracing::warn!(key = %self.key, %error, "cannot abort a failed upload; its parts remain in the bucket");
        }
        self.finished = true;
        outcome
    }

    async fn send_parts<S>(
        &self,
        first: Bytes,
        chunks: &mut Chunker<S>,
        part_size: usize,
        concurrency: usize,
    ) -> Result<(Vec<PartId>, u64)>
    where
        S: Stream<Item = Result<Bytes>> + Send,
    {
        let mut parts: Vec<Option<PartId>> = vec![None];
        let mut offset = first.len() as u64;
        let mut sending =
            FuturesUnordered::from_iter([self.send(Part { number: 0, offset: 0, body: first })]);
        loop {
            let number = parts.len();
            let size = grown(part_size, number);
            // Reading and sending run concurrently: a slow source must not leave connections idle.
            tokio::select! {
                Some(sent) = sending.next() => {
                    let (number, id) = sent?;
                    parts[number] = Some(id);
                }
                body = chunks.next_part(size), if !chunks.done && sending.len() < concurrency => {
                    let body = body?;
                    if body.is_empty() {
                        continue;
                    }
                    if number == MAX_PARTS {
                        let detail = format!("it needs more than {MAX_PARTS} parts");
                        return Err(Error::Other { action: format!("write '{}'", self.key), detail });
                    }
                    parts.push(None);
                    let length = body.len() as u64;
                    sending.push(self.send(Part { number, offset, body }));
                    offset += length;
                }
                else => break,
            }
        }
        Ok((parts.into_iter().flatten().collect(), offset))
    }

    /// Whether the object is complete although the request to complete it failed: the response to an earlier attempt
    /// was lost, and the retry found no such upload.
    async fn arrived(&self, size: u64) -> bool {
        let Ok(now) = self.backend.head(&self.key).await else {
            return false;
        };
        now.size == size
            && match &self.before {
                Previous::Nothing => true,
                Previous::Version(etag) => now.etag.is_some() && now.etag != *etag,
                Previous::Unknown => false,
            }
    }

    async fn send(&self, part: Part) -> Result<(usize, PartId)> {
        let id = self.backend.upload_part(&self.key, &self.id, &part).await?;
        Ok((part.number, id))
    }
}

/// The part size doubles every 1000 parts, up to 128 MiB, so that 10,000 parts can hold an object of a terabyte.
fn grown(part_size: usize, number: usize) -> usize {
    const LARGEST: usize = 128 * 1024 * 1024;
    let doublings = u32::try_from(number / 1000).unwrap_or(0);
    part_size.saturating_mul(1 << doublings.min(9)).min(part_size.max(LARGEST))
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (backend, key, id) = (Arc::clone(&self.backend), self.key.clone(), self.id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { backend.abort_upload(&key, &id).await });
        }
    }
}
