//! Archives that are no backups, and storage that fails: the restore ends Failed, says why, and has created nothing.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use lifeboat_archive::BackupFiles;
use rstest::rstest;
use serde_json::json;

use super::setting::{Setting, shop};

const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}"#;
const PLACE: &str = "resources/configmaps/namespaces/shop/a.json";

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// A tar with these entries, whatever their names are.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = tar::Header::new_ustar();
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    gzip(&tar.into_inner().unwrap())
}

fn cut() -> Vec<u8> {
    let whole = archive(&[(PLACE, MAP.as_bytes())]);
    whole[..whole.len() - 20].to_vec()
}

fn bomb() -> Vec<u8> {
    archive(&[
        (PLACE, MAP.as_bytes()),
        ("resources/secrets/namespaces/shop/b.json", &vec![b' '; 60 << 20]),
        ("resources/secrets/namespaces/shop/c.json", &vec![b' '; 60 << 20]),
    ])
}

#[rstest]
#[case::not_gzip(b"hello".to_vec(), "the archive is not gzip")]
#[case::empty(Vec::new(), "the archive is damaged or truncated")]
#[case::cut(cut(), "the archive is damaged or truncated")]
#[case::up(archive(&[(PLACE, MAP.as_bytes()), ("resources/../../etc/passwd", b"x")]), "leads out of the archive")]
#[case::absolute(archive(&[(PLACE, MAP.as_bytes()), ("/etc/passwd", b"x")]), "the name is absolute")]
#[case::twice(archive(&[(PLACE, MAP.as_bytes()), (PLACE, MAP.as_bytes())]), "it occurs twice")]
#[case::newer(archive(&[("metadata/version", b"2.0.0\n"), (PLACE, MAP.as_bytes())]), "restore it with a newer version")]
#[case::bomb(bomb(), "larger than a backup can be")]
#[tokio::test]
async fn an_archive_that_is_no_backup_restores_nothing(#[case] stored: Vec<u8>, #[case] reason: &str) {
    let setting = Setting::new(json!({}));
    let key = BackupFiles::new("b").unwrap().contents();
    setting.store.put(&key, Bytes::from(stored)).await.unwrap();
    let status = setting.run().await;
    assert_eq!(status["phase"], "Failed", "{status}");
    let message = status["failureReason"].as_str().unwrap();
    assert!(message.starts_with("restore execution failed: ") && message.contains(reason), "{message}");
    assert!(status["completionTimestamp"].is_string());
    assert!(setting.server.created().is_empty());
}

#[tokio::test]
async fn an_archive_that_is_not_there_is_named() {
    let status = Setting::new(json!({})).run().await;
    assert_eq!(status["phase"], "Failed", "{status}");
    let message = status["failureReason"].as_str().unwrap();
    assert!(message.contains("error downloading backup") && message.contains("b.tar.gz"), "{message}");
}

#[tokio::test]
async fn a_spool_that_does_not_fit_is_said_before_anything_is_created() {
    let mut setting = Setting::holding(json!({}), &shop()).await;
    setting.settings.storage.spool_bytes = Some(10);
    let status = setting.run().await;
    assert_eq!(status["phase"], "Failed", "{status}");
    let message = status["failureReason"].as_str().unwrap();
    assert!(
        message.contains("too little space for the spool") && message.contains("--spool-size"),
        "{message}"
    );
    assert!(setting.server.created().is_empty());
}

#[tokio::test]
async fn an_item_that_is_no_object_makes_the_restore_partial() {
    let setting = Setting::new(json!({}));
    let stored =
        archive(&[(PLACE, MAP.as_bytes()), ("resources/configmaps/namespaces/shop/b.json", b"{half")]);
    setting.store.put(&BackupFiles::new("b").unwrap().contents(), Bytes::from(stored)).await.unwrap();
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let message = setting.results().await.errors.namespaces["shop"][0].clone();
    assert!(message.starts_with("error decoding configmaps shop/b"), "{message}");
    assert!(setting.object("/api/v1/namespaces/shop/configmaps/a").is_some());
}

#[tokio::test]
async fn a_location_that_is_out_of_reach_ends_the_restore() {
    let setting = Setting::holding(json!({}), &shop()).await;
    let path = "/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/default";
    setting.set_status(path, json!({"phase": "Unavailable", "message": "no answer"}));
    let status = setting.run().await;
    assert_eq!(status["phase"], "Failed", "{status}");
    assert!(status["failureReason"].as_str().unwrap().contains("no answer"), "{status}");
}
