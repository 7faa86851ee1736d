use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use futures::future::join_all;
use lifeboat_api::catalogue::GroupResource;
use lifeboat_store::{Memory, Store, Tuning};
use rstest::rstest;

use super::*;

const KEY: &str = "backups/nightly/nightly.tar.gz";

fn item(resource: &str, namespace: Option<&str>, name: &str) -> ItemId {
    ItemId {
        resource: GroupResource::parse(resource),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

/// Names and contents, as another implementation of tar reads them.
async fn entries(store: &Store) -> Vec<(String, Vec<u8>, u32)> {
    let stored = store.get(KEY).await.unwrap();
    let mut archive = ::tar::Archive::new(MultiGzDecoder::new(&stored[..]));
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().entry_type(), ::tar::EntryType::Regular);
        let mut content = Vec::new();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mode = entry.header().mode().unwrap();
        entry.read_to_end(&mut content).unwrap();
        (name, content, mode)
    });
    read.collect()
}

#[tokio::test]
async fn an_archive_begins_with_its_version_and_holds_each_preferred_item_twice() {
    let store = Store::memory();
    let writer = ArchiveWriter::start(Arc::new(store.clone()), KEY, &WriterOptions { threads: 2 });
    let pod = item("pods", Some("shop"), "web");
    writer.append(&pod, "v1", true, Bytes::from_static(b"{\"a\":1}")).await.unwrap();
    let volume = item("persistentvolumes", None, "disk");
    writer.append(&volume, "v1", true, Bytes::from_static(b"{}")).await.unwrap();
    let old = item("deployments.apps", Some("shop"), "web");
    writer.append(&old, "v1beta1", false, Bytes::from_static(b"[]")).await.unwrap();
    let size = writer.finish().await.unwrap();

    let found = entries(&store).await;
    let names: Vec<&str> = found.iter().map(|(name, _, _)| name.as_str()).collect();
    let expected = [
        "metadata/version",
        "resources/pods/namespaces/shop/web.json",
        "resources/pods/v1-preferredversion/namespaces/shop/web.json",
        "resources/persistentvolumes/cluster/disk.json",
        "resources/persistentvolumes/v1-preferredversion/cluster/disk.json",
        "resources/deployments.apps/v1beta1/namespaces/shop/web.json",
    ];
    assert_eq!(names, expected);
    assert_eq!(found[0].1, b"1.1.0\n");
    assert_eq!(found[1].1, found[2].1);
    assert!(found.iter().all(|(_, _, mode)| *mode == 0o755));
    assert_eq!(size.items, 3);
    assert_eq!(size.compressed, store.head(KEY).await.unwrap().size);
    assert_eq!(size.plain % 512, 0);
}

#[rstest]
#[case::ustar(60)]
#[case::prefix(90)]
#[case::pax(250)]
#[tokio::test]
async fn names_of_any_length_are_written(#[case] length: usize) {
    let store = Store::memory();
    let writer = ArchiveWriter::start(Arc::new(store.clone()), KEY, &WriterOptions::default());
    let long = item("widgets.example.com", Some(&"n".repeat(63)), &"x".repeat(length));
    writer.append(&long, "v1", true, Bytes::from_static(b"{}")).await.unwrap();
    writer.finish().await.unwrap();
    let found = entries(&store).await;
    let place = format!("namespaces/{}/{}.json", "n".repeat(63), "x".repeat(length));
    assert_eq!(found[1].0, format!("resources/widgets.example.com/{place}"));
    assert_eq!(found[2].0, format!("resources/widgets.example.com/v1-preferredversion/{place}"));
}

#[tokio::test]
async fn names_beyond_ascii_are_written() {
    let store = Store::memory();
    let writer = ArchiveWriter::start(Arc::new(store.clone()), KEY, &WriterOptions::default());
    writer.append(&item("roles", Some("a"), "bär"), "v1", false, Bytes::from_static(b"{}")).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(entries(&store).await[1].0, "resources/roles/v1/namespaces/a/bär.json");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_of_many_tasks_all_arrive_whole() {
    let store = Store::new(Arc::new(Memory::new()), "", Tuning { part_size: 64 * 1024, ..Tuning::default() })
        .unwrap();
    let writer = Arc::new(ArchiveWriter::start(Arc::new(store.clone()), KEY, &WriterOptions { threads: 2 }));
    let tasks = (0..8).map(|task| {
        let writer = Arc::clone(&writer);
        tokio::spawn(async move {
            for number in 0..200 {
                let id = item("configmaps", Some(&format!("n{task}")), &format!("c{number}"));
                let body = format!("{task}-{number}-{}", "v".repeat(3000));
                writer.append(&id, "v1", true, body.into()).await.unwrap();
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let size = Arc::into_inner(writer).unwrap().finish().await.unwrap();
    let found = entries(&store).await;
    assert_eq!(found.len(), 1 + 8 * 200 * 2);
    assert_eq!(size.items, 1600);
    for (name, content, _) in &found[1..] {
        let parts: Vec<&str> = name.rsplit('/').take(2).collect();
        let expected = format!("{}-{}-", &parts[1][1..], parts[0][1..].trim_end_matches(".json"));
        assert!(content.starts_with(expected.as_bytes()), "{name}");
    }
}

#[rstest]
#[case::slash("a/b")]
#[case::up("..")]
#[case::empty("")]
#[tokio::test]
async fn an_item_without_a_place_is_refused_and_the_others_are_written(#[case] name: &str) {
    let store = Store::memory();
    let writer = ArchiveWriter::start(Arc::new(store.clone()), KEY, &WriterOptions::default());
    let error = writer.append(&item("pods", Some("a"), name), "v1", true, Bytes::new()).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Name { part: "name", .. }));
    writer.append(&item("pods", Some("a"), "fine"), "v1", true, Bytes::new()).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(entries(&store).await.len(), 3);
}

#[tokio::test]
async fn a_writer_that_is_dropped_leaves_nothing() {
    let memory = Arc::new(Memory::new());
    let tuning = Tuning { part_size: 1024, ..Tuning::default() };
    let store = Store::new(memory.clone(), "", tuning).unwrap();
    let writer = ArchiveWriter::start(Arc::new(store.clone()), KEY, &WriterOptions { threads: 1 });
    for number in 0..1500 {
        let id = item("configmaps", Some("a"), &format!("c{number}"));
        writer.append(&id, "v1", true, unlike(number).into()).await.unwrap();
    }
    drop(writer);
    let gone = async {
        while memory.open_uploads() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    assert!(!store.exists(KEY).await.unwrap());
}

/// Text that does not repeat, so that it does not compress.
fn unlike(number: usize) -> String {
    use sha2::Digest;
    let mut text = String::new();
    for part in 0..40 {
        for byte in sha2::Sha256::digest(format!("{number}-{part}")) {
            text.push(char::from(32 + byte % 95));
        }
    }
    text
}

/// Storage that accepts nothing.
struct Full;

#[async_trait::async_trait]
impl ObjectStore for Full {
    async fn put(&self, _: &str, _: Bytes) -> Result<(), StoreError> {
        Err(full())
    }
    async fn put_stream(&self, _: &str, _: crate::ByteStream) -> Result<u64, StoreError> {
        Err(full())
    }
    async fn get_stream(&self, _: &str) -> Result<crate::ObjectReading, StoreError> {
        Err(full())
    }
    async fn exists(&self, _: &str) -> Result<bool, StoreError> {
        Err(full())
    }
    async fn directories(&self, _: &str) -> Result<Vec<String>, StoreError> {
        Err(full())
    }
    async fn keys(&self, _: &str) -> Result<Vec<String>, StoreError> {
        Err(full())
    }
    async fn delete(&self, _: &[String]) -> Result<(), StoreError> {
        Err(full())
    }
    async fn signed_url(&self, _: &str, _: Duration) -> Result<url::Url, StoreError> {
        Err(full())
    }
    async fn abort_uploads(&self, _: &str) -> Result<u64, StoreError> {
        Err(full())
    }
}

fn full() -> StoreError {
    StoreError::Plugin { plugin: "example.io/full".into(), message: "the bucket is full".into() }
}

#[tokio::test]
async fn an_upload_error_is_reported_by_the_archive() {
    let writer = ArchiveWriter::start(Arc::new(Full), KEY, &WriterOptions::default());
    let body = Bytes::from(vec![b'x'; 600_000]);
    let mut failure = None;
    for number in 0..100 {
        let id = item("configmaps", Some("a"), &format!("c{number}"));
        if let Err(error) = writer.append(&id, "v1", true, body.clone()).await {
            failure = Some(error);
            break;
        }
    }
    let Some(ArchiveError::Upload { source, .. }) = failure else { panic!("{failure:?}") };
    assert!(source.to_string().contains("the bucket is full"));
    let error = writer.finish().await.unwrap_err();
    assert!(matches!(error, ArchiveError::Upload { .. }));
}

/// Storage that hangs.
struct Hanging;

#[async_trait::async_trait]
impl ObjectStore for Hanging {
    async fn put(&self, _: &str, _: Bytes) -> Result<(), StoreError> {
        std::future::pending().await
    }
    async fn put_stream(&self, _: &str, _: crate::ByteStream) -> Result<u64, StoreError> {
        std::future::pending().await
    }
    async fn get_stream(&self, _: &str) -> Result<crate::ObjectReading, StoreError> {
        std::future::pending().await
    }
    async fn exists(&self, _: &str) -> Result<bool, StoreError> {
        std::future::pending().await
    }
    async fn directories(&self, _: &str) -> Result<Vec<String>, StoreError> {
        std::future::pending().await
    }
    async fn keys(&self, _: &str) -> Result<Vec<String>, StoreError> {
        std::future::pending().await
    }
    async fn delete(&self, _: &[String]) -> Result<(), StoreError> {
        std::future::pending().await
    }
    async fn signed_url(&self, _: &str, _: Duration) -> Result<url::Url, StoreError> {
        std::future::pending().await
    }
    async fn abort_uploads(&self, _: &str) -> Result<u64, StoreError> {
        std::future::pending().await
    }
}

#[rstest]
#[case::while_items_come(64)]
#[case::at_the_end(0)]
#[tokio::test]
async fn storage_that_hangs_ends_the_archive(#[case] items: usize) {
    let stall_limit = Duration::from_millis(20);
    let writer = ArchiveWriter::start_with_limit(
        Arc::new(Hanging),
        KEY.to_owned(),
        &WriterOptions { threads: 2 },
        stall_limit,
    );
    let large = Bytes::from(vec![b'x'; 1 << 19]);
    let mut error = None;
    for at in 0..items {
        error =
            writer.append(&item("pods", Some("n"), &format!("p{at}")), "v1", true, large.clone()).await.err();
        if error.is_some() {
            break;
        }
    }
    assert_eq!(error.is_some(), items > 0);
    let error = match error {
        Some(error) => error,
        None => writer.finish().await.unwrap_err(),
    };
    let ArchiveError::Upload { source, .. } = error else { panic!("{error}") };
    assert!(source.to_string().contains("accepted no data"), "{source}");
}
