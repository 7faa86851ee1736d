//! An HTTP error response as a typed error that is passed through object_store's errors: status, the service's error
//! code and message, and the region that it names. Made by the HTTP layer, read by `classify`.

use http::StatusCode;

/// The most characters of a server's message that are copied into a status or a log.
const MAX_MESSAGE: usize = 240;

/// Parts of the responses of Go and nginx to plain HTTP on their HTTPS port.
const PLAIN_HTTP_REFUSED: [&str; 2] = ["HTTP request to an HTTPS server", "sent to HTTPS port"];

/// The error codes of S3, Google, Azure and their token services that help a user.
const CODES: &[&str] = &[
    "AccessDenied",
    "AccountIsDisabled",
    "AccountProblem",
    "AllAccessDisabled",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AuthorizationHeaderMalformed",
    "AuthorizationPermissionMismatch",
    "BadDigest",
    "BlobAlreadyExists",
    "BlobNotFound",
    "ConditionalRequestConflict",
    "ContainerNotFound",
    "EntityTooLarge",
    "ExpiredToken",
    "IllegalLocationConstraintException",
    "InsufficientAccountPermissions",
    "InternalError",
    "InvalidAccessKeyId",
    "InvalidArgument",
    "InvalidAuthenticationInfo",
    "InvalidBucketName",
    "InvalidClientTokenId",
    "InvalidRange",
    "InvalidRequest",
    "InvalidToken",
    "MethodNotAllowed",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "NotImplemented",
    "OperationAborted",
    "PERMISSION_DENIED",
    "PermanentRedirect",
    "PreconditionFailed",
    "QuotaExceeded",
    "RequestLimitExceeded",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "ResourceNotFound",
    "ServerBusy",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "TokenRefreshRequired",
    "UNAUTHENTICATED",
    "XAmzContentSHA256Mismatch",
    "invalid_client",
    "invalid_grant",
];

/// The code, if it is one of the storage services'.
pub(super) fn code_of_service(code: &str) -> Option<&'static str> {
    CODES.iter().find(|known| **known == code).copied()
}

/// An error response of the object store or of a token service.
#[derive(Debug, Clone, thiserror::Error)]
#[error("'{origin}' responded with {status}{}", code.as_deref().map(|c| format!(" {c}")).unwrap_or_default())]
pub(crate) struct ErrorResponse {
    /// `scheme://host:port` of the server.
    pub origin: String,
    pub status: StatusCode,
    /// `NoSuchBucket`, `AccessDenied`, `BlobNotFound`, …
    pub code: Option<String>,
    pub message: Option<String>,
    /// The bucket's region, if the server named it.
    pub region: Option<String>,
}

impl ErrorResponse {
    /// Parses the XML of S3, Google and Azure and the JSON of their token services.
    pub(crate) fn new(origin: String, status: StatusCode, region: Option<String>, body: &str) -> Self {
        let (code, message) = match serde_json::from_str::<serde_json::Value>(body) {
            Ok(json) => json_error(&json),
            Err(_) => (xml_text(body, "Code"), xml_text(body, "Message")),
        };
        let message = message.or_else(|| plain_text(body)).map(|text| shorten(&text));
        let region = region.or_else(|| xml_text(body, "Region"));
        Self { origin, status, code, message, region }
    }

    /// Without anything that the server chose freely: the code only if it is one of the storage services' own, no message,
    /// a region only if it looks like one.
    pub(crate) fn discreet(self) -> Self {
        let is_region = |region: &String| {
            region.len() <= 32
                && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        Self {
            code: self.code.as_deref().and_then(code_of_service).map(str::to_owned),
            message: self.is_plain_http_refused().then(|| PLAIN_HTTP_REFUSED[0].to_owned()),
            region: self.region.filter(is_region),
            ..self
        }
    }

    /// Whether a server of Go or nginx got plain HTTP on its HTTPS port.
    pub(crate) fn is_plain_http_refused(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default();
        self.status == StatusCode::BAD_REQUEST && PLAIN_HTTP_REFUSED.iter().any(|text| message.contains(text))
    }

    /// Status, code and the server's message, for error messages.
    pub(crate) fn detail(&self) -> String {
        let code = self.code.as_deref().map(|code| format!(" {code}")).unwrap_or_default();
        let message = self.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        format!("status {}{code}{message}", self.status.as_u16())
    }
}

/// The text of the first element `name`. Sufficient for flat error documents with any namespace.
pub(crate) fn xml_text(body: &str, name: &str) -> Option<String> {
    let start = body.find(&format!("<{name}>"))? + name.len() + 2;
    let end = body[start..].find(&format!("</{name}>"))? + start;
    let text = body[start..end].trim();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    (!text.is_empty()).then_some(text)
}

fn json_error(json: &serde_json::Value) -> (Option<String>, Option<String>) {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let error = &json["error"];
    if error.is_object() {
        let code = text(&error["code"]).or_else(|| text(&error["status"]));
        return (code, text(&error["message"]));
    }
    (text(error), text(&json["error_description"]))
}

/// A body of one line of text, such as Go's response to HTTP on an HTTPS port. HTML pages are of no use to the user.
fn plain_text(body: &str) -> Option<String> {
    let body = body.trim();
    (!body.is_empty() && !body.starts_with('<') && !body.starts_with('{')).then(|| body.to_owned())
}

fn shorten(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::s3(
        "<?xml?><Error><Code>AccessDenied</Code><Message>a &amp; b</Message></Error>",
        "status 403 AccessDenied: a & b"
    )]
    #[case::google(
        r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}"#,
        "status 403 PERMISSION_DENIED: no"
    )]
    #[case::oauth(
        r#"{"error":"invalid_grant","error_description":"expired"}"#,
        "status 403 invalid_grant: expired"
    )]
    #[case::html("<html><body>no</body></html>", "status 403")]
    #[case::text("plain text\n", "status 403: plain text")]
    #[case::control("a\u{1b}[31mb", "status 403: a [31mb")]
    #[case::nothing("", "status 403")]
    fn a_servers_message_is_parsed(#[case] body: &str, #[case] expected: &str) {
        let response = ErrorResponse::new("http://x".into(), StatusCode::FORBIDDEN, None, body);
        assert_eq!(response.detail(), expected);
    }

    #[test]
    fn a_long_message_is_cut() {
        let response = ErrorResponse::new("http://x".into(), StatusCode::FORBIDDEN, None, &"ü".repeat(1000));
        assert_eq!(response.message.unwrap().chars().count(), MAX_MESSAGE + 1);
    }
}
