//! Calls a service of the user: an HTTP request or a TCP connection. Redirects are not followed, because they lead to
//! hosts that the user did not name; only the first characters of a response are shown.

use std::error::Error as _;
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use url::{Url, form_urlencoded};

use super::failure::Failed;
use crate::report::{Called, Cause, Failure};
use crate::task::{Call, CallWork, FormField, Header, Method};

/// How many characters of a response's body are shown.
const SHOWN: usize = 200;
/// What to do about a certificate that is not accepted. The body of a call may have secrets, so the service has to prove who it is.
const UNTRUSTED: &str = "the certificate has to name the host and to be signed by an authority that is known: name a ConfigMap or Secret that \
    has the authority as ca.crt in annotation lifeboat.io/hook-ca of the object with the hook (configmap/NAME or secret/NAME), or accept any \
    certificate with its annotation lifeboat.io/hook-skip-verify: \"true\"";

pub(super) async fn carry_out(work: &CallWork, cancel: &CancellationToken) -> Result<Called, Failed> {
    let (started, limit) = (Instant::now(), Duration::from_secs(work.timeout_seconds.max(1)));
    let calling = tokio::time::timeout(limit, call(&work.call));
    let called = tokio::select! {
        called = calling => called,
        () = cancel.cancelled() => return Err(Failed::Cancelled),
    };
    let late = |_| failed(&work.call, format!("no response within {} s", limit.as_secs()));
    let status = called.map_err(late)??;
    let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Called { status, milliseconds })
}

async fn call(call: &Call) -> Result<Option<u16>, Failure> {
    match call {
        Call::Tcp { host, port } => {
            let connected = TcpStream::connect((host.as_str(), *port)).await;
            connected.map(|_| None).map_err(|error| failed(call, error))
        }
        Call::Http { method, url, headers, body, form, ca, skip_verify } => {
            let url = parsed(url)?;
            let mut headers = header_map(headers)?;
            // Without TLS nothing is verified, so no authorities have to be known.
            let accepts_any = *skip_verify || url.scheme() == "http";
            let client = client(accepts_any, authorities(ca.as_deref())?);
            let client = client.map_err(|error| not_sent(call, &error))?;
            let mut request = match method {
                Method::Get => client.get(url),
                Method::Post => client.post(url),
            };
            if !form.is_empty() {
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                headers.entry(CONTENT_TYPE).or_insert(kind);
                request = request.body(encoded(form));
            } else if let Some(body) = body {
                request = request.body(body.clone());
            }
            let response = request.headers(headers).send().await;
            judge(call, response.map_err(|error| not_sent(call, &error))?).await
        }
    }
}

fn client(accepts_any: bool, authorities: Vec<Certificate>) -> reqwest::Result<Client> {
    Client::builder()
        .user_agent(concat!("lifeboat/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .tls_certs_merge(authorities)
        .tls_danger_accept_invalid_certs(accepts_any)
        .build()
}

fn authorities(pem: Option<&str>) -> Result<Vec<Certificate>, Failure> {
    let Some(pem) = pem else { return Ok(Vec::new()) };
    match Certificate::from_pem_bundle(pem.as_bytes()) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(invalid("ca: it has no certificate in PEM ('-----BEGIN CERTIFICATE-----')".to_owned())),
    }
}

/// A request that was not sent, or got no response.
fn not_sent(call: &Call, error: &reqwest::Error) -> Failure {
    let text = chain(error);
    if text.contains("certificate") {
        failed(call, format!("{text}; {UNTRUSTED}"))
    } else {
        failed(call, text)
    }
}

/// A status from 200 to 399 is a success, as for probes of Kubernetes.
async fn judge(call: &Call, response: Response) -> Result<Option<u16>, Failure> {
    let status = response.status();
    if (200..400).contains(&status.as_u16()) {
        return Ok(Some(status.as_u16()));
    }
    let body = beginning(response).await;
    let body = if body.is_empty() { String::new() } else { format!(": {body}") };
    Err(failed(call, format!("the response has status {}{body}", status.as_u16())))
}

/// The first characters of a response's body, on one line.
async fn beginning(mut response: Response) -> String {
    let mut bytes = Vec::new();
    // A character has at most four bytes.
    while bytes.len() < 4 * SHOWN {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    let text: String = String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().filter(|character| !character.is_control()).take(SHOWN).collect()
}

fn parsed(url: &str) -> Result<Url, Failure> {
    match Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(invalid(format!("url: '{url}' is not an address that starts with 'http://' or 'https://'"))),
    }
}

fn header_map(headers: &[Header]) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    for Header { name, value } in headers {
        let key = HeaderName::try_from(name.as_str())
            .map_err(|_| invalid(format!("headers: '{name}' is not the name of a header")))?;
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| invalid(format!("headers: the value of '{name}' cannot be sent in a header")))?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

fn encoded(form: &[FormField]) -> String {
    let mut encoder = form_urlencoded::Serializer::new(String::new());
    for FormField { name, values } in form {
        for value in values {
            encoder.append_pair(name, value);
        }
    }
    encoder.finish()
}

/// The call for messages. A URL is shown without user and query, which may contain a password or a token.
fn shown(call: &Call) -> String {
    match call {
        Call::Tcp { host, port } => format!("connect to {host}:{port}"),
        Call::Http { method, url, .. } => {
            let method = if *method == Method::Get { "GET" } else { "POST" };
            let url = Url::parse(url).map_or_else(
                |_| "an invalid URL".to_owned(),
                |url| format!("{}{}", url.origin().ascii_serialization(), url.path()),
            );
            format!("{method} {url}")
        }
    }
}

fn failed(call: &Call, problem: impl std::fmt::Display) -> Failure {
    Failure { cause: Cause::Call, message: format!("cannot {}: {problem}", shown(call)) }
}

fn invalid(message: String) -> Failure {
    Failure { cause: Cause::Task, message }
}

/// An error with its sources; reqwest's own message names the URL, which is shown already.
fn chain(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = if text.is_empty() { more } else { format!("{text}: {more}") };
        }
        source = cause.source();
    }
    if text.is_empty() { "the request failed".to_owned() } else { text }
}
