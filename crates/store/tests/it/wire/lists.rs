//! Lists of objects and of uploads, page by page.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::TryStreamExt;
use rstest::rstest;

use super::super::server::{Reply, Seen, Server};
use super::opened;

fn page(keys: &[&str], next: Option<&str>) -> String {
    let modified = "<LastModified>2026-11-15T10:00:00.000Z</LastModified>";
    let entry = |key: &&str| format!("<Contents><Key>{key}</Key><Size>1</Size>{modified}</Contents>");
    let contents = keys.iter().map(entry).collect::<Vec<_>>().concat();
    let next = next.map_or("<IsTruncated>false</IsTruncated>".to_owned(), |token| {
        format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>")
    });
    format!("<ListBucketResult>{contents}{next}</ListBucketResult>")
}

#[rstest]
#[case::server_error(500, "<Error><Code>InternalError</Code></Error>", "server_error")]
#[case::denied(403, "<Error><Code>AccessDenied</Code></Error>", "access_denied")]
#[case::a_proxys_page(200, "<html><body>Log in</body></html>", "listing")]
#[case::cut(200, "<ListBucketResult><Contents><Key>p/c</Key>", "listing")]
#[case::no_token(200, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "listing")]
#[case::foreign_key(
    200,
    "<ListBucketResult><Contents><Key>q/x</Key><Size>1</Size><LastModified>2026-11-15T10:00:00.000Z</LastModified></Contents></ListBucketResult>",
    "listing"
)]
#[tokio::test]
async fn a_listing_whose_second_page_is_bad_is_an_error(
    #[case] status: u16,
    #[case] body: &'static str,
    #[case] category: &str,
) {
    let server = Server::plain(move |request| {
        if request.target.contains("continuation-token") {
            return Reply::new(status, body);
        }
        Reply::new(200, page(&["p/a", "p/b"], Some("t1")))
    })
    .await;
    let store = opened(&server.location(&[])).await;
    let error = store.list("p/").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.category(), category, "{error}");
    assert!(store.list_directory("p/").await.is_err());
}

#[tokio::test]
async fn a_page_that_fails_once_is_asked_for_again() {
    let failures = AtomicUsize::new(0);
    let server = Server::plain(move |request| {
        if !request.target.contains("continuation-token") {
            return Reply::new(200, page(&["p/a"], Some("t1")));
        }
        match failures.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::new(500, ""),
            1 => Reply::new(503, "<Error><Code>SlowDown</Code></Error>"),
            _ => Reply::new(200, page(&["p/b"], None)),
        }
    })
    .await;
    let store = opened(&server.location(&[])).await;
    let keys: Vec<String> = store.list("p/").map_ok(|info| info.key).try_collect().await.unwrap();
    assert_eq!(keys, ["p/a", "p/b"]);
}

#[tokio::test]
async fn a_key_that_cannot_be_ours_fails_the_listing_and_is_named() {
    let server = Server::plain(|_| Reply::new(200, page(&["p//x"], None))).await;
    let error = opened(&server.location(&[])).await.list("p/").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.category(), "listing");
    assert!(error.to_string().contains("p//x"), "{error}");
}

#[tokio::test]
async fn a_listing_in_a_circle_is_an_error() {
    let server = Server::plain(|_| Reply::new(200, page(&["p/a"], Some("same")))).await;
    let store = opened(&server.location(&[])).await;
    let error = store.list("p/").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.category(), "listing");
}

#[tokio::test]
async fn a_directory_marker_of_a_console_is_no_object() {
    let marker = "<ListBucketResult><Contents><Key>p/</Key><Size>0</Size><LastModified>2026-11-15T10:00:00.000Z</LastModified></Contents></ListBucketResult>";
    let server = Server::plain(move |_| Reply::new(200, marker)).await;
    let keys: Vec<_> = opened(&server.location(&[])).await.list("p/").try_collect().await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test]
async fn uploads_that_never_ended_are_listed_page_by_page_and_aborted() {
    let server = Server::plain(|request| {
        let list = |rest: &str, key: &str, id: &str| {
            let upload = format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>");
            Reply::new(
                200,
                format!("<ListMultipartUploadsResult>{rest}{upload}</ListMultipartUploadsResult>"),
            )
        };
        match request.method.as_str() {
            "GET" if request.target.contains("key-marker=pre%2Fbackups%2Fa%2Fa.tar.gz") => {
                list("<IsTruncated>false</IsTruncated>", "pre/backups/a/a-logs.gz", "two")
            }
            "GET" => list(
                "<IsTruncated>true</IsTruncated><NextKeyMarker>pre/backups/a/a.tar.gz</NextKeyMarker>\
                 <NextUploadIdMarker>one</NextUploadIdMarker>",
                "pre/backups/a/a.tar.gz",
                "one",
            ),
            _ => Reply::new(204, ""),
        }
    })
    .await;
    let mut config = server.location(&[]);
    config.prefix = "pre".into();
    let store = opened(&config).await;
    assert_eq!(store.abort_uploads("backups/a/").await.unwrap(), 2);
    let seen = server.seen();
    let lists: Vec<&Seen> = seen.iter().filter(|request| request.method == "GET").collect();
    assert_eq!(lists.len(), 2, "{seen:?}");
    assert!(lists[0].target.starts_with("/bkt?prefix=pre%2Fbackups%2Fa%2F&uploads"), "{}", lists[0].target);
    assert!(lists.iter().all(|request| request.header("authorization").is_some()));
    let aborted: Vec<&str> = seen
        .iter()
        .filter(|request| request.method == "DELETE")
        .map(|request| request.target.as_str())
        .collect();
    assert_eq!(
        aborted,
        ["/bkt/pre/backups/a/a.tar.gz?uploadId=one", "/bkt/pre/backups/a/a-logs.gz?uploadId=two"]
    );
}

#[rstest]
#[case::not_implemented(501)]
#[case::not_allowed(405)]
#[tokio::test]
async fn a_server_without_a_list_of_uploads_has_none(#[case] status: u16) {
    let server =
        Server::plain(move |_| Reply::new(status, "<Error><Code>NotImplemented</Code></Error>")).await;
    assert_eq!(opened(&server.location(&[])).await.abort_uploads("backups/a/").await.unwrap(), 0);
}

#[tokio::test]
async fn a_list_of_uploads_that_is_denied_is_an_error() {
    let server = Server::plain(|_| Reply::new(403, "<Error><Code>AccessDenied</Code></Error>")).await;
    let error = opened(&server.location(&[])).await.abort_uploads("backups/a/").await.unwrap_err();
    assert_eq!(error.category(), "access_denied");
}
