//! Answers requests: the token, then the path, then what the token permits, then the limits, then storage.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};

use super::limits::{Limits, Turn};
use super::metrics::GatewayMetrics;
use super::path::{FileName, FileType, NoRoute, route};
use super::refusal::Refusal;
use super::rules::{self, Action, LARGEST_LOCK};
use super::upload::{self, Upload};
use super::{FileContent, FilesError, Gatekeeper, Grant, NoGrant, RepositoryFiles, listing, range};
use crate::metrics::Metrics;

/// How much of the body of a refused request is read, so that the client, which sends first, sees the answer.
const DRAINED: u64 = rules::LARGEST;

/// How much of a path is logged.
const LOGGED: usize = 200;

/// The gateway of one server.
pub struct Gateway {
    keeper: Arc<dyn Gatekeeper>,
    /// The directory for temporary files.
    spool: PathBuf,
    limits: Limits,
    metrics: GatewayMetrics,
}

impl Gateway {
    /// Registers the metrics of the gateway: called once for each server.
    pub fn new(keeper: Arc<dyn Gatekeeper>, spool: PathBuf, metrics: &Metrics) -> Self {
        Self { keeper, spool, limits: Limits::default(), metrics: GatewayMetrics::register(metrics) }
    }

    /// Answers one request. False if it had no valid token.
    pub(super) async fn answer(&self, request: Request<Body>) -> (Response, bool) {
        let (parts, body) = request.into_parts();
        let grant = match self.admitted(&parts.headers).await {
            Ok(grant) => grant,
            Err(refusal) => {
                self.metrics.ended(None, refusal.status());
                return (refusal.into_response(), false);
            }
        };
        let found = match route(parts.uri.path(), &grant.repository) {
            Ok(found) => rules::action(&grant, &parts.method, found),
            Err(NoRoute::Elsewhere) => Err(Refusal::Elsewhere),
            Err(NoRoute::Unknown) => Err(Refusal::Unknown),
        };
        let known = found.as_ref().ok().cloned();
        let answered = match found {
            Ok(action) => self.carry_out(&grant, action, &parts, body).await,
            Err(refusal) => {
                drain(body).await;
                Err(refusal)
            }
        };
        let response = match answered {
            Ok(response) => response,
            Err(refusal) => {
                log(&grant, &parts, &refusal);
                refusal.into_response()
            }
        };
        self.metrics.ended(known.as_ref(), response.status());
        (response, true)
    }

    /// Checks the token of a request.
    async fn admitted(&self, headers: &HeaderMap) -> Result<Grant, Refusal> {
        let token = token(headers).ok_or(Refusal::NoToken)?;
        match self.keeper.grant(&token).await {
            Ok(grant) => Ok(grant),
            Err(refused) => {
                if let NoGrant::Unavailable(reason) = &refused {
                    tracing::warn!(reason, "the gateway cannot check a token");
                }
                Err(refused.into())
            }
        }
    }

    async fn carry_out(
        &self,
        grant: &Grant,
        action: Action,
        parts: &Parts,
        body: Body,
    ) -> Result<Response, Refusal> {
        let size = match &action {
            Action::Add(file_type, _) => match upload::size(&parts.headers, *file_type) {
                Ok(size) => size,
                Err(refusal) => {
                    drain(body).await;
                    return Err(refusal);
                }
            },
            _ => 0,
        };
        let turn = self.limits.turn(&grant.task, &grant.repository, rules::is_bulk(&action)).await?;
        let files = self.keeper.files(grant).await?;
        match action {
            Action::List(file_type) => {
                let list = files.list(file_type).await?;
                Ok(listing::response(list, listing::version(&parts.headers), turn).await?)
            }
            Action::Look(name) => Ok(with_length(Body::empty(), StatusCode::OK, files.size(&name).await?)),
            Action::Read(name) => self.read(&*files, &name, &parts.headers, turn).await,
            Action::Add(file_type, id) => {
                let upload = Upload { grant, file_type, id: &id, size };
                upload.carry_out(body, files, &self.limits, &self.spool, turn).await?;
                self.metrics.received(size);
                Ok(StatusCode::OK.into_response())
            }
            Action::Unlock(id) => {
                unlock(&*files, grant, id).await?;
                Ok(StatusCode::OK.into_response())
            }
        }
    }

    /// Sends a file, or the requested range of it.
    async fn read(
        &self,
        files: &dyn RepositoryFiles,
        name: &FileName,
        headers: &HeaderMap,
        turn: Turn,
    ) -> Result<Response, Refusal> {
        let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok()).and_then(range::parse);
        let Some(asked) = asked else {
            let content = files.read(name, None).await?;
            let size = content.size;
            return Ok(with_length(self.sent(content, turn), StatusCode::OK, size));
        };
        let size = files.size(name).await?;
        let range = range::within(asked, size).ok_or(FilesError::Range { size })?;
        let content = files.read(name, Some(range.clone())).await?;
        let length = range.end - range.start;
        let mut response = with_length(self.sent(content, turn), StatusCode::PARTIAL_CONTENT, length);
        let text = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(header::CONTENT_RANGE, value);
        }
        Ok(response)
    }

    /// A body that counts its bytes; the turn ends with it.
    fn sent(&self, content: FileContent, turn: Turn) -> Body {
        let state = (content.body, self.metrics.clone(), turn);
        Body::from_stream(stream::try_unfold(state, |(mut body, metrics, turn)| async move {
            let Some(chunk) = body.try_next().await? else { return Ok::<_, FilesError>(None) };
            metrics.sent(chunk.len() as u64);
            Ok(Some((chunk, (body, metrics, turn))))
        }))
    }
}

fn log(grant: &Grant, parts: &Parts, refusal: &Refusal) {
    let (task, repository) = (&grant.task, &grant.repository);
    let method = parts.method.as_str();
    let path: String = parts.uri.path().chars().take(LOGGED).collect();
    let status = refusal.status().as_u16();
    if refusal.status() == StatusCode::NOT_FOUND {
        tracing::debug!(task, repository, method, path, status, reason = %refusal, "gateway");
    } else {
        tracing::warn!(task, repository, method, path, status, reason = %refusal, "the gateway refused a request");
    }
}

/// The password of HTTP basic authentication; the user's name has no meaning.
fn token(headers: &HeaderMap) -> Option<String> {
    let (scheme, credentials) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(_, token)| token.to_owned())
}

/// Removes a lock that the task created. For a lock that no longer exists the response is "not found", as with
/// restic's server.
async fn unlock(files: &dyn RepositoryFiles, grant: &Grant, id: String) -> Result<(), Refusal> {
    let name = FileName::Of(FileType::Lock, id);
    let content = files.read(&name, None).await?;
    let lock = match content.size {
        size if size > LARGEST_LOCK => None,
        _ => files.lock(&collect(content).await?),
    };
    if !rules::is_own_lock(grant, lock.as_ref()) {
        return Err(Refusal::ForeignLock);
    }
    Ok(files.delete(&name).await?)
}

/// A small file as a whole.
async fn collect(content: FileContent) -> Result<Bytes, FilesError> {
    let (mut all, mut body) = (BytesMut::new(), content.body);
    while let Some(chunk) = body.try_next().await? {
        if (all.len() + chunk.len()) as u64 > LARGEST_LOCK {
            return Err(FilesError::Failed { reason: "size" });
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

fn with_length(body: Body, status: StatusCode, length: u64) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Reads and forgets the body of a request that is refused.
async fn drain(body: Body) {
    let draining = async {
        let (mut chunks, mut seen) = (body.into_data_stream(), 0);
        while let Some(Ok(chunk)) = chunks.next().await {
            seen += chunk.len() as u64;
            if seen > DRAINED {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(30), draining).await;
}
