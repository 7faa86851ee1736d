//! restic's REST server (and rclone's implementation of it): the files of one repository over HTTP, in restic's
//! layout (`config`, `keys/ID`, `data/ab/ID` …). It differs from a bucket in three ways:
//!
//! - it only stores the files of a repository: any other key is `Unsupported`;
//! - it never replaces a file: writing an existing one succeeds if the bytes are the same, and otherwise fails with
//!   `Unsupported` (`AlreadyExists` for a create);
//! - it reports no times: listings have none, and responses to HEAD have no `Last-Modified` (rclone's have one).
//!   `modified` is then the current time, by the server's clock or ours, whichever is later, so that no file ever
//!   looks old enough to be deleted, and `is_dated` is false. Callers that need an age must record it themselves.

mod listing;
mod names;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, HeaderName, LAST_MODIFIED,
    RANGE, SERVER,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use object_store::client::{HttpClient, HttpRequestBody, HttpResponse};
use url::Url;

use crate::backend::{
    Backend, ObjectInfo, Page, PageRequest, Part, PartId, PutMode, ReadOptions, Reading, UploadId,
};
use crate::error::{Error, ErrorResponse, Operation, Result, Site, classify, find};
use crate::key::Key;
use listing::Written;

/// The size of a listing of ten million files, and of 700,000 files for a tenant's server; larger listings are not read into memory.
const LARGEST_LISTING: usize = 1024 * 1024 * 1024;
const LARGEST_TENANT_LISTING: usize = 64 * 1024 * 1024;
/// A config file has about 200 bytes.
const LARGEST_CONFIG: usize = 1024 * 1024;
/// How many deletes of one call run concurrently.
const DELETES: usize = 8;

/// A repository on a REST server.
pub(crate) struct Rest {
    pub client: HttpClient,
    /// The repository's URL, ending in `/`, without user and password.
    pub base: Url,
    pub authorization: Option<HeaderValue>,
    pub site: Site,
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Rest {
    /// Creates the repository's directories on the server; existing ones are not changed.
    pub(crate) async fn create(&self) -> Result<()> {
        let operation = Operation::new("create the repository", "");
        self.send(Method::POST, "?create=true", &[], Bytes::new(), operation).await.map(|_| ())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
        operation: Operation<'_>,
    ) -> Result<HttpResponse> {
        let mut request = http::Request::builder()
            .method(&method)
            .uri(format!("{}{path}", self.base))
            .header(ACCEPT, HeaderValue::from_static(listing::VERSION_2));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if method == Method::POST {
            request = request
                .header(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))
                .header(CONTENT_LENGTH, body.len());
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(HttpRequestBody::from(body)).map_err(|error| Error::Other {
            action: format!("{} '{}'", operation.name, operation.key),
            detail: error.to_string(),
        })?;
        self.client.execute(request).await.map_err(|error| match find::<ErrorResponse>(&error) {
            // A REST server responds with 404 for anything that is missing, including the repository.
            Some(response) if response.status == StatusCode::NOT_FOUND => missing(operation),
            _ => classify(&self.site, operation, &error),
        })
    }

    /// Lists the files of one kind. A server responds with 404 if the directory is missing. That counts as an empty
    /// listing only if the repository exists and a second request gets the same response, because a proxy also
    /// responds with 404 while the server is starting.
    async fn list(&self, kind: &'static str) -> Result<Vec<ObjectInfo>> {
        match self.list_once(kind).await {
            Err(error) if error.is_not_found() => {}
            result => return result,
        }
        match self.look_up(names::CONFIG, names::CONFIG).await {
            Err(error) if error.is_not_found() => {
                let Site { bucket, endpoint, .. } = self.site.clone();
                return Err(Error::BucketNotFound { bucket, endpoint });
            }
            Err(error) => return Err(error),
            Ok((_, headers)) if is_rclone(&headers) => {
                let detail = "the server reports it as missing, which rclone also does for its own errors";
                return Err(Error::Listing { prefix: format!("{kind}/"), detail: detail.into() });
            }
            Ok(_) => {}
        }
        match self.list_once(kind).await {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            result => result,
        }
    }

    async fn list_once(&self, kind: &'static str) -> Result<Vec<ObjectInfo>> {
        let operation = Operation::new("list", kind);
        let response = self.send(Method::GET, &format!("{kind}/"), &[], Bytes::new(), operation).await?;
        let (parts, body) = response.into_parts();
        let most = if self.site.discreet { LARGEST_TENANT_LISTING } else { LARGEST_LISTING };
        let body = collect(body.bytes_stream(), most, &self.site, operation).await?;
        listing::parse(kind, &parts.headers, &body, present(&parts.headers)).map_err(|error| match error {
            Error::Listing { prefix, detail } => Error::Listing { prefix, detail: self.site.quoted(detail) },
            other => other,
        })
    }

    /// HEAD: the size, and the headers for the other metadata.
    async fn look_up(&self, path: &str, key: &str) -> Result<(u64, HeaderMap)> {
        let response =
            self.send(Method::HEAD, path, &[], Bytes::new(), Operation::new("look up", key)).await?;
        let headers = response.headers().clone();
        match number(&headers, &CONTENT_LENGTH) {
            Some(size) => Ok((size, headers)),
            None => Err(Error::Interrupted {
                action: format!("look up '{key}'"),
                detail: "the server did not report its size".into(),
            }),
        }
    }

    /// Reads the whole config: servers ignore ranges of it and need not send its length.
    async fn config(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let operation = Operation::new("read", key.as_str());
        let response = self.send(Method::GET, names::CONFIG, &[], Bytes::new(), operation).await?;
        let (parts, body) = response.into_parts();
        let promised = number(&parts.headers, &CONTENT_LENGTH);
        let body = collect(body.bytes_stream(), LARGEST_CONFIG, &self.site, operation).await?;
        let size = body.len() as u64;
        if promised.is_some_and(|promised| promised != size) {
            let detail = format!("received {size} bytes, expected {}", promised.unwrap_or_default());
            return Err(Error::Interrupted { action: "read 'config'".into(), detail });
        }
        let range = super::within(key, size, options.range.clone())?;
        let body = match (usize::try_from(range.start), usize::try_from(range.end)) {
            (Ok(start), Ok(end)) => body.slice(start..end),
            _ => Bytes::new(),
        };
        let info = listing::object(key.to_string(), size, written(&parts.headers));
        Ok(Reading { info, range, body: stream::once(async { Ok(body) }).boxed() })
    }

    async fn delete_one(&self, key: &Key, path: String) -> Result<()> {
        let operation = Operation::new("delete", key.as_str());
        self.send(Method::DELETE, &path, &[], Bytes::new(), operation).await.map(|_| ())
    }

    /// Whether the object exists with exactly these bytes; an error if it does not exist.
    async fn holds(&self, key: &Key, body: &Bytes) -> Result<bool> {
        let info = self.head(key).await?;
        if info.size != body.len() as u64 {
            return Ok(false);
        }
        let mut reading = self.get(key, &ReadOptions::default()).await?;
        let mut rest = body.clone();
        while let Some(chunk) = reading.body.try_next().await? {
            if chunk.len() > rest.len() || rest.split_to(chunk.len()) != chunk {
                return Ok(false);
            }
        }
        Ok(rest.is_empty())
    }
}

fn missing(operation: Operation<'_>) -> Error {
    Error::NotFound { key: operation.key.to_owned() }
}

fn is_rclone(headers: &HeaderMap) -> bool {
    headers.get(SERVER).is_some_and(|server| server.as_bytes().starts_with(b"rclone/"))
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn time(headers: &HeaderMap, name: &HeaderName) -> Option<jiff::Timestamp> {
    let text = headers.get(name)?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp())
}

/// The current time, by the clock that is ahead: an object of unknown age must not look old by either clock.
fn present(headers: &HeaderMap) -> jiff::Timestamp {
    let ours = jiff::Timestamp::now();
    time(headers, &DATE).map_or(ours, |theirs| theirs.max(ours))
}

/// When the object was written, if the server reports it; the epoch counts as not reported.
fn written(headers: &HeaderMap) -> Written {
    time(headers, &LAST_MODIFIED)
        .filter(|time| *time > jiff::Timestamp::UNIX_EPOCH)
        .map_or_else(|| Written::Unknown { now: present(headers) }, Written::At)
}

/// `bytes 0-9/100` as `(0..10, 100)`.
fn content_range(headers: &HeaderMap) -> Option<(std::ops::Range<u64>, u64)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, size) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    Some((first.parse().ok()?..end, size.parse().ok()?))
}

type Chunks = stream::BoxStream<'static, Result<Bytes, object_store::client::HttpError>>;

async fn collect(mut chunks: Chunks, limit: usize, site: &Site, operation: Operation<'_>) -> Result<Bytes> {
    let mut all = BytesMut::new();
    while let Some(chunk) = chunks.try_next().await.map_err(|error| classify(site, operation, &error))? {
        if all.len() + chunk.len() > limit {
            let detail = format!("it is larger than {limit} bytes");
            return Err(Error::Other { action: format!("{} '{}'", operation.name, operation.key), detail });
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

fn no_uploads() -> Error {
    let reason = "a REST server takes every object in one request".to_owned();
    Error::Unsupported { operation: "an upload in parts", reason }
}

#[async_trait]
impl Backend for Rest {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        let path = names::path(key)?;
        let operation =
            Operation { create: mode == PutMode::Create, ..Operation::new("write", key.as_str()) };
        let denied = match self.send(Method::POST, &path, &[], body.clone(), operation).await {
            Err(Error::NotFound { .. }) => {
                let Site { bucket, endpoint, .. } = self.site.clone();
                return Err(Error::BucketNotFound { bucket, endpoint });
            }
            Err(denied @ (Error::Denied { .. } | Error::AlreadyExists { .. })) => denied,
            result => return result.map(|_| ()),
        };
        // The server responds with 403 both to a write to an existing file and to a write that it does not permit.
        if mode == PutMode::Create {
            return match self.head(key).await {
                Ok(_) => Err(Error::AlreadyExists { key: key.to_string() }),
                Err(_) => Err(denied),
            };
        }
        match self.holds(key, &body).await {
            // This client wrote it: the response to an earlier attempt was lost.
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Unsupported {
                operation: "replacing an object",
                reason: format!("the REST server does not replace '{key}'; delete it first"),
            }),
            Err(_) => Err(denied),
        }
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let path = names::path(key)?;
        if path == names::CONFIG {
            return self.config(key, options).await;
        }
        let asked = options.range.clone();
        if let Some(range) = asked.as_ref().filter(|range| range.is_empty()) {
            return Err(Error::Range { key: key.to_string(), size: 0, start: range.start, end: range.end });
        }
        let mut headers = Vec::new();
        if let Some(range) = &asked {
            let text = format!("bytes={}-{}", range.start, range.end - 1);
            headers.extend(HeaderValue::from_str(&text).ok().map(|value| (RANGE, value)));
        }
        let operation = Operation::new("read", key.as_str());
        let response = self.send(Method::GET, &path, &headers, Bytes::new(), operation).await;
        let response = response.map_err(|error| match (error, &asked) {
            (Error::Rejected { status: 416, .. }, Some(range)) => {
                Error::Range { key: key.to_string(), size: 0, start: range.start, end: range.end }
            }
            (error, _) => error,
        })?;
        let (parts, body) = response.into_parts();
        let interrupted =
            |detail: &str| Error::Interrupted { action: format!("read '{key}'"), detail: detail.to_owned() };
        let (range, size) = match &asked {
            None => {
                let size = number(&parts.headers, &CONTENT_LENGTH);
                let size = size.ok_or_else(|| interrupted("the server did not report its size"))?;
                (0..size, size)
            }
            Some(_) => match content_range(&parts.headers) {
                Some(found) if parts.status == StatusCode::PARTIAL_CONTENT => found,
                _ => return Err(interrupted("the server did not send the requested range")),
            },
        };
        if asked.as_ref().is_some_and(|asked| *asked != range) {
            return Err(super::within(key, size, asked)
                .map_or_else(|error| error, |_| interrupted("the server sent another range")));
        }
        let info = listing::object(key.to_string(), size, written(&parts.headers));
        if options.pin.is_some() && options.pin != info.etag {
            return Err(Error::Changed { key: key.to_string() });
        }
        let (place, key) = (self.site.clone(), key.clone());
        let body = body
            .bytes_stream()
            .map_err(move |error| classify(&place, Operation::new("read", key.as_str()), &error));
        Ok(Reading { info, range, body: body.boxed() })
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        let (size, headers) = self.look_up(&names::path(key)?, key.as_str()).await?;
        Ok(listing::object(key.to_string(), size, written(&headers)))
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        let (kinds, config) = names::wanted(request)?;
        let mut objects = Vec::new();
        if config {
            match self.look_up(names::CONFIG, names::CONFIG).await {
                Ok((size, headers)) => {
                    objects.push(listing::object(
                        names::CONFIG.to_owned(),
                        size,
                        Written::Unknown { now: present(&headers) },
                    ));
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        for kind in kinds {
            objects.extend(self.list(kind).await?);
        }
        Ok(listing::page(request, objects))
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        let paths: Vec<String> = keys.iter().map(names::path).collect::<Result<_>>()?;
        let requests: Vec<_> = keys.iter().zip(paths).map(|(key, path)| self.delete_one(key, path)).collect();
        let mut results = stream::iter(requests).buffer_unordered(DELETES);
        let mut failure = None;
        while let Some(result) = results.next().await {
            match result {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                // The other objects are still deleted; the first failure is reported.
                Err(error) => _ = failure.get_or_insert(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn begin_upload(&self, _key: &Key) -> Result<UploadId> {
        Err(no_uploads())
    }

    async fn upload_part(&self, _key: &Key, _upload: &UploadId, _part: &Part) -> Result<PartId> {
        Err(no_uploads())
    }

    async fn complete_upload(&self, _key: &Key, _upload: &UploadId, _parts: &[PartId]) -> Result<()> {
        Err(no_uploads())
    }

    async fn abort_upload(&self, _key: &Key, _upload: &UploadId) -> Result<()> {
        Ok(())
    }

    async fn signed_url(&self, _key: &Key, _ttl: Duration) -> Result<Url> {
        Err(Error::Unsupported {
            operation: "signing a URL",
            reason: "a REST server only supports user and password".into(),
        })
    }
}
