//! The HTTP layer between object_store and the network. Every error response becomes a typed `ErrorResponse` and
//! every failure below HTTP is labelled with the server, so that `error::classify` does not have to guess. Listings
//! are checked before object_store parses them, and headers that object_store cannot send are added. The client
//! itself is in `transport`. For storage that a tenant describes, a `Guard` limits which addresses are connected to, no proxy
//! is used and no redirect is followed, and responses keep only what storage services define.

mod transport;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::error::{self, BadListing, ErrorResponse};
use crate::guard::{Guard, GuardedResolver};
use crate::layers::bandwidth::TokenBucket;
use transport::Transport;

/// How much of an error response's body is read.
const MAX_ERROR_BODY: usize = 16 * 1024;

/// The most that is read of a listing, or of the answer to a POST, of storage that a tenant describes. A page of a listing has a
/// thousand keys, each of a kilobyte at most.
const MAX_TENANT_ANSWER: usize = 16 * 1024 * 1024;

/// The connect timeout.
const CONNECT: Duration = Duration::from_secs(5);

/// Makes HTTP clients whose errors `classify` understands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    /// A header for requests that create an object, where object_store has no setting for it (Google's KMS key;
    /// requests there are authorised by a token, so nothing signed changes).
    pub create_header: Option<(HeaderName, HeaderValue)>,
    /// Certificates that are trusted in addition to the system's.
    pub roots: Vec<reqwest::Certificate>,
    /// Only `roots` are trusted, and no proxy is used: for a server of ours with an authority of its own.
    pub pinned: bool,
    /// The client certificate for servers that require one.
    pub identity: Option<reqwest::Identity>,
    pub skip_verify: bool,
    /// Limits the upload rate.
    pub upload: Option<Arc<TokenBucket>>,
    /// The limits for storage that a tenant describes.
    pub guard: Option<Guard>,
}

impl HttpConnector for Connector {
    /// `options` cannot express everything that is needed here, so only the settings that object_store changes itself
    /// are taken from it: whether plain HTTP is allowed, and the short timeouts for metadata services.
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let option = |key: ClientConfigKey| options.get_config_value(&key);
        let allow_http = option(ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let hasty = option(ClientConfigKey::ConnectTimeout).as_deref() == Some("1s");
        let mut builder = reqwest::ClientBuilder::new()
            .user_agent(concat!("lifeboat/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(if hasty { Duration::from_secs(1) } else { CONNECT })
            .tls_danger_accept_invalid_certs(self.skip_verify)
            .https_only(!allow_http)
            .http1_only()
            // Decompression would make the content lengths wrong.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate();
        let roots = self.roots.iter().cloned();
        builder = if self.pinned {
            builder.tls_certs_only(roots).no_proxy().redirect(reqwest::redirect::Policy::none())
        } else {
            builder.tls_certs_merge(roots)
        };
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        if let Some(guard) = &self.guard {
            // A proxy connects to addresses that the guard does not see, and a redirect leads to a server that the tenant
            // did not name.
            builder = builder
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .dns_resolver(Arc::new(GuardedResolver(guard.clone())));
        }
        let client = builder.build().map_err(|source| object_store::Error::Generic {
            store: "HTTP client",
            source: Box::new(source),
        })?;
        let transport = Transport { client, upload: self.upload.clone(), guard: self.guard.clone() };
        let service = Service {
            inner: HttpClient::new(transport),
            create_header: self.create_header.clone(),
            discreet: self.guard.is_some(),
        };
        Ok(HttpClient::new(service))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    create_header: Option<(HeaderName, HeaderValue)>,
    /// Whether responses keep only what storage services define.
    discreet: bool,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Some((name, value)) = &self.create_header
            && creates_object(request.method(), request.uri())
        {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        let origin = origin(request.uri());
        let listing = is_listing(request.method(), request.uri());
        // S3 responds with 200 before it has assembled the parts, and may report an error in the body afterwards.
        let late_error = request.method() == Method::POST;
        let response = self.inner.execute(request).await.map_err(|source| {
            HttpError::new(source.kind(), error::TransportError { origin: origin.clone(), source })
        })?;
        if !response.status().is_success() {
            let error = self.shown(error_response(origin, response).await);
            return Err(HttpError::new(HttpErrorKind::Unknown, error));
        }
        if !listing && !late_error {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = if self.discreet { bounded(body, MAX_TENANT_ANSWER).await? } else { body.bytes().await? };
        if listing && let Some(problem) = listing_problem(&body) {
            return Err(HttpError::new(HttpErrorKind::Decode, BadListing(problem)));
        }
        if late_error && root_element(&String::from_utf8_lossy(&body)) == Some("Error") {
            let text = String::from_utf8_lossy(&body);
            let error = ErrorResponse::new(origin, StatusCode::INTERNAL_SERVER_ERROR, None, &text);
            return Err(HttpError::new(HttpErrorKind::Unknown, self.shown(error)));
        }
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

impl Service {
    fn shown(&self, error: ErrorResponse) -> ErrorResponse {
        if self.discreet { error.discreet() } else { error }
    }
}

/// A body of limited size.
async fn bounded(body: HttpResponseBody, most: usize) -> Result<Bytes, HttpError> {
    let (mut all, mut chunks) = (BytesMut::new(), body.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if all.len() + chunk.len() > most {
            return Err(HttpError::new(HttpErrorKind::Decode, BadListing("the response is too large")));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

async fn error_response(origin: String, response: HttpResponse) -> ErrorResponse {
    let (parts, body) = response.into_parts();
    let region = parts.headers.get("x-amz-bucket-region").and_then(|v| v.to_str().ok()).map(str::to_owned);
    let code = parts.headers.get("x-ms-error-code").and_then(|v| v.to_str().ok()).map(str::to_owned);
    let mut text = BytesMut::new();
    let mut body = body.bytes_stream();
    // If the body is cut off, only the server's message is lost; the status is known.
    while let Some(Ok(chunk)) = body.next().await {
        text.extend_from_slice(&chunk);
        if text.len() >= MAX_ERROR_BODY {
            break;
        }
    }
    let error = ErrorResponse::new(origin, parts.status, region, &String::from_utf8_lossy(&text));
    ErrorResponse { code: error.code.or(code), ..error }
}

pub(crate) fn origin(uri: &Uri) -> String {
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
        _ => uri.to_string(),
    }
}

fn is_listing(method: &Method, uri: &Uri) -> bool {
    method == Method::GET && query(uri).any(|pair| pair == "list-type=2" || pair == "comp=list")
}

/// Matches the upload of a whole object and the start of a multipart upload; parts inherit the key.
fn creates_object(method: &Method, uri: &Uri) -> bool {
    let has = |name: &str| query(uri).any(|pair| pair.split('=').next() == Some(name));
    (method == Method::PUT && !has("partNumber")) || (method == Method::POST && has("uploads"))
}

fn query(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

/// object_store accepts any XML as a listing, an empty one if nothing matches. A proxy's error page would then mean
/// "no snapshots", and prune would delete everything. So the response must have the right root element, must be
/// complete, and must name a continuation token if it is truncated.
fn listing_problem(body: &Bytes) -> Option<&'static str> {
    let text = String::from_utf8_lossy(body);
    if !matches!(root_element(&text), Some("ListBucketResult" | "EnumerationResults")) {
        return Some("the response is not a listing");
    }
    let Some(end) = end_of_listing(&text) else { return Some("the response is incomplete") };
    (end.is_truncated && !end.has_token).then_some("it is truncated but names no continuation token")
}

/// What a listing of S3 says about whether it continues.
#[derive(Debug, Default)]
struct EndOfListing {
    is_truncated: bool,
    has_token: bool,
}

/// Reads the elements directly below the root, whatever their namespaces and however they are written. `None` if the
/// document ends early or is not XML.
fn end_of_listing(text: &str) -> Option<EndOfListing> {
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut end = EndOfListing::default();
    let mut depth = 0_u32;
    // The element below the root that the reader is in, and its text.
    let (mut element, mut content) = (Vec::new(), String::new());
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                depth += 1;
                if depth == 2 {
                    element = start.local_name().as_ref().to_vec();
                    content.clear();
                }
            }
            Event::Text(part) if depth == 2 => content.push_str(&part.decode().ok()?),
            Event::CData(part) if depth == 2 => content.push_str(&part.decode().ok()?),
            // A character that is written as a reference: only whether there is one matters.
            Event::GeneralRef(_) if depth == 2 => content.push('&'),
            Event::End(_) => {
                if depth == 2 {
                    let content = content.trim();
                    end.is_truncated |= element == b"IsTruncated" && content.eq_ignore_ascii_case("true");
                    end.has_token |= element == b"NextContinuationToken" && !content.is_empty();
                }
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(end);
                }
            }
            Event::Empty(_) if depth == 0 => return Some(end),
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// The name of the first element, without its namespace.
fn root_element(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find('<')? + 1..];
        if !rest.starts_with(['?', '!']) {
            break;
        }
    }
    let end = rest.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
    rest[..end].rsplit(':').next()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::s3(
        "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><Name>b</Name></ListBucketResult>\n",
        None
    )]
    #[case::azure("\u{feff}<?xml version=\"1.0\"?><EnumerationResults><Blobs/></EnumerationResults>", None)]
    #[case::namespace("<s3:ListBucketResult></s3:ListBucketResult>", None)]
    #[case::empty_element("<ListBucketResult/>", None)]
    #[case::proxy_page(
        "<!DOCTYPE html><html><body>Log in</body></html>",
        Some("the response is not a listing")
    )]
    #[case::error("<Error><Code>Whatever</Code></Error>", Some("the response is not a listing"))]
    #[case::json("{\"ok\":true}", Some("the response is not a listing"))]
    #[case::nothing("", Some("the response is not a listing"))]
    #[case::cut("<ListBucketResult><Contents><Key>a</Key></Contents>", Some("the response is incomplete"))]
    #[case::no_token(
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        Some("it is truncated but names no continuation token")
    )]
    #[case::token(
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
        None
    )]
    #[case::namespaces(
        "<s3:ListBucketResult><s3:IsTruncated>true</s3:IsTruncated></s3:ListBucketResult>",
        Some("it is truncated but names no continuation token")
    )]
    #[case::blanks(
        "<ListBucketResult><IsTruncated xmlns='x' >\n true </IsTruncated ></ListBucketResult>",
        Some("it is truncated but names no continuation token")
    )]
    #[case::empty_token(
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken/></ListBucketResult>",
        Some("it is truncated but names no continuation token")
    )]
    #[case::token_with_a_namespace(
        "<s:ListBucketResult xmlns:s='x'><s:IsTruncated>true</s:IsTruncated>\
         <s:NextContinuationToken>a&amp;b</s:NextContinuationToken></s:ListBucketResult>",
        None
    )]
    #[case::key_that_looks_like_an_element(
        "<ListBucketResult><Contents><Key>&lt;IsTruncated>true&lt;/IsTruncated></Key></Contents></ListBucketResult>",
        None
    )]
    #[case::element_of_an_object(
        "<ListBucketResult><Contents><IsTruncated>true</IsTruncated></Contents></ListBucketResult>",
        None
    )]
    #[case::not_closed("<ListBucketResult><Contents></ListBucketResult>", Some("the response is incomplete"))]
    fn a_listing_is_looked_at_before_it_is_believed(
        #[case] body: &'static str,
        #[case] problem: Option<&str>,
    ) {
        assert_eq!(listing_problem(&Bytes::from_static(body.as_bytes())), problem);
    }

    #[rstest]
    #[case::object(Method::PUT, "https://h/b/key", true)]
    #[case::begin(Method::POST, "https://h/b/key?uploads", true)]
    #[case::begin_with_value(Method::POST, "https://h/b/key?uploads=", true)]
    #[case::part(Method::PUT, "https://h/b/key?partNumber=1&uploadId=x", false)]
    #[case::complete(Method::POST, "https://h/b/key?uploadId=x", false)]
    #[case::read(Method::GET, "https://h/b/key", false)]
    fn an_encryption_key_is_named_exactly_when_an_object_begins(
        #[case] method: Method,
        #[case] uri: &'static str,
        #[case] expected: bool,
    ) {
        assert_eq!(creates_object(&method, &Uri::from_static(uri)), expected);
    }
}
