//! The HTTP side of API servers for tests without a cluster: one function answers every request with a status code and JSON,
//! with plain text if the value is a string (logs), or with lines that are sent one by one (watches). It serves real HTTP,
//! so that the real client is tested. `lifeboat_control::testing::ApiServer` is an API server that keeps objects; the
//! function here is for tests of single requests of the client.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // tests end by panicking

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

/// A request as the answering function sees it.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// The part after the `?`, or an empty string.
    pub query: String,
    /// The form of the body, such as `application/merge-patch+json`.
    pub content_type: String,
    /// The form of the answer that the client asks for.
    pub accept: String,
    pub body: Value,
}

/// An answer.
#[derive(Debug)]
pub enum Reply {
    /// A status code, and JSON or plain text.
    Whole(u16, Value),
    /// JSON values, one in each line, sent when they are received; the answer ends when their sender is dropped.
    Lines(UnboundedReceiver<Value>),
}

/// A client whose API server is `answer`. Runs until the test's runtime ends.
pub async fn client<F>(answer: F) -> Client
where
    F: Fn(Asked) -> (u16, Value) + Send + Sync + 'static,
{
    client_of(move |asked| {
        let (code, body) = answer(asked);
        Reply::Whole(code, body)
    })
    .await
}

/// A client whose API server is `answer`, which may answer with lines. Runs until the test's runtime ends.
pub async fn client_of<F>(answer: F) -> Client
where
    F: Fn(Asked) -> Reply + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    let router = Router::new().fallback(async move |request: Request| response(answer(read(request).await)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    // The client's own retries (minutes, for some codes) would hide what is tested.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn read(request: Request) -> Asked {
    let text = |headers: &HeaderMap, name: HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let content_type = text(request.headers(), header::CONTENT_TYPE);
    let accept = text(request.headers(), header::ACCEPT);
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Asked { method, path, query, content_type, accept, body }
}

fn response(reply: Reply) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    match reply {
        Reply::Whole(code, body) => {
            let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            (StatusCode::from_u16(code).unwrap(), kind, text).into_response()
        }
        Reply::Lines(lines) => {
            let lines = futures::stream::unfold(lines, |mut lines| async move {
                let line = lines.recv().await?;
                Some((Ok::<_, Infallible>(format!("{line}\n")), lines))
            });
            (kind, Body::from_stream(lines)).into_response()
        }
    }
}

/// The body of an error answer.
pub fn failure(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
            "message": reason, "code": code}),
    )
}

/// JSON merge patch.
pub fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}
