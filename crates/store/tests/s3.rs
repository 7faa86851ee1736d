//! Against a real S3 server, plain and over TLS (`cargo test -p lifeboat-store --features real-s3 --test it s3::`).
//!
//! The environment names it: `LIFEBOAT_S3_ENDPOINT`, `LIFEBOAT_S3_TLS_ENDPOINT`, `LIFEBOAT_S3_CA` (a PEM file),
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`; the bucket is `lifeboat`. `cargo xtask test` sets
//! all of them from the box. Each test works below a prefix of its own and removes what it wrote.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use lifeboat_store::testing::{Abilities, conformance};
use lifeboat_store::{Environment, Error, LOCATION_DIRECTORIES, Store, StoreConfig, Tuning, open, probe};
use rstest::rstest;

const DEADLINE: Duration = Duration::from_secs(15);

/// Reading the environment is a test's privilege.
fn variable(name: &str) -> String {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => value,
        _ => panic!(
            "{name} is not set: run these tests with `cargo xtask test`, or see the top of tests/s3.rs"
        ),
    }
}

#[derive(Clone, Copy)]
enum Scheme {
    Plain,
    Tls,
}

fn credentials(secret: &str) -> Vec<u8> {
    let id = variable("AWS_ACCESS_KEY_ID");
    format!("[default]\naws_access_key_id={id}\naws_secret_access_key={secret}\n").into_bytes()
}

/// A location below a prefix that no other test uses.
fn location(scheme: Scheme, test: &str) -> StoreConfig {
    let url = match scheme {
        Scheme::Plain => variable("LIFEBOAT_S3_ENDPOINT"),
        Scheme::Tls => variable("LIFEBOAT_S3_TLS_ENDPOINT"),
    };
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let entries = [("s3Url", url), ("s3ForcePathStyle", "true".into()), ("region", variable("AWS_REGION"))];
    StoreConfig {
        provider: "velero.io/aws".into(),
        bucket: "lifeboat".into(),
        prefix: format!("store-tests/{test}-{moment}-{}", std::process::id()),
        config: entries.map(|(key, value)| (key.to_owned(), value)).into(),
        ca_pem: match scheme {
            Scheme::Plain => None,
            Scheme::Tls => Some(std::fs::read(variable("LIFEBOAT_S3_CA")).unwrap()),
        },
        credentials: Some(credentials(&variable("AWS_SECRET_ACCESS_KEY")).into()),
        ..StoreConfig::default()
    }
}

async fn opened(config: &StoreConfig) -> Store {
    // The smallest parts that S3 takes.
    let tuning = Tuning { part_size: 5 * 1024 * 1024, ..Tuning::default() };
    open(config, &Environment::default(), tuning).await.unwrap()
}

async fn probed(config: &StoreConfig) -> Error {
    let error = probe(&opened(config).await, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap_err();
    let shown = format!("{error} {error:?} {}", error.hint());
    assert!(!shown.contains(&variable("AWS_SECRET_ACCESS_KEY")), "a secret in {shown}");
    error
}

#[rstest]
#[case::plain(Scheme::Plain)]
#[case::tls(Scheme::Tls)]
#[tokio::test]
async fn s3_conforms(#[case] scheme: Scheme) {
    let config = location(scheme, "conformance");
    let abilities = Abilities { signs: true, ca_pem: config.ca_pem.clone(), no_empty_prefixes: false };
    conformance(&opened(&config).await, abilities).await;
}

#[rstest]
#[case::plain(Scheme::Plain)]
#[case::tls(Scheme::Tls)]
#[tokio::test]
async fn a_good_location_is_found_good(#[case] scheme: Scheme) {
    let store = opened(&location(scheme, "good")).await;
    probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap();
    store.put("backups/x/velero-backup.json", "{}").await.unwrap();
    probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap();
    store.put("photos/1", "x").await.unwrap();
    let error = probe(&store, &LOCATION_DIRECTORIES, DEADLINE).await.unwrap_err();
    assert!(error.to_string().ends_with("'photos'"), "{error}");
    store.delete_many(["backups/x/velero-backup.json", "photos/1"]).await.unwrap();
}

#[tokio::test]
async fn a_missing_bucket_is_named() {
    let config =
        StoreConfig { bucket: "lifeboat-does-not-exist".into(), ..location(Scheme::Plain, "bucket") };
    let error = probed(&config).await;
    assert_eq!(error.category(), "bucket_not_found", "{error:?}");
    assert!(error.to_string().contains("'lifeboat-does-not-exist'"), "{error}");
}

#[tokio::test]
async fn a_wrong_secret_key_is_named() {
    let config =
        StoreConfig { credentials: Some(credentials("wrong").into()), ..location(Scheme::Plain, "secret") };
    let error = probed(&config).await;
    assert_eq!(error.category(), "signature_mismatch", "{error:?}");
}

#[tokio::test]
async fn an_unknown_key_id_is_named() {
    let file = b"[default]\naws_access_key_id=NOBODY\naws_secret_access_key=x\n".to_vec();
    let config = StoreConfig { credentials: Some(file.into()), ..location(Scheme::Plain, "id") };
    let error = probed(&config).await;
    assert_eq!(error.category(), "unknown_access_key", "{error:?}");
}

#[tokio::test]
async fn without_the_authority_tls_is_refused() {
    let config = StoreConfig { ca_pem: None, ..location(Scheme::Tls, "untrusted") };
    let error = probed(&config).await;
    assert_eq!(error.category(), "certificate_untrusted", "{error:?}");
}

#[tokio::test]
async fn the_wrong_scheme_is_named() {
    let mut config = location(Scheme::Tls, "scheme");
    config.config.insert("s3Url".into(), variable("LIFEBOAT_S3_TLS_ENDPOINT").replace("https:", "http:"));
    assert!(matches!(probed(&config).await, Error::NotHttp { .. }), "{:?}", probed(&config).await);
    config.config.insert("s3Url".into(), variable("LIFEBOAT_S3_ENDPOINT").replace("http:", "https:"));
    assert!(matches!(probed(&config).await, Error::NotHttps { .. }), "{:?}", probed(&config).await);
}

#[rstest]
#[case::checksum("checksumAlgorithm", "CRC32")]
#[case::sha256("checksumAlgorithm", "SHA256")]
#[case::tags("tagging", "team=backup&stage=test")]
#[tokio::test]
async fn settings_of_uploads_are_accepted(#[case] key: &str, #[case] value: &str) {
    let mut config = location(Scheme::Tls, "settings");
    config.config.insert(key.into(), value.into());
    small_and_large(&opened(&config).await).await;
}

#[tokio::test]
async fn what_a_customer_key_encrypts_is_read_with_it_only() {
    let mut config = location(Scheme::Tls, "ssec");
    let plain = opened(&config).await;
    config.config.insert("customerKeyEncryptionSecret".into(), "name/key".into());
    config.customer_key = Some(b"0123456789abcdef0123456789abcdef".to_vec().into());
    let store = opened(&config).await;
    store.put("secret", "content").await.unwrap();
    assert_eq!(store.get("secret").await.unwrap(), "content");
    assert!(plain.get("secret").await.is_err(), "it cannot be read without the key");
    small_and_large(&store).await;
    store.delete("secret").await.unwrap();
}

async fn small_and_large(store: &Store) {
    store.put("small", "x").await.unwrap();
    assert_eq!(store.get("small").await.unwrap(), "x");
    let large = stream::iter((0..11).map(|number| Ok::<_, Error>(Bytes::from(vec![number; 1024 * 1024]))));
    store.put_stream("large", large).await.unwrap();
    let read: Vec<Bytes> = store.get_stream("large").await.unwrap().body.try_collect().await.unwrap();
    let read = read.concat();
    assert_eq!(read.len(), 11 * 1024 * 1024);
    assert!(
        read.chunks(1024 * 1024).zip(0_u8..).all(|(chunk, number)| chunk.iter().all(|byte| *byte == number))
    );
    store.delete_many(["small", "large"]).await.unwrap();
}
