//! Listings in both versions of the protocol: names, or names and sizes, as JSON that is written while storage lists.
//! A listing that fails in the middle closes the connection, so that the client has incomplete JSON and cannot
//! mistake it for a complete listing.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::limits::Turn;
use super::{FileList, FilesError};

pub(super) const VERSION_1: &str = "application/vnd.x.restic.rest.v1";
pub(super) const VERSION_2: &str = "application/vnd.x.restic.rest.v2";

/// The approximate size of the chunks that are sent.
const CHUNK: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// The version that a client requests.
pub(super) fn version(headers: &HeaderMap) -> Version {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next());
    if types.any(|kind| kind.map(str::trim) == Some(VERSION_2)) { Version::Two } else { Version::One }
}

/// The response. Its first part is read before the status is sent, so that unreachable storage gets a status of its
/// own.
pub(super) async fn response(files: FileList, version: Version, turn: Turn) -> Result<Response, FilesError> {
    let mut files = files.peekable();
    if let Some(Err(error)) = std::pin::Pin::new(&mut files).peek().await {
        return Err(error.clone());
    }
    // The turn ends with the listing.
    let chunks = stream::try_unfold((Some(files), true, turn), move |(files, is_first, turn)| async move {
        let Some(mut files) = files else { return Ok(None) };
        let mut text = String::with_capacity(CHUNK + 128);
        let mut separator = if is_first { "[" } else { "," };
        while text.len() < CHUNK {
            let Some(file) = files.try_next().await? else {
                // An empty listing has no separator yet.
                text.push_str(if is_first && text.is_empty() { "[]" } else { "]" });
                return Ok(Some((Bytes::from(text), (None, false, turn))));
            };
            // IDs are hexadecimal digits and need no escapes.
            let _ = match version {
                Version::One => write!(text, "{separator}\"{}\"", file.id),
                Version::Two => {
                    write!(text, "{separator}{{\"name\":\"{}\",\"size\":{}}}", file.id, file.size)
                }
            };
            separator = ",";
        }
        Ok::<_, FilesError>(Some((Bytes::from(text), (Some(files), false, turn))))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let kind = match version {
        Version::One => VERSION_1,
        Version::Two => VERSION_2,
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::ListedFile;
    use super::super::limits::Limits;
    use super::*;

    fn files(count: usize) -> Vec<Result<ListedFile, FilesError>> {
        (0..count)
            .map(|number| Ok(ListedFile { id: format!("{number:064x}"), size: number as u64 }))
            .collect()
    }

    async fn sent(files: Vec<Result<ListedFile, FilesError>>, version: Version) -> Result<String, String> {
        let turn = Limits::default().turn("t", "stash/shop/r", true).await.ok().unwrap();
        let response = response(stream::iter(files).boxed(), version, turn).await;
        let response = response.map_err(|error| error.to_string())?;
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
        body.map(|body| String::from_utf8(body.to_vec()).unwrap()).map_err(|error| error.to_string())
    }

    #[rstest]
    #[case::none(0)]
    #[case::one(1)]
    #[case::many(1000)]
    #[tokio::test]
    async fn a_listing_has_every_file_once(#[case] count: usize) {
        let two: Vec<serde_json::Value> =
            serde_json::from_str(&sent(files(count), Version::Two).await.unwrap()).unwrap();
        let expected = |number: usize| serde_json::json!({"name": format!("{number:064x}"), "size": number});
        assert_eq!(two, (0..count).map(expected).collect::<Vec<_>>());
        let one: Vec<String> =
            serde_json::from_str(&sent(files(count), Version::One).await.unwrap()).unwrap();
        assert_eq!(one, (0..count).map(|number| format!("{number:064x}")).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_listing_that_fails_is_an_error_at_its_beginning_and_in_the_middle() {
        let failure = || Err(FilesError::Busy { reason: "throttled" });
        let error = sent(vec![failure()], Version::Two).await.unwrap_err();
        assert!(error.contains("throttled"), "{error}");
        let mut some = files(500);
        some.push(failure());
        assert!(sent(some, Version::Two).await.is_err());
    }

    #[rstest]
    #[case::two("application/vnd.x.restic.rest.v2", Version::Two)]
    #[case::either("application/vnd.x.restic.rest.v1, application/vnd.x.restic.rest.v2;q=1", Version::Two)]
    #[case::one("application/vnd.x.restic.rest.v1", Version::One)]
    #[case::any("*/*", Version::One)]
    fn the_second_version_is_sent_if_it_is_asked_for(
        #[case] accept: &'static str,
        #[case] expected: Version,
    ) {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        assert_eq!(version(&headers), expected);
    }
}
