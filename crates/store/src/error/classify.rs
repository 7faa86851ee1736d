//! From an `object_store` error to ours, by walking the chain of sources: our own `Answer` (a status the server
//! sent), our own `Transport` (which server could not be spoken to), rustls' verdict on a certificate, the
//! operating system's verdict on a connection. Called by the backend on object_store for every failed call.

use std::error::Error as StdError;
use std::io;

use http::StatusCode;
use object_store::client::{HttpError, HttpErrorKind};
use rustls::{CertificateError, Error as TlsError, InvalidMessage};

use super::{Answer, BadCertificate, BadCredentials, Error, Unreachable};

/// The object store that was spoken to.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub bucket: String,
    /// `scheme://host:port`, as people wrote it.
    pub endpoint: String,
}

/// What was attempted: `list 'backups/'`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub name: &'static str,
    /// The key or prefix, relative to the bucket.
    pub key: &'a str,
    /// A create-only write: 409 and 412 mean that the object is there.
    pub create: bool,
    /// A read pinned to one version: 412 means that the object was replaced.
    pub pinned: bool,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(name: &'static str, key: &'a str) -> Self {
        Self { name, key, create: false, pinned: false }
    }

    fn words(self) -> String {
        if self.key.is_empty() { self.name.to_owned() } else { format!("{} '{}'", self.name, self.key) }
    }
}

/// A failure below HTTP, with the server that it happened to.
#[derive(Debug, thiserror::Error)]
#[error("no answer from '{origin}'")]
pub(crate) struct Transport {
    pub origin: String,
    pub source: HttpError,
}

/// An answer of status 200 that must not be taken for a listing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadListing(pub &'static str);

/// Classifies `error`, which came of `operation` at `site`.
pub(crate) fn classify(site: &Site, operation: Operation<'_>, error: &(dyn StdError + 'static)) -> Error {
    if let Some(answer) = find::<Answer>(error) {
        return if same_origin(&answer.origin, &site.endpoint) {
            from_answer(site, operation, answer)
        } else {
            credentials(&answer.origin, BadCredentials::Source, answer.detail())
        };
    }
    if let Some(bad) = find::<BadListing>(error) {
        return Error::Listing { prefix: operation.key.into(), detail: bad.0.into() };
    }
    if let Some(error @ object_store::Error::InvalidPath { .. }) = find::<object_store::Error>(error) {
        let detail = format!("it holds a key that no store of ours can write: {error}");
        return Error::Listing { prefix: operation.key.into(), detail };
    }
    if let Some(body) = innermost(error).strip_prefix("Server returned error response: ") {
        // Status 200 with an error inside; object_store looks for two of them and tells the body as text.
        let answer = Answer::new(site.endpoint.clone(), StatusCode::OK, None, body);
        return from_answer(site, operation, &answer);
    }
    if let Some(failure) = from_bulk_delete(site, operation, error) {
        return failure;
    }
    let origin =
        find::<Transport>(error).map_or(site.endpoint.as_str(), |transport| transport.origin.as_str());
    let failure = from_transport(origin, operation, error);
    if same_origin(origin, &site.endpoint) {
        failure
    } else {
        credentials(origin, BadCredentials::Source, failure.to_string())
    }
}

fn from_answer(site: &Site, operation: Operation<'_>, answer: &Answer) -> Error {
    let endpoint = site.endpoint.clone();
    let detail = answer.detail();
    let bucket = site.bucket.clone();
    let key = operation.key.to_owned();
    match (answer.status.as_u16(), answer.code.as_deref().unwrap_or_default()) {
        (_, "NoSuchBucket" | "ContainerNotFound") => Error::BucketNotFound { bucket, endpoint },
        // A write at the same moment; S3 asks to try again, and then says who was first.
        (_, "ConditionalRequestConflict" | "OperationAborted") => {
            Error::Server { endpoint, action: operation.words(), detail }
        }
        (_, "NoSuchUpload") => Error::Other { action: operation.words(), detail },
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
            Error::WrongRegion { bucket, region: answer.region.clone() }
        }
        (300..=399, _) => Error::WrongRegion { bucket, region: answer.region.clone() },
        (400, _) if speaks_https(answer) => Error::NotHttp { endpoint },
        // A wrong region without a body (HEAD), but with the header that names the right one.
        (400, "") if answer.region.is_some() => Error::WrongRegion { bucket, region: answer.region.clone() },
        (429 | 503, _) | (_, "SlowDown" | "ServerBusy" | "RequestLimitExceeded") => {
            Error::Throttled { endpoint, detail }
        }
        (401 | 403, _) => Error::Denied { action: operation.words(), bucket, detail },
        (404, _) if operation.name == "list" => Error::BucketNotFound { bucket, endpoint },
        (404, _) => Error::NotFound { key },
        (409 | 412, _) if operation.create => Error::AlreadyExists { key },
        (412, _) if operation.pinned => Error::Changed { key },
        (408 | 500 | 502..=599, _) | (_, "InternalError") => {
            Error::Server { endpoint, action: operation.words(), detail }
        }
        (status, _) => Error::Rejected { endpoint, action: operation.words(), status, detail },
    }
}

/// One object's failure inside an answer of status 200 to DeleteObjects; object_store tells its code as text.
fn from_bulk_delete(
    site: &Site,
    operation: Operation<'_>,
    error: &(dyn StdError + 'static),
) -> Option<Error> {
    let text = innermost(error);
    let text = text.strip_prefix("DeleteObjects request failed for key ")?;
    let code = text.rsplit_once("(code: ")?.1.trim_end_matches(')');
    let endpoint = site.endpoint.clone();
    Some(match code {
        "AccessDenied" => {
            Error::Denied { action: operation.words(), bucket: site.bucket.clone(), detail: text.to_owned() }
        }
        "SlowDown" => Error::Throttled { endpoint, detail: text.to_owned() },
        "InternalError" => Error::Server { endpoint, action: operation.words(), detail: text.to_owned() },
        "NoSuchKey" => Error::NotFound { key: operation.key.to_owned() },
        _ => Error::Other { action: operation.words(), detail: text.to_owned() },
    })
}

/// Go's and nginx's answer to plain HTTP on their HTTPS port.
fn speaks_https(answer: &Answer) -> bool {
    answer.status == StatusCode::BAD_REQUEST
        && answer.message.as_deref().is_some_and(|text| {
            text.contains("HTTP request to an HTTPS server") || text.contains("sent to HTTPS port")
        })
}

fn from_transport(origin: &str, operation: Operation<'_>, error: &(dyn StdError + 'static)) -> Error {
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
            (Unreachable::Timeout, "no answer in time".to_owned())
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
            return Error::Interrupted { action: operation.words(), detail: innermost(error) };
        }
        (Some(_), _) => (Unreachable::Other, innermost(error)),
        (None, _) => return Error::Other { action: operation.words(), detail: innermost(error) },
    };
    match find::<Transport>(error) {
        Some(_) => Error::Unreachable { endpoint, cause, detail },
        // The answer had begun: its body broke off.
        None => Error::Interrupted { action: operation.words(), detail },
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
                let detail = "an authority of the same name is trusted, but it has another key";
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
            other if other.to_string().contains("CaUsedAsEndEntity") => {
                (BadCertificate::Untrusted, "it is a self-signed authority's own".to_owned())
            }
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

/// Every error of the chain; `io::Error` hides the one it carries from `source()`, so that is unpacked too.
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
