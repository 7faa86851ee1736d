//! Snapshots, listings and checks of every fixture.

use std::sync::Arc;

use lifeboat_kopia::check::check;
use lifeboat_kopia::{COMPRESSIONS, Error, Filter, Options, Repository, find, list, snapshots};
use lifeboat_store::Store;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::fixtures::{all, flat, open, store, try_open};

#[tokio::test]
async fn every_repository_is_read_completely() {
    for name in all().keys() {
        let repository = open(name).await;
        let found = snapshots(&repository, &Filter::default()).await.unwrap();
        assert!(!found.is_empty(), "{name}");
        let checked =
            check(&repository, &found, true, Arc::default(), CancellationToken::new()).await.unwrap();
        assert!(checked.is_ok(), "{name}: {:?}", checked.errors);
        assert_eq!(checked.contents_read, checked.contents, "{name}");
        assert!(checked.files > 0 && checked.bytes_read > 0, "{name}");
    }
}

#[tokio::test]
async fn what_a_repository_is_made_with_is_shown() {
    let made = |name: &'static str| async move { open(name).await.made().clone() };
    let v3 = made("v3").await;
    assert_eq!((v3.version, v3.index_version, v3.epochs), (3, 2, true));
    assert_eq!((v3.hash.as_str(), v3.encryption.as_str()), ("BLAKE2B-256-128", "AES256-GCM-HMAC-SHA256"));
    let v1 = made("v1-compacted").await;
    assert_eq!((v1.version, v1.index_version, v1.epochs), (1, 1, false));
    assert_eq!(made("v2").await.version, 2);
    assert_eq!(made("chacha20").await.encryption, "CHACHA20-POLY1305-HMAC-SHA256");
    assert_eq!(made("pbkdf2").await.key_derivation, "pbkdf2-sha256-600000");
    assert_eq!(made("ecc-10").await.error_correction, Some(("REED-SOLOMON-CRC32".to_owned(), 10)));
}

#[tokio::test]
async fn the_keys_of_object_storage_are_read_too() {
    let repository = try_open(store(&flat(&all()["v3"])).await).await.unwrap();
    assert_eq!(snapshots(&repository, &Filter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_repository_are_told_apart() {
    let store = store(&all()["v3"]).await;
    let wrong = Repository::open(store, &SecretString::from("Secret"), Options::default()).await;
    assert!(matches!(wrong, Err(Error::WrongPassword)));
    assert!(matches!(try_open(Store::memory()).await, Err(Error::NoRepository { .. })));
}

#[tokio::test]
async fn snapshots_have_source_time_and_sizes() {
    let repository = open("epochs").await;
    let found = snapshots(&repository, &Filter::default()).await.unwrap();
    assert_eq!(found.len(), 10);
    assert!(found.windows(2).all(|pair| pair[0].start <= pair[1].start));
    let latest = find(&repository, "latest", &Filter::default()).await.unwrap();
    assert_eq!(latest.id, found[9].id);
    assert!(latest.source.path.ends_with("/ep"));
    assert_eq!(latest.size, 22);
    assert_eq!(find(&repository, &latest.id, &Filter::default()).await.unwrap().start, latest.start);
}

async fn listed(name: &str, folder: Option<&str>, recursive: bool) -> Vec<String> {
    let repository = open(name).await;
    let snapshot = find(&repository, "latest", &Filter::default()).await.unwrap();
    let mut paths = Vec::new();
    let mut each =
        |listed: lifeboat_kopia::Listed<'_>| paths.push(String::from_utf8_lossy(listed.path).into_owned());
    let folder = folder.map(std::path::Path::new);
    list(&repository, &snapshot, folder, recursive, &mut each, &CancellationToken::new()).await.unwrap();
    paths
}

#[tokio::test]
async fn entries_are_listed_with_their_paths() {
    assert_eq!(
        listed("v3", None, true).await,
        [
            "/dir",
            "/dir/sub",
            "/dir/sub/file",
            "/dir/link",
            "/empty",
            "/dangling",
            "/empty-file",
            "/odd \"name\" <&> ü",
            "/one",
            "/text"
        ]
    );
    assert_eq!(listed("v3", Some("/dir"), false).await, ["/dir/sub", "/dir/link"]);
    assert_eq!(listed("v3", Some("dir/sub/"), false).await, ["/dir/sub/file"]);
    assert_eq!(listed("device", None, true).await, ["/dev-1234"]);
    assert_eq!(listed("compress", None, false).await.len(), COMPRESSIONS.len());
}
