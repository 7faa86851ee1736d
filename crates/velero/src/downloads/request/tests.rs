//! Requests against a cluster in memory, with links that the server answers itself.

use std::net::{Ipv4Addr, SocketAddr};

use futures::TryStreamExt;
use lifeboat_cluster::objects::resource_of;
use lifeboat_web::{DownloadRefused, Downloads};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::downloads::Links;
use crate::settings::DownloadSettings;
use crate::testing::{self, Cluster};

async fn cluster(url: Option<&str>) -> Cluster {
    let mut settings = testing::settings();
    settings.storage.downloads = url.map(|url| DownloadSettings {
        url: url.parse().unwrap(),
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    });
    let cluster = Cluster::with_settings(settings).await;
    let backup = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"},
        "spec": {"storageLocation": "default"}});
    let restore = json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "r"},
        "spec": {"backupName": "b"}});
    cluster.put("backups", &backup);
    cluster.put("restores", &restore);
    cluster
}

/// Makes a request and reconciles it once; what became of it.
async fn asked(cluster: &Cluster, kind: &str, name: &str) -> Option<Value> {
    let request = json!({"apiVersion": "velero.io/v1", "kind": "DownloadRequest",
        "metadata": {"name": "q", "creationTimestamp": cluster.context.now().to_string()},
        "spec": {"target": {"kind": kind, "name": name}}});
    cluster.put("downloadrequests", &request);
    let object = serde_json::from_value(cluster.get("downloadrequests", "q").unwrap()).unwrap();
    let resource = Arc::new(resource_of::<DownloadRequest>());
    reconcile(Arc::new(object), cluster.context.clone(), resource).await.unwrap();
    cluster.get("downloadrequests", "q")
}

fn token(request: &Value) -> String {
    let url = request["status"]["downloadURL"].as_str().unwrap();
    url.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_of_ours_opens_the_file_that_was_asked_for() {
    let cluster = cluster(Some("https://lifeboat.example.com/files/")).await;
    cluster.store().put("backups/b/b-logs.gz", "the log").await.unwrap();
    let request = asked(&cluster, "BackupLog", "b").await.unwrap();
    assert_eq!(request["status"]["phase"], "Processed");
    let url = request["status"]["downloadURL"].as_str().unwrap();
    assert!(url.starts_with("https://lifeboat.example.com/files/download/"), "{url}");
    let links = Links { context: cluster.context.clone() };
    let file = links.open(&token(&request)).await.unwrap();
    assert_eq!((file.file_name.as_str(), file.size), ("b-logs.gz", Some(7)));
    let chunks: Vec<_> = file.body.try_collect().await.unwrap();
    assert_eq!(chunks.concat(), b"the log");
    assert_eq!(cluster.names("secrets"), ["lifeboat-download-key"]);
}

#[tokio::test]
async fn a_restores_file_is_in_the_location_of_its_backup() {
    let cluster = cluster(Some("https://x")).await;
    cluster.store().put("restores/r/restore-r-results.gz", "x").await.unwrap();
    let request = asked(&cluster, "RestoreResults", "r").await.unwrap();
    let links = Links { context: cluster.context.clone() };
    assert!(links.open(&token(&request)).await.is_ok());
}

#[tokio::test]
async fn the_key_of_links_stays_out_of_backups() {
    let cluster = cluster(Some("https://x")).await;
    downloads::sealing_secret(&cluster.context).await.unwrap();
    let key = cluster.server.get("/api/v1/namespaces/lifeboat/secrets/lifeboat-download-key").unwrap();
    assert_eq!(key["metadata"]["labels"]["velero.io/exclude-from-backup"], "true");
}

#[tokio::test]
async fn a_link_to_what_is_not_there_and_a_forged_link_open_nothing() {
    let cluster = cluster(Some("https://x")).await;
    let request = asked(&cluster, "BackupResults", "b").await.unwrap();
    let links = Links { context: cluster.context.clone() };
    let refused = async |token: String| links.open(&token).await.err();
    assert_eq!(refused(token(&request)).await, Some(DownloadRefused::NotFound));
    assert_eq!(refused(format!("{}x", token(&request))).await, Some(DownloadRefused::Invalid));
    let grant = Grant { location: "default".into(), key: "backups/b/b-logs.gz".into(), expires: 1 };
    let secret = downloads::sealing_secret(&cluster.context).await.unwrap();
    assert_eq!(refused(seal(&grant, &secret)).await, Some(DownloadRefused::Expired));
}

#[rstest]
#[case::no_such_backup("BackupLog", "nothing")]
#[case::no_such_restore("RestoreLog", "nothing")]
#[case::no_name("BackupLog", "../b")]
#[case::storage_that_signs_nothing("BackupLog", "b")]
#[tokio::test]
async fn a_request_that_can_never_be_answered_goes_with_an_event(#[case] kind: &str, #[case] name: &str) {
    let cluster = cluster(None).await;
    assert_eq!(asked(&cluster, kind, name).await, None);
    assert_eq!(cluster.events(), ["NoLink"]);
}

#[tokio::test]
async fn a_request_waits_for_a_location_that_may_come_back() {
    let cluster = cluster(None).await;
    cluster.change("backupstoragelocations", "default", &json!({"status": {"phase": "Unavailable"}}));
    let request = asked(&cluster, "BackupLog", "b").await.unwrap();
    assert_eq!(request["status"], Value::Null);
}
