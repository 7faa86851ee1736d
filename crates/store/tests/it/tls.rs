//! Certificates: which are trusted, which are not, and the message.

use std::time::Duration;

use lifeboat_store::{Environment, Error, LOCATION_DIRECTORIES, Result, StoreConfig, Tuning, open, probe};
use rstest::rstest;

use super::server::{Authority, Server, hollow};

async fn probed(config: &StoreConfig) -> Result<()> {
    let store = open(config, &Environment::default(), Tuning::default()).await?;
    probe(&store, &LOCATION_DIRECTORIES, Duration::from_secs(20)).await
}

fn trusting(server: &Server, authority: &Authority, entries: &[(&str, &str)]) -> StoreConfig {
    StoreConfig { ca_pem: Some(authority.pem()), ..server.location(entries) }
}

#[tokio::test]
async fn a_given_authority_is_trusted() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("localhost", |_| ()), hollow).await;
    probed(&trusting(&server, &authority, &[])).await.unwrap();
}

#[tokio::test]
async fn the_right_one_of_several_authorities_is_found() {
    let (first, second) = (Authority::new(), Authority::new());
    let server = Server::tls(second.server("localhost", |_| ()), hollow).await;
    let both = [first.pem(), second.pem()].concat();
    probed(&StoreConfig { ca_pem: Some(both), ..server.location(&[]) }).await.unwrap();
}

#[rstest]
#[case::no_authority(None, "it is signed by an unknown authority")]
#[case::another_authority(Some("another"), "it is signed by an unknown authority")]
#[case::an_older_key(Some("test authority"), "a trusted authority has the same name but another key")]
#[tokio::test]
async fn an_unknown_authority_is_not_trusted(#[case] trusted: Option<&str>, #[case] detail: &str) {
    let server = Server::tls(Authority::new().server("localhost", |_| ()), hollow).await;
    let ca_pem = trusted.map(|name| Authority::named(name).pem());
    let error = probed(&StoreConfig { ca_pem, ..server.location(&[]) }).await.unwrap_err();
    assert_eq!(error.category(), "certificate_untrusted", "{error:?}");
    assert_eq!(error.to_string(), format!("the certificate of '{}' is not accepted: {detail}", server.url));
    assert!(error.hint().contains("caCert"));
    assert_eq!(server.seen().len(), 0, "nothing is sent to a server that is not trusted");
}

#[tokio::test]
async fn verification_is_skipped_only_on_request_and_with_a_warning() {
    let server = Server::tls(Authority::new().server("localhost", |_| ()), hollow).await;
    let config = server.location(&[("insecureSkipTLSVerify", "true")]);
    probed(&config).await.unwrap();
    let store = open(&config, &Environment::default(), Tuning::default()).await.unwrap();
    assert!(store.warnings()[0].contains("insecureSkipTLSVerify"), "{:?}", store.warnings());
    assert!(
        open(&server.location(&[]), &Environment::default(), Tuning::default())
            .await
            .unwrap()
            .warnings()
            .is_empty()
    );
}

#[tokio::test]
async fn an_expired_certificate_is_named_as_such() {
    let authority = Authority::new();
    let config = authority.server("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    });
    let server = Server::tls(config, hollow).await;
    let error = probed(&trusting(&server, &authority, &[])).await.unwrap_err();
    assert_eq!(error.category(), "certificate_expired", "{error:?}");
}

#[tokio::test]
async fn a_certificate_of_the_future_is_named_as_such() {
    let authority = Authority::new();
    let config = authority.server("localhost", |params| params.not_before = rcgen::date_time_ymd(2090, 1, 1));
    let server = Server::tls(config, hollow).await;
    let error = probed(&trusting(&server, &authority, &[])).await.unwrap_err();
    assert_eq!(error.category(), "certificate_not_yet_valid", "{error:?}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_named_with_its_names() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("minio.example", |_| ()), hollow).await;
    let error = probed(&trusting(&server, &authority, &[])).await.unwrap_err();
    assert_eq!(error.category(), "certificate_other_name", "{error:?}");
    assert!(error.to_string().contains("minio.example"), "{error}");
}

#[tokio::test]
async fn https_to_a_plain_server_is_recognised() {
    let server = Server::plain(hollow).await;
    let url = format!("https://localhost:{}", server.address.port());
    let error = probed(&server.location(&[("s3Url", &url)])).await.unwrap_err();
    assert_eq!(error.to_string(), format!("'{url}' speaks plain HTTP, not HTTPS"), "{error:?}");
}

#[tokio::test]
async fn http_to_a_tls_server_is_recognised() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("localhost", |_| ()), hollow).await;
    let url = format!("http://localhost:{}", server.address.port());
    let error = probed(&server.location(&[("s3Url", &url)])).await.unwrap_err();
    assert!(matches!(error, Error::NotHttp { .. }), "{error:?}");
}
