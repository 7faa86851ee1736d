//! Buckets that other users write to: a directory does not harm the others, and is not read in every sync.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_archive::{ByteStream, ObjectReading, ObjectStore};
use lifeboat_control::Clock;
use url::Url;

use super::*;

/// A store that counts what is read.
struct Counting {
    inner: Arc<dyn ObjectStore>,
    reads: AtomicUsize,
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError> {
        self.inner.put(key, body).await
    }
    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError> {
        self.inner.put_stream(key, body).await
    }
    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get_stream(key).await
    }
    async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        self.inner.exists(key).await
    }
    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.directories(prefix).await
    }
    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.keys(prefix).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        self.inner.delete(keys).await
    }
    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError> {
        self.inner.signed_url(key, ttl).await
    }
    async fn abort_uploads(&self, prefix: &str) -> Result<u64, StoreError> {
        self.inner.abort_uploads(prefix).await
    }
}

/// One sync; gives the number of files that were read.
async fn counted(cluster: &Cluster, past: &mut Past) -> usize {
    let mut location = locations::open(&cluster.context, "default").await.unwrap();
    let store = Arc::new(Counting { inner: location.store.clone(), reads: AtomicUsize::new(0) });
    location.store = store.clone();
    let names: BTreeSet<String> = cluster.names("backups").into_iter().collect();
    let in_cluster = InCluster { all: names.clone(), here: names };
    sync(&cluster.context, &location, &in_cluster, past).await.unwrap();
    store.reads.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_directory_that_is_no_backup_is_read_once_until_its_listing_changes() {
    let cluster = Cluster::new().await;
    let store = cluster.store();
    for number in 0..20 {
        store.put(&format!("backups/empty-{number}/log"), "x").await.unwrap();
    }
    store.put("backups/broken/velero-backup.json", "{").await.unwrap();
    let mut past = Past::default();
    assert_eq!(counted(&cluster, &mut past).await, 21);
    assert_eq!(counted(&cluster, &mut past).await, 0, "nothing has changed");
    store_backup(&store, "empty-7", "Completed").await;
    assert!(counted(&cluster, &mut past).await > 0);
    assert_eq!(cluster.names("backups"), ["empty-7"]);
    assert_eq!(counted(&cluster, &mut past).await, 0);
    assert_eq!(cluster.events(), ["BackupNotSynced"]);
}

#[rstest]
#[case::metadata_of_three_mebibytes("velero-backup.json", format!("{{\"a\":\"{}\"}}", "x".repeat(3 << 20)), "larger than 2097152 bytes")]
#[case::metadata_that_needs_much_memory("velero-backup.json", format!("[{}0]", r#"{"":0},"#.repeat(250_000)), "more values than")]
#[tokio::test]
async fn metadata_that_no_backup_has_is_refused_before_it_is_parsed(
    #[case] file: &str,
    #[case] content: String,
    #[case] message: &str,
) {
    let cluster = Cluster::new().await;
    cluster.store().put(&format!("backups/bomb/{file}"), content).await.unwrap();
    store_backup(&cluster.store(), "good", "Completed").await;
    let mut past = Past::default();
    synced(&cluster, &mut past).await.unwrap();
    assert_eq!(cluster.names("backups"), ["good"]);
    assert!(past.reported["bomb"].contains(message), "{:?}", past.reported);
}

#[tokio::test]
async fn a_list_that_is_a_bomb_keeps_its_backup_out_and_no_other() {
    let cluster = Cluster::new().await;
    let store = cluster.store();
    for name in ["bomb", "good"] {
        store_backup(&store, name, "Completed").await;
    }
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b' '), 256 << 20), &mut bomb).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 300_000, "{}", bomb.len());
    store.put(&BackupFiles::new("bomb").unwrap().pod_volume_backups(), bomb).await.unwrap();
    let mut past = Past::default();
    for _ in 0..2 {
        synced(&cluster, &mut past).await.unwrap();
    }
    assert_eq!(cluster.names("backups"), ["good"]);
    assert!(past.reported["bomb"].contains("a ratio of more than"), "{:?}", past.reported);
    assert_eq!(cluster.events(), ["BackupNotSynced"]);
}

#[tokio::test]
async fn a_condition_of_the_location_names_the_first_ten_backups_and_counts_the_others() {
    let cluster = Cluster::new().await;
    for number in 10..25 {
        cluster.store().put(&format!("backups/bad-{number}/velero-backup.json"), "{").await.unwrap();
    }
    store_backup(&cluster.store(), "good", "Completed").await;
    let (backups, mut writer) = reflector::store();
    writer.apply_watcher_event(&watcher::Event::Init);
    writer.apply_watcher_event(&watcher::Event::InitDone);
    let resource = objects::resource_of::<BackupStorageLocation>();
    let state = Arc::new(State { resource, backups, past: Mutex::default() });
    let object = cluster.get("backupstoragelocations", "default").unwrap();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    reconcile(Arc::new(object), cluster.context.clone(), state).await.unwrap();
    assert_eq!(cluster.names("backups"), ["good"]);
    let status = cluster.get("backupstoragelocations", "default").unwrap()["status"].clone();
    let condition = status["conditions"].as_array().and_then(|all| all.first()).cloned().unwrap_or_default();
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("BackupsSynced"), &json!("False")),
        "{status}"
    );
    let message = condition["message"].as_str().unwrap();
    for part in ["15 backups cannot be synced", "'bad-10'", "'bad-19'", "and 5 more"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("bad-20"), "{message}");
    let events = cluster.events();
    assert_eq!(events.iter().filter(|reason| *reason == "BackupNotSynced").count(), 10);
    assert_eq!(events.iter().filter(|reason| *reason == "BackupsNotSynced").count(), 1);
}

#[tokio::test]
async fn a_date_that_only_the_bucket_has_expires_nothing() {
    let cluster = Cluster::new().await;
    let mut forged = backup("forged", "Completed");
    forged["status"]["expiration"] = "2000-01-01T00:00:00Z".into();
    cluster.store().put("backups/forged/velero-backup.json", forged.to_string()).await.unwrap();
    synced(&cluster, &mut Past::default()).await.unwrap();
    let object = cluster.get("backups", "forged").unwrap();
    assert!(!lifeboat_plan::velero::garbage::has_expired(&object, Clock::default().now()), "{object}");
}
