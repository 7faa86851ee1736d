//! Reading and writing single objects of any type as JSON, many at once, as fast as the API server bears it. A request that
//! the API server was too busy for, or did not answer, is made again for a while; whoever creates must know that the first
//! try may have succeeded. Called by the restore executor.

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

/// How long a busy or silent API server is asked again.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long one request may take.
const ANSWER: Duration = Duration::from_secs(35);

/// Where an object is.
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

/// What is asked of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: `Value::Null` is given back, and the API server sends no more than it must.
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
    /// `client` must not repeat requests by itself ([`crate::connect::direct`]), or the limit learns nothing.
    pub fn new(client: Client, throttle: Arc<Throttle>) -> Self {
        Self { client, throttle }
    }

    pub async fn create(&self, target: &Target, object: Vec<u8>, answer: Answer) -> Result<Value, ApiError> {
        let options = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let words = || format!("create {target}");
        let object = as_go_writes(object);
        let request =
            || Ok(HttpRequest::from(target.request().create(&options, object.clone())?).unchecked());
        self.call(words, answer, request).await
    }

    /// The object; None where there is none.
    pub async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        let request = || target.request().get(&target.name, &GetParams::default());
        match self.call(|| format!("read {target}"), Answer::Object, request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a type, in one namespace or everywhere.
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
        let words = || format!("list {}", known.id);
        let mut found = self.call(words, Answer::Object, || target.request().list(&options)).await?;
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
        words: impl Fn() -> String,
        answer: Answer,
        request: impl Fn() -> Result<R, kube::core::request::Error>,
    ) -> Result<Value, ApiError>
    where
        R: Into<HttpRequest>,
    {
        let start = Instant::now();
        let mut pause = Duration::from_millis(100);
        loop {
            let request = request().map_err(kube::Error::BuildRequest).attempt(words())?;
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
                    return Err(ApiError { attempt: words(), source: error });
                }
            };
            if start.elapsed() + wait > PATIENCE {
                return Err(ApiError { attempt: words(), source: error });
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
                let words = format!("the API server did not answer within {} s", ANSWER.as_secs());
                return Err(Refused::Silent(Cause::Api(
                    Status::failure(&words, "Timeout").with_code(504).boxed(),
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

/// A request on its way, so that callers need not name the type that kube builds.
struct HttpRequest(http::Request<Body>);

impl From<http::Request<Vec<u8>>> for HttpRequest {
    fn from(request: http::Request<Vec<u8>>) -> Self {
        Self(request.map(Body::from))
    }
}

impl HttpRequest {
    /// Fields that the API server does not know are dropped either way; without this it decodes each object a second time
    /// to warn of them, and nobody reads that.
    fn unchecked(mut self) -> Self {
        let uri = format!("{}&fieldValidation=Ignore", self.0.uri());
        if let Ok(uri) = uri.parse() {
            *self.0.uri_mut() = uri;
        }
        self
    }

    /// Asks for the metadata only; servers that cannot do that send the object.
    fn short_answer(&mut self) {
        let wanted = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        self.0.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(wanted));
    }
}

/// Why one try failed.
enum Refused {
    /// Come again, after this time where the API server says it.
    Busy {
        error: Cause,
        wait: Option<Duration>,
    },
    /// Nothing was heard; whether the request was carried out is unknown.
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

/// The API server's words; what is no Status is taken as text.
/// The same JSON with the escapes that Go makes. Nobody minds, but for raw parts of objects, which the API server keeps to the
/// byte: a StatefulSet's controller takes a ControllerRevision for another where `>` is not `\u003e`, and then fails for ever.
fn as_go_writes(json: Vec<u8>) -> Vec<u8> {
    let separator =
        |at: usize| json.get(at..at + 3).filter(|three| matches!(*three, b"\xe2\x80\xa8" | b"\xe2\x80\xa9"));
    if !json.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
        return json;
    }
    let mut escaped = Vec::with_capacity(json.len() + 64);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        // Outside of strings there are none of these.
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

/// Whether a definition can be used: its type is served under its names.
pub fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let is_true = |name: &str| {
        conditions.into_iter().flatten().any(|one| one["type"] == name && one["status"] == "True")
    };
    is_true("Established") && is_true("NamesAccepted")
}

/// Whether a namespace, or anything else, is on its way out.
pub fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
        || object.pointer("/status/phase").and_then(Value::as_str) == Some("Terminating")
}

/// Whether rights, a policy or a quota stood against it.
pub fn is_forbidden(error: &ApiError) -> bool {
    matches!(&error.source, Cause::Api(status) if status.code == 403)
}

/// Whether a service was refused only because its ports are taken, perhaps by itself.
pub fn is_port_taken(error: &ApiError) -> bool {
    let Cause::Api(status) = &error.source else { return false };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    !causes.is_empty()
        && causes.iter().all(|cause| cause.message.contains("provided port is already allocated"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::testing::{client, failure};

    fn target() -> Target {
        Target {
            api_version: "apps/v1".into(),
            plural: "deployments".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        }
    }

    async fn writer(
        answer: impl Fn(crate::testing::Asked) -> (u16, Value) + Send + Sync + 'static,
    ) -> Writer {
        Writer::new(client(answer).await, Arc::new(Throttle::default()))
    }

    #[test]
    fn raw_parts_of_objects_are_written_to_the_byte_as_go_does() {
        let json = json!({"a": "ls > x < y && z", "b": "\u{2028}é€\u{2029}"});
        let written = String::from_utf8(as_go_writes(json.to_string().into_bytes())).unwrap();
        assert_eq!(written, r#"{"a":"ls \u003e x \u003c y \u0026\u0026 z","b":"\u2028é€\u2029"}"#);
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json);
    }

    #[tokio::test]
    async fn objects_are_created_where_they_belong() {
        let writer = writer(|asked| {
            assert_eq!(
                (asked.method.as_str(), asked.path.as_str()),
                ("POST", "/apis/apps/v1/namespaces/shop/deployments")
            );
            (201, asked.body)
        })
        .await;
        let object = json!({"metadata": {"name": "web"}});
        let made = writer.create(&target(), object.to_string().into_bytes(), Answer::Object).await.unwrap();
        assert_eq!(made, object);
        let made = writer.create(&target(), object.to_string().into_bytes(), Answer::Nothing).await.unwrap();
        assert_eq!(made, Value::Null);
    }

    #[rstest]
    #[case::too_many(429, "TooManyRequests")]
    #[case::overloaded(503, "ServiceUnavailable")]
    #[case::server_timeout(500, "ServerTimeout")]
    #[tokio::test]
    async fn a_busy_api_server_is_asked_again(#[case] code: u16, #[case] reason: &'static str) {
        let asked = AtomicUsize::new(0);
        let writer = writer(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => failure(code, reason),
            _ => (200, request.body),
        })
        .await;
        writer.merge(&target(), None, &json!({"a": 1})).await.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_is_final_and_keeps_the_words() {
        let writer = writer(|_| failure(403, "quota exceeded")).await;
        let error = writer.create(&target(), b"{}".to_vec(), Answer::Nothing).await.unwrap_err();
        assert_eq!(error.chain(), "cannot create Deployment shop/web: quota exceeded");
    }

    #[tokio::test]
    async fn a_missing_object_is_none() {
        let writer = writer(|_| failure(404, "NotFound")).await;
        assert_eq!(writer.get(&target()).await.unwrap(), None);
    }

    #[test]
    fn definitions_are_ready_when_established_under_their_names() {
        let with = |names: &str| {
            json!({"status": {"conditions": [{"type": "Established", "status": "True"},
                {"type": "NamesAccepted", "status": names}]}})
        };
        assert!(is_established(&with("True")));
        assert!(!is_established(&with("False")));
        assert!(!is_established(&json!({})));
    }
}
