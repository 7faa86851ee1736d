//! Reads and writes single objects of any type as JSON, many at once, at the rate that the API server can handle. A
//! request that was rejected because the API server is too busy, or was not answered, is repeated for a while; a caller
//! that creates objects must expect that the first attempt succeeded. Called by the restore executor.

#[cfg(test)]
mod tests;
mod throttle;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::{Request, Status};
use lifeboat_api::catalogue::ResourceType;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

pub use throttle::{Permit, Throttle};

use crate::{ApiError, Attempt, Cause, MANAGER};

/// How long requests to a busy or silent API server are repeated.
const RETRY_TIME: Duration = Duration::from_mins(3);
/// The timeout of one request.
const ANSWER: Duration = Duration::from_secs(35);

/// The location of an object in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    pub plural: String,
    pub kind: String,
    /// None for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

impl Target {
    fn request(&self) -> Request {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let version = &self.api_version;
        Request::new(match &self.namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{}", self.plural),
            None => format!("/{root}/{version}/{}", self.plural),
        })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Which part of the answer the caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// None of it: `Value::Null` is returned, and the API server is asked for a short answer.
    Nothing,
    /// The object as it is now.
    Object,
}

/// Reads and writes objects; clones share the limit.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    throttle: Arc<Throttle>,
}

impl Writer {
    /// `client` must not retry by itself ([`crate::connect::direct`]), or the throttle would not notice a busy API
    /// server.
    pub fn new(client: Client, throttle: Arc<Throttle>) -> Self {
        Self { client, throttle }
    }

    pub async fn create(&self, target: &Target, object: Vec<u8>, answer: Answer) -> Result<Value, ApiError> {
        let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let attempt = || format!("create {target}");
        let object = as_go_writes(object);
        let request =
            || Ok(HttpRequest::from(target.request().create(&options, object.clone())?).unchecked());
        self.call(attempt, answer, request).await
    }

    /// Reads the object; None if it does not exist.
    pub async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        let request = || target.request().get(&target.name, &GetParams::default());
        match self.call(|| format!("read {target}"), Answer::Object, request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists the objects of a type, in one namespace or in all of them.
    pub async fn list(
        &self,
        known: &ResourceType,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let target = Target {
            api_version: known.api_version(),
            plural: known.id.resource.clone(),
            kind: known.kind.clone(),
            namespace: namespace.map(str::to_owned),
            name: String::new(),
        };
        let options = ListParams::default().labels(selector);
        let attempt = || format!("list {}", known.id);
        let mut found = self.call(attempt, Answer::Object, || target.request().list(&options)).await?;
        Ok(match found["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        })
    }

    /// Merges `patch` into the object, or into one of its subresources.
    pub async fn merge(
        &self,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let request = || match subresource {
            None => target.request().patch(&target.name, &options, &patch),
            Some(part) => target.request().patch_subresource(part, &target.name, &options, &patch),
        };
        self.call(|| format!("update {target}"), Answer::Object, request).await
    }

    async fn call<R>(
        &self,
        attempt: impl Fn() -> String,
        answer: Answer,
        request: impl Fn() -> Result<R, kube::core::request::Error>,
    ) -> Result<Value, ApiError>
    where
        R: Into<HttpRequest>,
    {
        let start = Instant::now();
        let mut pause = Duration::from_millis(100);
        loop {
            let request = request().map_err(kube::Error::BuildRequest).attempt(attempt())?;
            let permit = self.throttle.permit().await;
            let (error, wait) = match self.once(request.into(), answer).await {
                Ok(object) => {
                    permit.answered();
                    return Ok(object);
                }
                Err(Refused::Busy { error, wait }) => {
                    permit.busy(wait);
                    (error, wait.unwrap_or(pause))
                }
                Err(Refused::Silent(error)) => {
                    permit.busy(None);
                    (error, pause)
                }
                Err(Refused::Final(error)) => {
                    permit.answered();
                    return Err(ApiError { attempt: attempt(), source: error });
                }
            };
            if start.elapsed() + wait > RETRY_TIME {
                return Err(ApiError { attempt: attempt(), source: error });
            }
            sleep(wait).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    async fn once(&self, mut request: HttpRequest, answer: Answer) -> Result<Value, Refused> {
        if answer == Answer::Nothing {
            request.short_answer();
        }
        let called = async {
            let response = self.client.send(request.0).await?;
            let status = response.status();
            let wait =
                response.headers().get("retry-after").and_then(|text| text.to_str().ok()?.parse().ok());
            let body = response.into_body().collect_bytes().await?;
            Ok::<_, kube::Error>((status, wait, body))
        };
        let (status, wait, body) = match timeout(ANSWER, called).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => return Err(Refused::of_transport(error)),
            Err(_elapsed) => {
                let message = format!("the API server did not answer within {} s", ANSWER.as_secs());
                return Err(Refused::Silent(Cause::Api(
                    Status::failure(&message, "Timeout").with_code(504).boxed(),
                )));
            }
        };
        if status.is_success() {
            return match answer {
                Answer::Nothing => Ok(Value::Null),
                Answer::Object => serde_json::from_slice(&body)
                    .map_err(|error| Refused::Final(kube::Error::SerdeError(error).into())),
            };
        }
        let code = status.as_u16();
        let error = Cause::Api(failure(code, &body).boxed());
        let wait = wait.map(Duration::from_secs);
        Err(match code {
            429 | 503 | 504 => Refused::Busy { error, wait },
            500 if is_timeout(&error) => Refused::Busy { error, wait },
            _ => Refused::Final(error),
        })
    }
}

/// A request to send; hides the type that kube builds.
struct HttpRequest(http::Request<Body>);

impl From<http::Request<Vec<u8>>> for HttpRequest {
    fn from(request: http::Request<Vec<u8>>) -> Self {
        Self(request.map(Body::from))
    }
}

impl HttpRequest {
    /// Turns off field validation. The API server drops unknown fields either way; with validation it would decode each
    /// object a second time for warnings that are not read.
    fn unchecked(mut self) -> Self {
        let uri = format!("{}&fieldValidation=Ignore", self.0.uri());
        if let Ok(uri) = uri.parse() {
            *self.0.uri_mut() = uri;
        }
        self
    }

    /// Requests the metadata only; servers that cannot do that send the whole object.
    fn short_answer(&mut self) {
        let wanted = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        self.0.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(wanted));
    }
}

/// Why one attempt failed.
enum Refused {
    /// Too busy: try again, after this time if the API server named one.
    Busy {
        error: Cause,
        wait: Option<Duration>,
    },
    /// No answer; whether the request was carried out is unknown.
    Silent(Cause),
    Final(Cause),
}

impl Refused {
    fn of_transport(error: kube::Error) -> Self {
        match error {
            kube::Error::HyperError(_) | kube::Error::Service(_) => Self::Silent(error.into()),
            other => Self::Final(other.into()),
        }
    }
}

/// Escapes JSON as Go does. This matters for raw parts of objects, which the API server stores unchanged: the
/// StatefulSet controller takes a ControllerRevision with `>` instead of `\u003e` for another one, and then fails
/// permanently.
fn as_go_writes(json: Vec<u8>) -> Vec<u8> {
    let separator =
        |at: usize| json.get(at..at + 3).filter(|three| matches!(*three, b"\xe2\x80\xa8" | b"\xe2\x80\xa9"));
    if !json.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
        return json;
    }
    let mut escaped = Vec::with_capacity(json.len() + 64);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        // These bytes occur only inside of strings.
        match byte {
            b'<' => escaped.extend_from_slice(br"\u003c"),
            b'>' => escaped.extend_from_slice(br"\u003e"),
            b'&' => escaped.extend_from_slice(br"\u0026"),
            0xe2 => {
                if let Some(three) = separator(at) {
                    escaped.extend_from_slice(if three[2] == 0xa8 { br"\u2028" } else { br"\u2029" });
                    at += 2;
                } else {
                    escaped.push(*byte);
                }
            }
            other => escaped.push(*other),
        }
        at += 1;
    }
    escaped
}

fn failure(code: u16, body: &[u8]) -> Status {
    match serde_json::from_slice::<Status>(body) {
        Ok(status) if status.code != 0 => status,
        _ => Status::failure(String::from_utf8_lossy(body).trim(), "Unknown").with_code(code),
    }
}

fn is_timeout(error: &Cause) -> bool {
    matches!(error, Cause::Api(status) if status.reason == "ServerTimeout" || status.reason == "Timeout")
}

/// Whether a custom resource definition is established: its type is served under its names.
pub fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let is_true = |name: &str| {
        conditions.into_iter().flatten().any(|one| one["type"] == name && one["status"] == "True")
    };
    is_true("Established") && is_true("NamesAccepted")
}

/// Whether a namespace or another object is being deleted.
pub fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
        || object.pointer("/status/phase").and_then(Value::as_str) == Some("Terminating")
}

/// Whether RBAC, an admission policy or a quota rejected the request.
pub fn is_forbidden(error: &ApiError) -> bool {
    matches!(&error.source, Cause::Api(status) if status.code == 403)
}

/// Whether a Service was rejected only because its ports are allocated, perhaps by itself.
pub fn is_port_taken(error: &ApiError) -> bool {
    let Cause::Api(status) = &error.source else { return false };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    !causes.is_empty()
        && causes.iter().all(|cause| cause.message.contains("provided port is already allocated"))
}
