//! The requests as they are sent: encryption, tags, checksums, addressing, resumed reads, signed URLs.

mod lists;

use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use futures::stream;
use lifeboat_store::{Environment, Error, RetryPolicy, Store, StoreConfig, Tuning, open};
use rstest::rstest;

use super::server::{Authority, Reply, Seen, Server, hollow};

fn quick() -> Tuning {
    let retry = RetryPolicy {
        attempts: 3,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(1),
        deadline: None,
        outage: None,
    };
    Tuning { retry, ..Tuning::default() }
}

pub(super) async fn opened(config: &StoreConfig) -> Store {
    open(config, &Environment::default(), quick()).await.unwrap()
}

/// Writes small and large objects, reads and looks them up; returns the requests.
async fn exercise(config: &StoreConfig, server: &Server) -> Vec<Seen> {
    let store = opened(config).await;
    store.put("small", "x").await.unwrap();
    let large = stream::iter((0..17).map(|_| Ok::<_, Error>(Bytes::from(vec![1; 1024 * 1024]))));
    store.put_stream("large", large).await.unwrap();
    store.head("small").await.unwrap();
    store.get("small").await.unwrap();
    server.seen()
}

fn is(request: &Seen, method: &str, part: &str) -> bool {
    request.method == method && request.target.contains(part)
}

const SSE: &str = "x-amz-server-side-encryption";
const KMS: &str = "x-amz-server-side-encryption-aws-kms-key-id";

#[rstest]
#[case::sse_s3(&[("serverSideEncryption", "AES256")], Some("AES256"), None)]
#[case::sse_kms(&[("serverSideEncryption", "aws:kms")], Some("aws:kms"), None)]
#[case::sse_kms_key(&[("kmsKeyId", "alias/k")], Some("aws:kms"), Some("alias/k"))]
#[case::dsse_key(&[("kmsKeyId", "k"), ("serverSideEncryption", "aws:kms:dsse")], Some("aws:kms:dsse"), Some("k"))]
#[case::dsse(&[("serverSideEncryption", "aws:kms:dsse")], Some("aws:kms:dsse"), None)]
#[case::none(&[], None, None)]
#[tokio::test]
async fn server_side_encryption_is_asked_for_with_every_new_object(
    #[case] entries: &[(&str, &str)],
    #[case] algorithm: Option<&str>,
    #[case] key: Option<&str>,
) {
    let server = Server::plain(hollow).await;
    let seen = exercise(&server.location(entries), &server).await;
    let begins = |r: &&Seen| is(r, "PUT", "/bkt/small") || is(r, "POST", "uploads");
    let beginnings: Vec<&Seen> = seen.iter().filter(begins).collect();
    assert_eq!(beginnings.len(), 2, "{seen:?}");
    for request in beginnings {
        assert_eq!((request.header(SSE), request.header(KMS)), (algorithm, key), "{request:?}");
    }
}

#[tokio::test]
async fn a_customer_key_is_sent_with_every_request_that_touches_content() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("localhost", |_| ()), hollow).await;
    let mut config = server.location(&[("customerKeyEncryptionSecret", "name/key")]);
    config.customer_key = Some(b"0123456789abcdef0123456789abcdef".to_vec().into());
    config.ca_pem = Some(authority.pem());
    let seen = exercise(&config, &server).await;
    let key = base64::engine::general_purpose::STANDARD.encode("0123456789abcdef0123456789abcdef");
    let touching = ["/bkt/small", "uploads", "partNumber=1", "partNumber=2"];
    for part in touching {
        let all: Vec<&Seen> = seen.iter().filter(|request| request.target.contains(part)).collect();
        assert!(!all.is_empty(), "{part}");
        for request in all {
            let header = |end: &str| request.header(&format!("x-amz-server-side-encryption-customer-{end}"));
            assert_eq!(header("algorithm"), Some("AES256"), "{request:?}");
            assert_eq!(header("key"), Some(key.as_str()));
            assert!(header("key-md5").is_some());
        }
    }
    let error = opened(&config).await.signed_url("small", Duration::from_secs(9)).await.unwrap_err();
    assert_eq!(error.category(), "unsupported");
}

#[tokio::test]
async fn tags_and_checksums_are_sent() {
    let server = Server::plain(hollow).await;
    let entries = [("tagging", "team=backup&stage=prod"), ("checksumAlgorithm", "SHA256")];
    let seen = exercise(&server.location(&entries), &server).await;
    for request in seen.iter().filter(|r| is(r, "PUT", "/bkt/small") || is(r, "POST", "uploads")) {
        assert_eq!(request.header("x-amz-tagging"), Some("team=backup&stage=prod"), "{request:?}");
    }
    let put = seen.iter().find(|r| is(r, "PUT", "/bkt/small")).unwrap();
    assert_eq!(put.header("x-amz-checksum-sha256"), Some("LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE="));
    let part = seen.iter().find(|r| is(r, "PUT", "partNumber=1")).unwrap();
    assert!(part.header("x-amz-checksum-sha256").is_some());
}

#[tokio::test]
async fn a_create_is_conditional() {
    let server = Server::plain(|request| {
        if request.header("if-none-match") == Some("*") {
            return Reply::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
        }
        hollow(request)
    })
    .await;
    let store = opened(&server.location(&[])).await;
    assert!(store.create("lock", "x").await.unwrap_err().is_already_exists());
    store.put("lock", "x").await.unwrap();
}

#[tokio::test]
async fn the_kms_key_is_sent_to_google_with_every_new_object() {
    let server = Server::plain(hollow).await;
    let name = "projects/p/locations/l/keyRings/r/cryptoKeys/k";
    let json = r#"{"type":"service_account","client_email":"a@b","private_key":"CANARY","private_key_id":"1","disable_oauth":true}"#;
    let config = StoreConfig {
        provider: "velero.io/gcp".into(),
        bucket: "bkt".into(),
        config: [("kmsKeyName", name), ("storeEndpoint", server.url.as_str())]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        credentials: Some(json.as_bytes().to_vec().into()),
        ..StoreConfig::default()
    };
    let store = opened(&config).await;
    store.put("small", "x").await.unwrap();
    store.get("small").await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("x-goog-encryption-kms-key-name"), Some(name));
    assert_eq!(seen[1].header("x-goog-encryption-kms-key-name"), None);
}

#[tokio::test]
async fn azure_is_spoken_to_with_the_accounts_key() {
    let server = Server::plain(|request| {
        if request.target.contains("comp=list") {
            return Reply::new(200, "<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>");
        }
        hollow(request)
    })
    .await;
    let config = StoreConfig {
        provider: "velero.io/azure".into(),
        bucket: "container".into(),
        config: [("storageAccount", "acct"), ("storageAccountURI", server.url.as_str())]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        credentials: Some(b"AZURE_STORAGE_ACCOUNT_ACCESS_KEY=Q0FOQVJZ\n".to_vec().into()),
        ..StoreConfig::default()
    };
    let store = opened(&config).await;
    assert_eq!(store.list_directory("").await.unwrap().prefixes, Vec::<String>::new());
    let seen = server.seen();
    assert!(seen[0].header("authorization").unwrap().starts_with("SharedKey acct:"), "{seen:?}");
    assert!(seen[0].target.starts_with("/container"), "{seen:?}");
}

#[tokio::test]
async fn a_read_that_breaks_goes_on_pinned_to_the_same_version() {
    let server = Server::plain(|request| {
        let reply = |status, body: &str| {
            Reply::new(status, body)
                .with("etag", "\"v1\"")
                .with("last-modified", "Sun, 15 Nov 2026 10:00:00 GMT")
        };
        match request.header("range") {
            None => Reply { claimed: 10, ..reply(200, "0123") },
            Some(_) => reply(206, "456789").with("content-range", "bytes 4-9/10"),
        }
    })
    .await;
    assert_eq!(opened(&server.location(&[])).await.get("a").await.unwrap(), "0123456789");
    let seen = server.seen();
    assert_eq!(seen[1].header("range"), Some("bytes=4-9"));
    assert_eq!(seen[1].header("if-match"), Some("\"v1\""));
}

#[tokio::test]
async fn an_open_store_shows_no_secret() {
    let server = Server::plain(hollow).await;
    let store = opened(&server.location(&[("serverSideEncryption", "AES256")])).await;
    assert!(!format!("{store:?}").contains("CANARY"), "{store:?}");
}

#[tokio::test]
async fn many_are_deleted_in_one_request_and_singly_where_that_is_unknown() {
    let server = Server::plain(|request| {
        if request.method == "POST" {
            return Reply::new(501, "<Error><Code>NotImplemented</Code></Error>");
        }
        Reply::new(204, "")
    })
    .await;
    opened(&server.location(&[])).await.delete_many(["a", "b", "c"]).await.unwrap();
    let methods: Vec<String> = server.seen().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["POST", "DELETE", "DELETE", "DELETE"]);
}

#[rstest]
#[case::denied("AccessDenied", "access_denied")]
#[case::failed("InternalError", "server_error")]
#[tokio::test]
async fn one_failure_among_many_deletes_is_reported(#[case] code: &'static str, #[case] category: &str) {
    let server = Server::plain(move |_| {
        Reply::new(
            200,
            format!("<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>{code}</Code><Message>no</Message></Error></DeleteResult>"),
        )
    })
    .await;
    let error = opened(&server.location(&[])).await.delete_many(["a", "b"]).await.unwrap_err();
    assert_eq!(error.category(), category, "{error}");
}

#[rstest]
#[case::own(&[], "localhost")]
#[case::public(&[("publicUrl", "https://backups.example")], "backups.example")]
#[tokio::test]
async fn a_signed_url_is_made_for_those_outside(#[case] entries: &[(&str, &str)], #[case] host: &str) {
    let server = Server::plain(hollow).await;
    let mut config = server.location(entries);
    config.prefix = "pre".into();
    let url = opened(&config).await.signed_url("a b", Duration::from_mins(10)).await.unwrap();
    assert_eq!(url.host_str(), Some(host));
    assert_eq!(url.path(), "/bkt/pre/a%20b");
    let query = url.query().unwrap();
    assert!(query.contains("X-Amz-Expires=600") && query.contains("X-Amz-Signature="), "{query}");
    assert!(!url.as_str().contains("CANARY"));
    assert_eq!(server.seen().len(), 0, "signing needs no request");
}

/// S3 responds with 200 to the completion of an upload before it knows whether it succeeds.
#[rstest]
#[case::failed("InternalError")]
#[case::other("EntityTooSmall")]
#[tokio::test]
async fn an_error_after_status_200_is_an_error(#[case] code: &'static str) {
    let server = Server::plain(move |request| {
        if request.method == "POST" && request.target.contains("uploadId") {
            return Reply::new(200, format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code></Error>"));
        }
        hollow(request)
    })
    .await;
    let large = stream::iter((0..17).map(|_| Ok::<_, Error>(Bytes::from(vec![1; 1024 * 1024]))));
    let error = opened(&server.location(&[])).await.put_stream("a", large).await.unwrap_err();
    assert_eq!(error.category(), "server_error", "{error:?}");
    assert!(error.to_string().contains(code), "{error}");
    assert!(server.seen().iter().any(|request| is(request, "DELETE", "uploadId")), "the upload is aborted");
}

/// The clock is paused, so the measured time is exactly the time that was waited for.
#[tokio::test(start_paused = true)]
async fn a_body_on_its_way_up_is_paced_and_a_slow_one_does_not_time_out() {
    let server = Server::plain(hollow).await;
    let rate = std::num::NonZeroU64::new(8 * 1024);
    let tuning = Tuning { bandwidth: lifeboat_store::Bandwidth::new(rate, None), ..quick() };
    let store = open(&server.location(&[]), &Environment::default(), tuning).await.unwrap();
    let start = tokio::time::Instant::now();
    store.put("slow", vec![b'x'; 4 * 1024 * 1024]).await.unwrap();
    let seconds = start.elapsed().as_secs();
    assert!((500..530).contains(&seconds), "4 MiB at 8 KiB a second: {seconds} s");
    assert_eq!(server.seen().len(), 1, "nothing was repeated");
    assert_eq!(server.seen()[0].header("content-length"), Some("4194304"));
    assert_eq!(server.seen()[0].body.len(), 4 * 1024 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_a_body_and_falls_silent_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    let server = Server::plain(hollow).await;
    let error = opened(&server.location(&[("s3Url", &url)])).await.put("a", vec![0; 1024]).await.unwrap_err();
    assert_eq!(error.category(), "timeout", "{error:?}");
}
