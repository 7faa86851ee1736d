//! Writes an object through a plugin. A plugin takes the end of the stream for the end of the object. Therefore, if the
//! bytes cannot be produced or the caller drops the upload, the stream is not ended: the call is cancelled, which
//! plugins see as an error and after which they store nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use lifeboat_archive::{ByteStream, StoreError};
use lifeboat_plugin_protocol::generated::PutObjectRequest;
use lifeboat_plugin_protocol::generated::object_store_client::ObjectStoreClient;
use tokio::sync::oneshot;

use crate::host::{Call, PluginError, Slot};

/// The size of one message, far below the 4 MiB that gRPC for Go accepts.
const PIECE: usize = 64 * 1024;

/// Sends `first`, which names the object, then all of `body`, and returns the number of bytes.
pub(super) async fn run(
    slot: &Slot,
    call: &Call,
    first: PutObjectRequest,
    body: ByteStream,
) -> Result<u64, StoreError> {
    let plugin = call.plugin.clone();
    let channel = slot.channel(call).await.map_err(|error| super::failed(&plugin, &error))?;
    let (failed, failure) = oneshot::channel();
    let state = Arc::new(State::default());
    state.turn(Some(Instant::now()));
    let stream = messages(first, body, failed, Arc::clone(&state));
    let mut client = ObjectStoreClient::new(channel);
    tokio::select! {
        biased;
        // Dropping the call below cancels it.
        Ok(error) = failure => Err(error),
        answer = client.put_object(stream) => match answer {
            Ok(_) => state.all(&plugin),
            Err(status) => Err(super::failed(&plugin, &slot.failure(call, &status).await)),
        },
        () = state.stalled(slot.timeouts().stall) => {
            let error = PluginError::TimedOut { plugin: plugin.clone(), call: call.what, after: slot.timeouts().stall };
            Err(super::failed(&plugin, &error))
        }
    }
}

/// The progress of the upload, and since when the plugin has not requested more.
#[derive(Default)]
struct State {
    sent: AtomicU64,
    /// None while the upload waits for bytes of `body`.
    with_plugin: Mutex<Option<Instant>>,
    ended: std::sync::atomic::AtomicBool,
}

impl State {
    fn turn(&self, with_plugin: Option<Instant>) {
        *self.with_plugin.lock().unwrap_or_else(PoisonError::into_inner) = with_plugin;
    }

    /// The size of the object; an error if the plugin answered before it had received the end.
    fn all(&self, plugin: &str) -> Result<u64, StoreError> {
        if self.ended.load(Ordering::Acquire) {
            return Ok(self.sent.load(Ordering::Acquire));
        }
        let message = "PutObject ended before the whole object was read".to_owned();
        Err(StoreError::Plugin { plugin: plugin.to_owned(), message })
    }

    /// Returns when the plugin has not accepted data for `limit`.
    async fn stalled(&self, limit: Duration) {
        loop {
            let since = *self.with_plugin.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = since.map_or(Duration::ZERO, |since| since.elapsed());
            match limit.checked_sub(waited) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left.min(limit)).await,
                _ => return,
            }
        }
    }
}

/// The messages of a call. An error is sent to `failure`, and the stream then stays open without further messages.
fn messages(
    first: PutObjectRequest,
    body: ByteStream,
    failed: oneshot::Sender<StoreError>,
    state: Arc<State>,
) -> impl Stream<Item = PutObjectRequest> + Send + 'static {
    let start = futures::stream::once(async move { first });
    let rest = futures::stream::unfold(
        (body, Bytes::new(), failed, state),
        |(mut body, mut open, failed, state)| async move {
            state.turn(None);
            while open.is_empty() {
                match body.next().await {
                    Some(Ok(bytes)) => open = bytes,
                    Some(Err(error)) => {
                        let _ = failed.send(error);
                        return std::future::pending().await;
                    }
                    None => {
                        state.ended.store(true, Ordering::Release);
                        state.turn(Some(Instant::now()));
                        return None;
                    }
                }
            }
            let piece = open.split_to(open.len().min(PIECE));
            state.sent.fetch_add(piece.len() as u64, Ordering::AcqRel);
            state.turn(Some(Instant::now()));
            let message = PutObjectRequest { body: piece.into(), ..PutObjectRequest::default() };
            Some((message, (body, open, failed, state)))
        },
    );
    start.chain(rest)
}
