//! Serves files of backups to clients that hold a link: `/download/TOKEN`. [`Downloads`] decides whether a token is
//! valid and which file it opens; this module sends that file unchanged. Stock clients decompress gzip themselves, so
//! the response never has a Content-Encoding.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::{WebError, listen};

/// A file to be sent.
pub struct Download {
    pub file_name: String,
    /// The size, if it is known.
    pub size: Option<u64>,
    pub body: BoxStream<'static, std::io::Result<Bytes>>,
}

/// Why a file is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DownloadRefused {
    #[error("this link is not valid; request a new one")]
    Invalid,
    #[error("this link has expired; request a new one")]
    Expired,
    #[error("the file is not in storage")]
    NotFound,
    #[error("storage does not respond; try again")]
    Unavailable,
}

/// Opens the file that a token is for.
#[async_trait]
pub trait Downloads: Send + Sync + 'static {
    async fn open(&self, token: &str) -> Result<Download, DownloadRefused>;
}

/// Serves until `stop` is cancelled.
pub async fn serve_downloads(
    address: SocketAddr,
    downloads: Arc<dyn Downloads>,
    stop: CancellationToken,
) -> Result<(), WebError> {
    const WHAT: &str = "downloads";
    let listener = listen(address).await.map_err(|source| WebError::Listen {
        address,
        what: WHAT,
        flag: "--download-address",
        source,
    })?;
    tracing::info!(%address, "serving downloads");
    axum::serve(listener, router(downloads))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .map_err(|source| WebError::Serve { what: WHAT, source })
}

fn router(downloads: Arc<dyn Downloads>) -> Router {
    Router::new().route("/download/{token}", get(download)).with_state(downloads)
}

async fn download(State(downloads): State<Arc<dyn Downloads>>, Path(token): Path<String>) -> Response {
    match downloads.open(&token).await {
        Ok(file) => sent(file),
        Err(refused) => {
            let status = match refused {
                DownloadRefused::Invalid | DownloadRefused::Expired => StatusCode::FORBIDDEN,
                DownloadRefused::NotFound => StatusCode::NOT_FOUND,
                DownloadRefused::Unavailable => StatusCode::BAD_GATEWAY,
            };
            (status, format!("{refused}\n")).into_response()
        }
    }
}

fn sent(file: Download) -> Response {
    let mut response = Response::new(Body::from_stream(file.body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{}\"", file.file_name)) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    if let Some(size) = file.size {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
    response
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    struct One;

    #[async_trait]
    impl Downloads for One {
        async fn open(&self, token: &str) -> Result<Download, DownloadRefused> {
            match token {
                "good" => {
                    let body = futures::stream::iter([Ok(Bytes::from_static(b"\x1f\x8bzip"))]).boxed();
                    Ok(Download { file_name: "b-logs.gz".into(), size: Some(5), body })
                }
                "gone" => Err(DownloadRefused::NotFound),
                "old" => Err(DownloadRefused::Expired),
                _ => Err(DownloadRefused::Invalid),
            }
        }
    }

    async fn asked(path: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router(Arc::new(One))).await });
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn a_file_is_sent_unchanged_without_a_content_encoding() {
        let answer = asked("/download/good").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("content-length: 5"), "{answer}");
        assert!(answer.contains("filename=\"b-logs.gz\""), "{answer}");
        assert!(!answer.to_lowercase().contains("content-encoding"), "{answer}");
        assert!(answer.ends_with("zip"), "{answer}");
    }

    #[tokio::test]
    async fn a_refused_download_has_a_status_code() {
        for (path, code) in [
            ("/download/gone", "404"),
            ("/download/old", "403"),
            ("/download/forged", "403"),
            ("/download/", "404"),
            ("/metrics", "404"),
        ] {
            let answer = asked(path).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{path}: {answer}");
        }
    }
}
