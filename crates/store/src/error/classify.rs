//! Converts an `object_store` error to ours by searching the chain of sources for an `ErrorResponse` (the server's
//! status), a `TransportError` (which server could not be reached), rustls' error for a certificate, or the operating
//! system's error for a connection. Called by the object_store backend for every failed call.

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;

use http::StatusCode;
use object_store::client::{HttpError, HttpErrorKind};
use rustls::{CertificateError, Error as TlsError, InvalidMessage};

use super::response::code_of_service;
use super::{BadCertificate, BadCredentials, Error, ErrorResponse, Unreachable};

/// The object store that the request was sent to.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub bucket: String,
    /// `scheme://host:port`, as the user wrote it.
    pub endpoint: String,
    /// Whether messages leave out what the server answered: a tenant could otherwise read answers of servers that only
    /// this process reaches.
    pub discreet: bool,
}

impl Site {
    /// A detail that may quote an answer.
    pub(crate) fn quoted(&self, detail: impl Into<String>) -> String {
        if self.discreet { "the answer cannot be understood".to_owned() } else { detail.into() }
    }
}

/// What was attempted: `list 'backups/'`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub name: &'static str,
    /// The key or prefix, relative to the bucket.
    pub key: &'a str,
    /// A create-only write: 409 and 412 mean that the object exists.
    pub create: bool,
    /// A read pinned to one version: 412 means that the object was replaced.
    pub pinned: bool,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(name: &'static str, key: &'a str) -> Self {
        Self { name, key, create: false, pinned: false }
    }

    fn action(self) -> String {
        if self.key.is_empty() { self.name.to_owned() } else { format!("{} '{}'", self.name, self.key) }
    }
}

/// A failure below HTTP, with the server that the request was sent to.
#[derive(Debug, thiserror::Error)]
#[error("no response from '{origin}'")]
pub(crate) struct TransportError {
    pub origin: String,
    pub source: HttpError,
}

/// A connection to this address is not allowed by the `Guard`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("'{host}' has the address {address}, {kind}")]
pub(crate) struct AddressRefused {
    pub host: String,
    pub address: IpAddr,
    pub kind: &'static str,
}

/// A response with status 200 that is not a valid listing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadListing(pub &'static str);

/// Classifies the `error` of `operation` at `site`.
pub(crate) fn classify(site: &Site, operation: Operation<'_>, error: &(dyn StdError + 'static)) -> Error {
    if let Some(AddressRefused { host, address, kind }) = find::<AddressRefused>(error).cloned() {
        let transport = find::<TransportError>(error);
        let endpoint = transport.map_or_else(|| site.endpoint.clone(), |transport| transport.origin.clone());
        return Error::AddressRefused { endpoint, host, address, kind };
    }
    if let Some(response) = find::<ErrorResponse>(error) {
        return if same_origin(&response.origin, &site.endpoint) {
            from_response(site, operation, response)
        } else {
            credentials(&response.origin, BadCredentials::Source, response.detail())
        };
    }
    if let Some(bad) = find::<BadListing>(error) {
        return Error::Listing { prefix: operation.key.into(), detail: bad.0.into() };
    }
    if let Some(error @ object_store::Error::InvalidPath { .. }) = find::<object_store::Error>(error) {
        let detail = site.quoted(format!("it contains an invalid key: {error}"));
        return Error::Listing { prefix: operation.key.into(), detail };
    }
    if let Some(body) = innermost(error).strip_prefix("Server returned error response: ") {
        // Status 200 with an error in the body. object_store recognises two such cases and returns the body as text.
        let response = ErrorResponse::new(site.endpoint.clone(), StatusCode::OK, None, body);
        let response = if site.discreet { response.discreet() } else { response };
        return from_response(site, operation, &response);
    }
    if let Some(failure) = from_bulk_delete(site, operation, error) {
        return failure;
    }
    let origin =
        find::<TransportError>(error).map_or(site.endpoint.as_str(), |transport| transport.origin.as_str());
    let failure = from_transport(site, origin, operation, error);
    if same_origin(origin, &site.endpoint) {
        failure
    } else {
        credentials(origin, BadCredentials::Source, failure.to_string())
    }
}

fn from_response(site: &Site, operation: Operation<'_>, response: &ErrorResponse) -> Error {
    let endpoint = site.endpoint.clone();
    let detail = response.detail();
    let bucket = site.bucket.clone();
    let key = operation.key.to_owned();
    match (response.status.as_u16(), response.code.as_deref().unwrap_or_default()) {
        (_, "NoSuchBucket" | "ContainerNotFound") => Error::BucketNotFound { bucket, endpoint },
        // Two writes at the same time: S3 asks to try again, and then reports which one was first.
        (_, "ConditionalRequestConflict" | "OperationAborted") => {
            Error::Server { endpoint, action: operation.action(), detail }
        }
        (_, "NoSuchUpload") => Error::Other { action: operation.action(), detail },
        (_, "InvalidAccessKeyId" | "InvalidClientTokenId") => {
            credentials(&endpoint, BadCredentials::UnknownKeyId, detail)
        }
        (_, "SignatureDoesNotMatch" | "AuthenticationFailed") => {
            credentials(&endpoint, BadCredentials::SignatureMismatch, detail)
        }
        (_, "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken") => {
            credentials(&endpoint, BadCredentials::Expired, detail)
        }
        (_, "RequestTimeTooSkewed") => credentials(&endpoint, BadCredentials::ClockSkew, detail),
        (_, "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException") => {
            Error::WrongRegion { bucket, region: response.region.clone() }
        }
        (300..=399, _) => Error::WrongRegion { bucket, region: response.region.clone() },
        (400, _) if response.is_plain_http_refused() => Error::NotHttp { endpoint },
        // A wrong region without a body (HEAD), but with the header that names the right region.
        (400, "") if response.region.is_some() => {
            Error::WrongRegion { bucket, region: response.region.clone() }
        }
        (429 | 503, _) | (_, "SlowDown" | "ServerBusy" | "RequestLimitExceeded") => {
            Error::Throttled { endpoint, detail }
        }
        (401 | 403, _) => Error::Denied { action: operation.action(), bucket, detail },
        (404, _) if operation.name == "list" => Error::BucketNotFound { bucket, endpoint },
        (404, _) => Error::NotFound { key },
        (409 | 412, _) if operation.create => Error::AlreadyExists { key },
        (412, _) if operation.pinned => Error::Changed { key },
        // Storage is full. Waiting does not help, unlike with other errors of a server.
        (507, _) | (_, "XMinioStorageFull") => {
            Error::Rejected { endpoint, action: operation.action(), status: 507, detail }
        }
        (408 | 500 | 502..=599, _) | (_, "InternalError") => {
            Error::Server { endpoint, action: operation.action(), detail }
        }
        (status, _) => Error::Rejected { endpoint, action: operation.action(), status, detail },
    }
}

/// The failure of a single object in a response with status 200 to DeleteObjects; object_store returns its code as
/// text.
fn from_bulk_delete(
    site: &Site,
    operation: Operation<'_>,
    error: &(dyn StdError + 'static),
) -> Option<Error> {
    let text = innermost(error);
    let text = text.strip_prefix("DeleteObjects request failed for key ")?;
    let code = text.rsplit_once("(code: ")?.1.trim_end_matches(')');
    let text = if site.discreet { code_of_service(code).unwrap_or("the answer is an error") } else { text };
    let endpoint = site.endpoint.clone();
    Some(match code {
        "AccessDenied" => {
            Error::Denied { action: operation.action(), bucket: site.bucket.clone(), detail: text.to_owned() }
        }
        "SlowDown" => Error::Throttled { endpoint, detail: text.to_owned() },
        "InternalError" => Error::Server { endpoint, action: operation.action(), detail: text.to_owned() },
        "NoSuchKey" => Error::NotFound { key: operation.key.to_owned() },
        _ => Error::Other { action: operation.action(), detail: text.to_owned() },
    })
}

fn from_transport(
    site: &Site,
    origin: &str,
    operation: Operation<'_>,
    error: &(dyn StdError + 'static),
) -> Error {
    let endpoint = origin.to_owned();
    if let Some(tls) = chain(error).find_map(tls_error) {
        return from_tls(endpoint, tls);
    }
    let text: String = chain(error).map(|e| e.to_string() + "\n").collect();
    if text.contains("dns error") || text.contains("failed to lookup address") {
        let detail = "the host name does not resolve".into();
        return Error::Unreachable { endpoint, cause: Unreachable::Dns, detail };
    }
    if text.contains("invalid HTTP version parsed") && origin.starts_with("http://") {
        return Error::NotHttp { endpoint };
    }
    if text.contains("URL scheme is not allowed") {
        return Error::Unreachable {
            endpoint,
            cause: Unreachable::Other,
            detail: "plain HTTP is not allowed".into(),
        };
    }
    let kind = find::<HttpError>(error).map(HttpError::kind);
    let io = chain(error).find_map(|e| e.downcast_ref::<io::Error>()).map(io::Error::kind);
    let (cause, detail) = match (kind, io) {
        (Some(HttpErrorKind::Timeout), _) | (_, Some(io::ErrorKind::TimedOut)) => {
            (Unreachable::Timeout, "no response in time".to_owned())
        }
        (_, Some(io::ErrorKind::ConnectionRefused)) => {
            (Unreachable::Refused, "connection refused".to_owned())
        }
        (_, Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable)) => {
            (Unreachable::Refused, "no route to the host".to_owned())
        }
        (Some(HttpErrorKind::Interrupted | HttpErrorKind::Request), _)
        | (
            _,
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe),
        ) => (Unreachable::Closed, "the connection was closed".to_owned()),
        (Some(HttpErrorKind::Decode), _) => {
            let detail = site.quoted(innermost(error));
            return Error::Interrupted { action: operation.action(), detail };
        }
        (Some(_), _) => (Unreachable::Other, site.quoted(innermost(error))),
        (None, _) => {
            return Error::Other { action: operation.action(), detail: site.quoted(innermost(error)) };
        }
    };
    match find::<TransportError>(error) {
        Some(_) => Error::Unreachable { endpoint, cause, detail },
        // The response had begun: its body was cut off.
        None => Error::Interrupted { action: operation.action(), detail },
    }
}

fn from_tls(endpoint: String, error: &TlsError) -> Error {
    let (cause, detail) = match error {
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => return Error::NotHttps { endpoint },
        TlsError::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer => {
                (BadCertificate::Untrusted, "it is signed by an unknown authority".to_owned())
            }
            CertificateError::BadSignature => {
                let detail = "a trusted authority has the same name but another key";
                (BadCertificate::Untrusted, detail.to_owned())
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                (BadCertificate::Expired, "it has expired".to_owned())
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                (BadCertificate::NotYetValid, "it is not valid yet".to_owned())
            }
            CertificateError::NotValidForName => {
                (BadCertificate::OtherName, "it was issued for another host name".to_owned())
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                (BadCertificate::OtherName, format!("it was issued for {}", presented.join(", ")))
            }
            other if other.to_string().contains("CaUsedAsEndEntity") => (
                BadCertificate::Untrusted,
                "it is the certificate of an authority, not of a server".to_owned(),
            ),
            other => (BadCertificate::Other, other.to_string()),
        },
        TlsError::General(text) if text.contains("No CA certificates") => {
            (BadCertificate::Untrusted, "this system has no certificate authorities".to_owned())
        }
        other => (BadCertificate::Other, other.to_string()),
    };
    Error::Certificate { endpoint, cause, detail }
}

fn credentials(endpoint: &str, cause: BadCredentials, detail: String) -> Error {
    Error::Credentials { endpoint: endpoint.into(), cause, detail }
}

/// All errors of the chain. `io::Error` does not return the error that it wraps from `source()`, so that one is
/// unwrapped too.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
        None => error.source(),
    })
}

pub(crate) fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    chain(error).find_map(|e| e.downcast_ref::<E>())
}

fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsError> {
    error.downcast_ref::<TlsError>()
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

fn same_origin(left: &str, right: &str) -> bool {
    match (url::Url::parse(left), url::Url::parse(right)) {
        (Ok(left), Ok(right)) => {
            let under = |a: &url::Url, b: &url::Url| match (a.host_str(), b.host_str()) {
                (Some(a), Some(b)) => a == b || a.ends_with(&format!(".{b}")),
                _ => false,
            };
            left.port_or_known_default() == right.port_or_known_default()
                && (under(&left, &right) || under(&right, &left))
        }
        _ => left == right,
    }
}
