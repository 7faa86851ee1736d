//! The error that the user sees for each way in which an object store can fail.

use std::time::Duration;

use lifeboat_store::{Environment, Error, LOCATION_DIRECTORIES, Retry, StoreConfig, Tuning, open, probe};
use rstest::rstest;

use super::server::{Reply, Server, hollow};
use super::wire::opened;

async fn probed(config: &StoreConfig) -> Error {
    let store = open(config, &Environment::default(), Tuning::default()).await.unwrap();
    let error = probe(&store, &LOCATION_DIRECTORIES, Duration::from_secs(20)).await.unwrap_err();
    let shown = format!("{error} {error:?} {}", error.hint());
    assert!(!shown.contains("CANARY"), "{shown}");
    assert!(!error.hint().is_empty());
    assert!(!error.to_string().starts_with(char::is_uppercase), "{error}");
    error
}

fn s3_error(code: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Message of the server.</Message><Region>eu-west-9</Region></Error>"
    )
}

#[rstest]
#[case::no_bucket(404, "NoSuchBucket", "bucket_not_found", Retry::Later)]
#[case::denied(403, "AccessDenied", "access_denied", Retry::Later)]
#[case::unknown_key(403, "InvalidAccessKeyId", "unknown_access_key", Retry::Later)]
#[case::wrong_secret(403, "SignatureDoesNotMatch", "signature_mismatch", Retry::Later)]
#[case::expired(400, "ExpiredToken", "credentials_expired", Retry::Later)]
#[case::clock(403, "RequestTimeTooSkewed", "clock_skew", Retry::Later)]
#[case::redirect(301, "PermanentRedirect", "wrong_region", Retry::Never)]
#[case::region(400, "AuthorizationHeaderMalformed", "wrong_region", Retry::Never)]
#[case::slow_down(503, "SlowDown", "throttled", Retry::Now)]
#[case::too_many(429, "TooManyRequests", "throttled", Retry::Now)]
#[case::internal(500, "InternalError", "server_error", Retry::Now)]
#[case::gateway(502, "", "server_error", Retry::Now)]
#[case::full(507, "XMinioStorageFull", "rejected", Retry::Later)]
#[case::odd(418, "Teapot", "rejected", Retry::Never)]
#[tokio::test]
async fn an_answer_of_s3_becomes_a_cause(
    #[case] status: u16,
    #[case] code: &'static str,
    #[case] category: &str,
    #[case] retry: Retry,
) {
    let server = Server::plain(move |_| Reply::new(status, s3_error(code))).await;
    let error = probed(&server.location(&[])).await;
    assert_eq!((error.category(), error.retry()), (category, retry), "{error}");
    if category == "wrong_region" {
        assert_eq!(error.to_string(), "bucket 'bkt' is not in this region, it is in 'eu-west-9'");
    }
}

#[rstest]
#[case::azure_container(404, "ContainerNotFound", "bucket_not_found")]
#[case::azure_key(403, "AuthenticationFailed", "signature_mismatch")]
#[tokio::test]
async fn an_answer_of_azure_becomes_a_cause(
    #[case] status: u16,
    #[case] code: &'static str,
    #[case] category: &str,
) {
    let server = Server::plain(move |_| Reply::new(status, "").with("x-ms-error-code", code)).await;
    let config = StoreConfig {
        provider: "azure".into(),
        bucket: "container".into(),
        config: [("storageAccount", "acct"), ("storageAccountURI", server.url.as_str())]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        credentials: Some(b"AZURE_STORAGE_KEY=Q0FOQVJZ\n".to_vec().into()),
        ..StoreConfig::default()
    };
    assert_eq!(probed(&config).await.category(), category);
}

#[tokio::test]
async fn a_missing_object_is_distinguished_from_a_missing_bucket() {
    let server = Server::plain(|request| {
        Reply::new(404, s3_error(if request.target.contains("gone") { "NoSuchKey" } else { "NoSuchBucket" }))
    })
    .await;
    let store = opened(&server.location(&[])).await;
    assert_eq!(store.get("gone").await.unwrap_err().category(), "not_found");
    assert_eq!(store.get("other").await.unwrap_err().category(), "bucket_not_found");
    assert_eq!(store.put("other", "x").await.unwrap_err().category(), "bucket_not_found");
}

#[tokio::test]
async fn a_refused_connection_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = Server::plain(hollow).await;
    let url = format!("http://127.0.0.1:{port}");
    let error = probed(&server.location(&[("s3Url", &url)])).await;
    assert_eq!(error.to_string(), format!("cannot reach '{url}': connection refused"));
    assert_eq!(error.category(), "unreachable");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_named() {
    let server = Server::plain(hollow).await;
    let error = probed(&server.location(&[("s3Url", "http://no-such-host.invalid:9000")])).await;
    assert_eq!(error.category(), "dns", "{error}");
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::plain(hollow).await;
    let config = server.location(&[("s3Url", &url)]);
    let store = open(&config, &Environment::default(), Tuning::default()).await.unwrap();
    let error = probe(&store, &LOCATION_DIRECTORIES, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.category(), "deadline", "{error}");
}

#[tokio::test]
async fn a_connection_that_closes_is_repeated_and_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let server = Server::plain(hollow).await;
    let error = probed(&server.location(&[("s3Url", &url)])).await;
    assert_eq!((error.category(), error.retry()), ("unreachable", Retry::Now), "{error:?}");
}

#[rstest]
#[case::go("Client sent an HTTP request to an HTTPS server.\n")]
#[case::nginx("400 The plain HTTP request was sent to HTTPS port")]
#[tokio::test]
async fn http_on_an_https_port_is_recognised_by_the_servers_message(#[case] message: &'static str) {
    let server = Server::plain(move |_| Reply::new(400, message)).await;
    let error = probed(&server.location(&[])).await;
    assert_eq!(error.to_string(), format!("'{}' speaks HTTPS, not plain HTTP", server.url));
}
