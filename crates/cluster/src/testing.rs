//! A small API server for tests without a cluster: one function answers every request with a status code and JSON, or
//! with plain text if the value is a string (logs). It serves real HTTP, so that the real client is tested.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // tests end by panicking

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use kube::{Client, Config};
use serde_json::{Value, json};

/// A request as the answering function sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// The part after the `?`, or an empty string.
    pub query: String,
    pub body: Value,
}

/// A client whose API server is `answer`. Runs until the test's runtime ends.
pub async fn client<F>(answer: F) -> Client
where
    F: Fn(Asked) -> (u16, Value) + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    let router = Router::new().fallback(async move |request: Request| {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (code, body) = answer(Asked { method, path, query, body });
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        (StatusCode::from_u16(code).unwrap(), kind, text)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    // The client's own retries (minutes, for some codes) would hide what is tested.
    config.default_retry = false;
    Client::try_from(config).unwrap()
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
