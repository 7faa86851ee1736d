//! The HTTP client: reqwest, with features that object_store's use of it lacks. Request bodies are sent in small
//! pieces, without being copied, at the rate of the upload limit. A request times out only when no data is
//! transferred: reqwest's own timeout would apply to a whole upload, and a pack of 128 MiB may take long on a slow
//! connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::guard::Guard;
use crate::layers::bandwidth::{PIECE, TokenBucket};

/// The longest time without any data on a connection.
const SILENCE: Duration = Duration::from_mins(2);

/// A client and its upload limit.
#[derive(Debug)]
pub(super) struct Transport {
    pub client: reqwest::Client,
    pub upload: Option<Arc<TokenBucket>>,
    /// Addresses that are refused.
    pub guard: Option<Guard>,
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url: url::Url = parts
            .uri
            .to_string()
            .parse()
            .map_err(|error: url::ParseError| HttpError::new(HttpErrorKind::Unknown, error))?;
        if let Some(guard) = &self.guard {
            guard.check_url(&url).map_err(|refused| HttpError::new(HttpErrorKind::Connect, refused))?;
        }
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let progress = Arc::new(Progress::new());
        *request.body_mut() = Some(match body.content_length() {
            0 => reqwest::Body::from(Bytes::new()),
            _ => reqwest::Body::wrap(Sending::new(body, self.upload.clone(), Arc::clone(&progress))),
        });
        let sending = self.client.execute(request);
        tokio::pin!(sending);
        let response = loop {
            let end = progress.last() + SILENCE;
            tokio::select! {
                response = &mut sending => break response.map_err(failure)?,
                () = sleep_until(end) => if progress.last() + SILENCE <= Instant::now() {
                    return Err(silence());
                },
            }
        };
        let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        let body = HttpResponseBody::new(Receiving { inner: body, timer: None });
        Ok(HttpResponse::from_parts(parts, body))
    }
}

fn silence() -> HttpError {
    let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "no data was transferred for two minutes");
    HttpError::new(HttpErrorKind::Timeout, error)
}

/// Converts the error to object_store's type, without the URL, which may be signed.
fn failure(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_decode() {
        HttpErrorKind::Decode
    } else {
        let sources = std::iter::successors(std::error::Error::source(&error), |error| error.source());
        sources.filter_map(kind_of).last().unwrap_or(HttpErrorKind::Unknown)
    };
    HttpError::new(kind, error.without_url())
}

fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<HttpErrorKind> {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let closed = error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted();
        return closed.then_some(HttpErrorKind::Request);
    }
    match error.downcast_ref::<std::io::Error>()?.kind() {
        TimedOut => Some(HttpErrorKind::Timeout),
        ConnectionAborted | ConnectionReset | BrokenPipe | UnexpectedEof => Some(HttpErrorKind::Interrupted),
        _ => None,
    }
}

/// When data was last transferred. In the future while the upload limit delays a request: such a delay is not a
/// timeout.
#[derive(Debug)]
struct Progress(Mutex<Instant>);

impl Progress {
    fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, moment: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }
}

/// A request body being sent.
struct Sending {
    inner: HttpRequestBody,
    /// The remainder of the current frame of `inner`.
    rest: Bytes,
    /// How many bytes of `rest` are sent when the timer fires.
    reserved: Option<(usize, Pin<Box<Sleep>>)>,
    upload: Option<Arc<TokenBucket>>,
    progress: Arc<Progress>,
}

impl Sending {
    fn new(inner: HttpRequestBody, upload: Option<Arc<TokenBucket>>, progress: Arc<Progress>) -> Self {
        Self { inner, rest: Bytes::new(), reserved: None, upload, progress }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                other => return Poll::Ready(other),
            }
        }
        let mut size = self.rest.len().min(PIECE);
        if let Some(bucket) = self.upload.clone() {
            if self.reserved.is_none() {
                let at = bucket.reserve(size);
                self.progress.at(at);
                self.reserved = Some((size, Box::pin(sleep_until(at))));
            }
            if let Some((reserved, timer)) = &mut self.reserved {
                ready!(timer.as_mut().poll(cx));
                size = *reserved;
            }
            self.reserved = None;
        }
        self.progress.at(Instant::now());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint().exact().unwrap_or(0);
        SizeHint::with_exact(inner + self.rest.len() as u64)
    }
}

/// A response body being received: fails if no data arrives for too long while the reader is waiting.
struct Receiving {
    inner: reqwest::Body,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Body for Receiving {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(failure)));
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + SILENCE)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(silence())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
