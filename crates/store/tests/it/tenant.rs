//! Storage that a tenant describes: which addresses are refused, which credentials, and what a message shows.

use std::time::Duration;

use lifeboat_store::{
    Error, Guard, LOCATION_DIRECTORIES, RestConfig, Result, Retry, RetryPolicy, StoreConfig, Tls, Tuning,
    open_for_tenant, probe,
};
use rstest::rstest;

use super::server::{Reply, Seen, Server, hollow};

fn quick() -> Tuning {
    let pause = Duration::from_millis(1);
    let retry =
        RetryPolicy { attempts: 2, first_pause: pause, longest_pause: pause, deadline: None, outage: None };
    Tuning { retry, ..Tuning::default() }
}

async fn probed(config: &StoreConfig, guard: Guard) -> Result<()> {
    let store = open_for_tenant(config, guard, quick()).await?;
    probe(&store, &LOCATION_DIRECTORIES, Duration::from_secs(20)).await
}

/// The message, with everything that could be written into a status or a log.
fn shown(error: &Error) -> String {
    format!("{error} {error:?} {}", error.hint())
}

fn repository(url: &str) -> RestConfig {
    let (user, password) = (Some("me".into()), Some("secret".to_owned().into()));
    RestConfig { url: url.parse().unwrap(), user, password, ca_pem: None, tls: Tls::default() }
}

#[rstest]
#[case::by_name("localhost")]
#[case::by_address("127.0.0.1")]
#[case::by_another_spelling("2130706433")]
#[case::mapped("[::ffff:127.0.0.1]")]
#[tokio::test]
async fn a_server_on_this_machine_is_not_connected_to(#[case] host: &str) {
    let server = Server::plain(hollow).await;
    let url = format!("http://{host}:{}", server.address.port());
    let error = probed(&server.location(&[("s3Url", &url)]), Guard::default()).await.unwrap_err();
    assert_eq!((error.category(), error.retry()), ("address_refused", Retry::Never), "{error:?}");
    assert!(error.to_string().contains("an address of the machine itself"), "{error}");
    let rest = repository(&format!("{url}/repo")).open_for_tenant(Guard::default(), quick()).unwrap();
    let error = rest.exists("config").await.unwrap_err();
    assert_eq!(error.category(), "address_refused", "{error:?}");
    let created = repository(&url).create_for_tenant(Guard::default(), quick()).await;
    assert_eq!(created.unwrap_err().category(), "address_refused");
    assert_eq!(server.seen().len(), 0);
}

#[rstest]
#[case::metadata("http://169.254.169.254")]
#[case::metadata_v6("http://[fd00:ec2::254]")]
#[case::mapped("http://[::ffff:169.254.169.254]")]
#[case::link_local("http://[fe80::1]")]
#[case::unspecified("http://0.0.0.0:9000")]
#[case::multicast("http://224.0.0.1")]
#[tokio::test]
async fn an_address_of_the_link_is_not_connected_to_even_where_a_test_may_use_this_machine(
    #[case] url: &str,
) {
    let server = Server::plain(hollow).await;
    for guard in [Guard::default(), Guard::allowing_loopback()] {
        let error = probed(&server.location(&[("s3Url", url)]), guard).await.unwrap_err();
        assert_eq!(error.category(), "address_refused", "{error:?}");
    }
}

#[tokio::test]
async fn ordinary_storage_is_opened_with_the_given_keys() {
    let server = Server::plain(hollow).await;
    probed(&server.location(&[]), Guard::allowing_loopback()).await.unwrap();
    let seen = server.seen();
    assert!(seen[0].header("authorization").unwrap().contains("AKIDEXAMPLE"), "{:?}", seen[0]);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let inside = Server::plain(hollow).await;
    let to = format!("{}/secrets", inside.url);
    let server = Server::plain(move |_: &Seen| Reply::new(307, "").with("location", to.clone())).await;
    let guard = Guard::allowing_loopback;
    let error = probed(&server.location(&[]), guard()).await.unwrap_err();
    assert_eq!(error.category(), "wrong_region", "{error:?}");
    let rest = repository(&format!("{}/repo", server.url)).open_for_tenant(guard(), quick()).unwrap();
    rest.get("config").await.unwrap_err();
    assert_eq!(inside.seen().len(), 0);
}

#[rstest]
#[case::none(None)]
#[case::role_of_the_machine(Some(
    "[default]\nrole_arn=arn:aws:iam::1:role/r\ncredential_source=Ec2InstanceMetadata\n"
))]
#[case::role_of_the_pod(Some("[default]\nrole_arn=arn:aws:iam::1:role/r\ncredential_source=EcsContainer\n"))]
#[case::token_of_the_pod(Some(
    "[default]\nrole_arn=arn:aws:iam::1:role/r\nweb_identity_token_file=/var/run/token\n"
))]
#[tokio::test]
async fn aws_keys_are_given_or_it_is_refused(#[case] file: Option<&str>) {
    let server = Server::plain(hollow).await;
    let credentials = file.map(|text| text.as_bytes().to_vec().into());
    let config = StoreConfig { credentials, ..server.location(&[]) };
    let error = probed(&config, Guard::allowing_loopback()).await.unwrap_err();
    assert_eq!(error.category(), "credentials_format", "{error:?}");
    assert_eq!(server.seen().len(), 0);
}

#[rstest]
#[case::google("gcp", &[])]
#[case::azure("azure", &[("storageAccount", "account"), ("useAAD", "true")])]
#[tokio::test]
async fn google_and_azure_keys_are_given_or_it_is_refused(
    #[case] provider: &str,
    #[case] entries: &[(&str, &str)],
) {
    let config = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let config =
        StoreConfig { provider: provider.into(), bucket: "b".into(), config, ..StoreConfig::default() };
    let error = open_for_tenant(&config, Guard::default(), quick()).await.unwrap_err();
    assert_eq!(error.category(), "credentials_format", "{error:?}");
}

#[rstest]
#[case::credentials("aws", "credentialsFile", "/etc/passwd")]
#[case::customer_key("aws", "customerKeyEncryptionFile", "/etc/passwd")]
#[case::directory("lifeboat.io/local", "path", "/etc")]
#[tokio::test]
async fn no_file_of_the_server_is_read(#[case] provider: &str, #[case] key: &str, #[case] path: &str) {
    let server = Server::plain(hollow).await;
    let mut config = StoreConfig { provider: provider.into(), ..server.location(&[]) };
    if provider != "aws" {
        config.config.clear();
    }
    config.config.insert(key.to_owned(), path.to_owned());
    let error = open_for_tenant(&config, Guard::allowing_loopback(), quick()).await.unwrap_err();
    assert_eq!(error.category(), "config", "{error:?}");
}

#[rstest]
#[case::s3(
    403,
    "<Error><Code>AccessDenied</Code><Message>CANARY</Message></Error>",
    "status 403 AccessDenied"
)]
#[case::unknown_code(403, "<Error><Code>CANARY</Code></Error>", "status 403")]
#[case::text(401, "CANARY\n", "status 401")]
#[case::json(418, r#"{"error":"CANARY","error_description":"CANARY"}"#, "status 418")]
#[case::region(301, "<Error><Region>CANARY token=1</Region></Error>", "is not in this region")]
#[case::failure(500, "CANARY", "status 500")]
#[tokio::test]
async fn a_message_has_the_status_and_nothing_of_the_body(
    #[case] status: u16,
    #[case] body: &'static str,
    #[case] expected: &str,
) {
    let server = Server::plain(move |_: &Seen| Reply::new(status, body)).await;
    let error = probed(&server.location(&[]), Guard::allowing_loopback()).await.unwrap_err();
    assert!(!shown(&error).contains("CANARY"), "{}", shown(&error));
    assert!(error.to_string().contains(expected), "{error}");
}

#[rstest]
#[case::foreign_key(
    "<ListBucketResult><Contents><Key>CANARY</Key><Size>1</Size><LastModified>2026-11-15T10:00:00.000Z</LastModified></Contents></ListBucketResult>"
)]
#[case::bad_size("<ListBucketResult><Contents><Key>a</Key><Size>CANARY</Size></Contents></ListBucketResult>")]
#[case::no_listing("<html>CANARY</html>")]
#[tokio::test]
async fn a_listing_that_cannot_be_used_is_not_quoted(#[case] body: &'static str) {
    let server = Server::plain(move |_: &Seen| Reply::new(200, body)).await;
    let config = StoreConfig { prefix: "team".into(), ..server.location(&[]) };
    let error = probed(&config, Guard::allowing_loopback()).await.unwrap_err();
    assert!(!shown(&error).contains("CANARY"), "{}", shown(&error));
}

#[tokio::test]
async fn a_listing_that_would_fill_the_memory_is_not_read() {
    let body = format!("<ListBucketResult>{}</ListBucketResult>", " ".repeat(17 * 1024 * 1024));
    let server = Server::plain(move |_: &Seen| Reply::new(200, body.clone())).await;
    let store = open_for_tenant(&server.location(&[]), Guard::allowing_loopback(), quick()).await.unwrap();
    let error = store.list_directory("keys/").await.unwrap_err();
    assert!(error.to_string().contains("the response is too large"), "{error}");
}

#[rstest]
#[case::type_of_another_protocol("text/CANARY", "[]")]
#[case::no_list("application/vnd.x.restic.rest.v2", "\"CANARY\"")]
#[tokio::test]
async fn a_listing_of_a_rest_server_that_cannot_be_used_is_not_quoted(
    #[case] kind: &'static str,
    #[case] body: &'static str,
) {
    let server = Server::plain(move |_: &Seen| Reply::new(200, body).with("content-type", kind)).await;
    let rest = repository(&format!("{}/repo", server.url));
    let rest = rest.open_for_tenant(Guard::allowing_loopback(), quick()).unwrap();
    let error = rest.list_directory("keys/").await.unwrap_err();
    assert!(!shown(&error).contains("CANARY"), "{}", shown(&error));
}

#[tokio::test]
async fn https_is_still_recognised_behind_a_plain_url() {
    let body = "Client sent an HTTP request to an HTTPS server.\nCANARY";
    let server = Server::plain(move |_: &Seen| Reply::new(400, body)).await;
    let error = probed(&server.location(&[]), Guard::allowing_loopback()).await.unwrap_err();
    assert!(matches!(error, Error::NotHttp { .. }) && !shown(&error).contains("CANARY"), "{error:?}");
}
