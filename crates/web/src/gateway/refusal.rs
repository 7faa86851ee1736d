//! Why a request is refused, as the client sees it: a status that restic's clients understand, and one line of text.
//! The text contains no token, and of storage only a word from a fixed list.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{FilesError, NoGrant};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("send the token of the task as the password of HTTP basic authentication")]
    NoToken,
    #[error(transparent)]
    NoGrant(#[from] NoGrant),
    #[error("the task of this token has ended")]
    Ended,
    #[error("this token is for another repository")]
    Elsewhere,
    #[error("a repository has no such file or directory")]
    Unknown,
    #[error("this method is not possible here")]
    Method,
    #[error("only the server {0}")]
    ServersOnly(&'static str),
    #[error("the token is for a restore, which adds nothing but locks")]
    ReadOnly,
    #[error("a task deletes only locks that it made itself")]
    ForeignLock,
    #[error("the lock is refused: {0}")]
    BadLock(&'static str),
    #[error("the request must have a Content-Length")]
    NoLength,
    #[error("the file has {size} bytes; at most {limit} are taken (restic: --pack-size 16)")]
    TooLarge { size: u64, limit: u64 },
    #[error("the name of the file is not the SHA-256 of its content")]
    WrongName,
    #[error("the request did not arrive whole")]
    Incomplete,
    #[error("too many requests at once; try again")]
    Busy,
    #[error("the server cannot keep the file for a moment; try again")]
    NoSpool,
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoToken | Self::NoGrant(NoGrant::Invalid | NoGrant::Expired) => StatusCode::UNAUTHORIZED,
            Self::Ended
            | Self::Elsewhere
            | Self::ServersOnly(_)
            | Self::ReadOnly
            | Self::ForeignLock
            | Self::BadLock(_)
            | Self::Files(FilesError::Exists) => StatusCode::FORBIDDEN,
            Self::Unknown | Self::Files(FilesError::NotFound) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoLength => StatusCode::LENGTH_REQUIRED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::WrongName => StatusCode::BAD_REQUEST,
            // Clients try again after this status.
            Self::Incomplete => StatusCode::REQUEST_TIMEOUT,
            Self::Files(FilesError::Range { .. }) => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::NoGrant(NoGrant::Unavailable(_))
            | Self::Busy
            | Self::NoSpool
            | Self::Files(FilesError::Busy { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Files(FilesError::Failed { .. }) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(format!("{self}\n")));
        let status = self.status();
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if status == StatusCode::UNAUTHORIZED {
            let asked = HeaderValue::from_static("Basic realm=\"lifeboat\"");
            headers.insert(header::WWW_AUTHENTICATE, asked);
        }
        if let Self::Files(FilesError::Range { size }) = &self
            && let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}"))
        {
            headers.insert(header::CONTENT_RANGE, value);
        }
        response
    }
}
