//! Limits for our own archives and for untrusted ones.

use std::sync::Arc;

use lifeboat_store::Store;

use super::*;
use crate::memory::Memory;
use crate::object_store::ObjectStore;
use crate::{ArchiveWriter, WriterOptions};

#[tokio::test]
async fn hundreds_of_equal_objects_are_no_bomb() {
    let store: Arc<dyn ObjectStore> = Arc::new(Store::memory());
    let writer = ArchiveWriter::start(store.clone(), "b.tar.gz", &WriterOptions { threads: 1 });
    // Long runs of equal bytes, as in Secrets that contain empty disk images.
    let parts: Vec<String> = (0..13).map(|part| format!("{part}{}", "A".repeat(8000))).collect();
    let text = parts.concat();
    for number in 0..400 {
        let json = object("ConfigMap", "shop", &format!("c{number}"))
            .replace("\"v1\"", &format!("\"v1\",\"x\":\"{text}\""));
        let id = ItemId::namespaced(GroupResource::new("", "configmaps"), "shop", format!("c{number}"));
        writer.append(&id, "v1", true, Bytes::from(json)).await.unwrap();
    }
    writer.finish().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let read = async |limits: SpoolLimits| {
        Spool::read(store.get_stream("b.tar.gz").await.unwrap(), directory.path(), limits).await
    };
    assert_eq!(read(SpoolLimits::default()).await.unwrap().len(), 400);
    let error = read(SpoolLimits::default().untrusted()).await.err().unwrap();
    assert!(error.to_string().contains("a ratio of more than"), "{error}");
}

#[tokio::test]
async fn labels_beyond_all_measure_do_not_fill_the_memory() {
    let labelled = |labels: usize| {
        let labels: Vec<String> =
            (0..labels).map(|number| format!(r#""l{number}":"{}""#, "x".repeat(60))).collect();
        pod_with(&labels.join(","))
    };
    let spool = read(&archive(&[(POD, &labelled(5000))])).await.unwrap();
    assert_eq!(spool.unreadable()[0].id.name, "web");
    let limits = SpoolLimits { index_bytes: 10_000, ..SpoolLimits::default() };
    let error = read_with(&archive(&[(POD, &labelled(200))]), limits.clone()).await.unwrap_err();
    assert!(error.to_string().contains("names and labels"), "{error}");
    assert!(read_with(&archive(&[(POD, &labelled(2))]), limits).await.is_ok());
}

#[tokio::test]
async fn an_item_that_is_small_as_text_and_large_in_memory_is_left_out_and_the_others_are_kept() {
    let bomb = object("Pod", "shop", "web")
        .replace("\"v1\"", &format!("\"v1\",\"x\":[{}0]", r#"{"":0},"#.repeat(200_000)));
    let other = object("Pod", "shop", "fine");
    let spool = read(&archive(&[
        (POD, bomb.as_bytes()),
        ("resources/pods/namespaces/shop/fine.json", other.as_bytes()),
    ]))
    .await
    .unwrap();
    assert_eq!(spool.len(), 1, "the bomb of {} bytes needs {} MiB", bomb.len(), (200_000 * 700) >> 20);
    assert!(spool.unreadable()[0].problem.contains("more values than an object can have"));
}

#[tokio::test]
async fn large_items_share_the_memory_of_the_server() {
    let free = || Memory::of_process().work.free();
    let large =
        object("Pod", "shop", "web").replace("\"v1\"", &format!("\"v1\",\"x\":\"{}\"", "x".repeat(2 << 20)));
    let spool = read(&archive(&[(POD, large.as_bytes())])).await.unwrap();
    let before = free();
    let share = spool.reserve(0).await.unwrap();
    assert!(before - free() >= 4 * (2 << 20), "{} of {before} are free", free());
    drop(share);
    assert_eq!(free(), before);
}

fn pod_with(labels: &str) -> Vec<u8> {
    object("Pod", "shop", "web")
        .replace("\"metadata\":{", &format!("\"metadata\":{{\"labels\":{{{labels}}},"))
        .into_bytes()
}
