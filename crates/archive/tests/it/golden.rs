//! The archive of genuine Velero, read and written again.

use std::sync::Arc;

use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_archive::{ArchiveWriter, BackupFiles, ObjectStore, Spool, SpoolLimits, Uid, WriterOptions};
use lifeboat_store::Store;
use serde_json::Value;

use super::support;

async fn spooled(store: &dyn ObjectStore, key: &str) -> Spool {
    let directory = tempfile::tempdir().unwrap();
    let reading = store.get_stream(key).await.unwrap();
    Spool::read(reading, directory.path(), SpoolLimits::default()).await.unwrap()
}

async fn golden() -> (Store, Spool) {
    let store = Store::memory();
    let key = BackupFiles::new("golden").unwrap().contents();
    store.put(&key, support::file(&key)).await.unwrap();
    let spool = spooled(&store, &key).await;
    (store, spool)
}

#[tokio::test]
async fn every_item_of_a_velero_archive_is_found_with_its_relations() {
    let (_, spool) = golden().await;
    assert_eq!(spool.format_version(), "1.1.0");
    assert_eq!(spool.len(), 27);
    assert!(spool.unreadable().is_empty());

    let pod = ItemId::namespaced(GroupResource::parse("pods"), "golden", "web-8644975c4b-4xc7v");
    let pod = spool.item(spool.find(&pod).unwrap()).unwrap();
    assert_eq!((pod.api_version(), pod.kind(), pod.version()), ("v1", "Pod", "v1"));
    assert_eq!(pod.claims().collect::<Vec<_>>(), ["data"]);
    assert!(pod.labels().iter().any(|(key, value)| (key.as_str(), value.as_str()) == ("app", "web")));

    let owner = ItemId::namespaced(GroupResource::parse("replicasets.apps"), "golden", "web-8644975c4b");
    let owner = spool.item(spool.find(&owner).unwrap()).unwrap();
    assert_eq!(owner.api_version(), "apps/v1");
    assert_eq!(pod.owners(), [owner.uid().unwrap()]);

    let volume: Vec<_> = spool.items().filter(|item| item.namespace().is_none()).collect();
    assert_eq!(volume.len(), 2);
    let json: Value = serde_json::from_slice(&spool.get(volume[0].index()).await.unwrap()).unwrap();
    assert_eq!(json["metadata"]["name"], volume[0].name());
    assert_eq!(volume[0].uid(), Uid::new(json["metadata"]["uid"].as_str().unwrap()));
}

#[tokio::test]
async fn an_archive_that_is_written_again_has_the_same_entries_in_the_same_order() {
    let (store, spool) = golden().await;
    let key = "backups/copy/copy.tar.gz";
    let writer = ArchiveWriter::start(Arc::new(store.clone()), key, &WriterOptions { threads: 2 });
    for item in spool.items() {
        let json = spool.get(item.index()).await.unwrap();
        writer.append(&item.id(), item.version(), true, json).await.unwrap();
    }
    writer.finish().await.unwrap();
    let copy = support::entries(&store.get(key).await.unwrap());
    assert_eq!(copy, support::entries(&support::file("backups/golden/golden.tar.gz")));
    assert_eq!(spooled(&store, key).await.len(), spool.len());
}
