//! Object stores: complete objects or errors, never a part of an object.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_archive::{ObjectStore, StoreError};
use lifeboat_plugin::host::Session;
use lifeboat_plugin::remote::ObjectStoreLocation;
use lifeboat_test_plugins::Plugins;

use super::{NAME, PROGRAM};

fn location(plugins: &Plugins, prefix: &str) -> ObjectStoreLocation {
    let root = plugins.path().join("store");
    std::fs::create_dir_all(root.join("bucket")).unwrap();
    let config = [("root".to_owned(), root.display().to_string())].into();
    ObjectStoreLocation { bucket: "bucket".into(), prefix: prefix.into(), config }
}

async fn store(plugins: &Plugins) -> (Arc<dyn ObjectStore>, Session) {
    let session = plugins.session().await;
    let store = session.object_store(NAME, &location(plugins, "pre/fix")).unwrap();
    (store, session)
}

fn bytes(count: usize) -> Bytes {
    (0..count).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[tokio::test]
async fn objects_come_back_as_they_were_written() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (store, session) = store(&plugins).await;
    let large = bytes(5_000_000);
    let pieces = large.chunks(700_001).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect::<Vec<_>>();
    assert_eq!(store.put_stream("a/large", futures::stream::iter(pieces).boxed()).await.unwrap(), 5_000_000);
    store.put("a/empty", Bytes::new()).await.unwrap();
    store.put("b/c/small", Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(store.get("a/large", 6_000_000).await.unwrap(), large);
    assert_eq!(store.get("a/empty", 10).await.unwrap(), Bytes::new());
    assert_eq!(store.keys("").await.unwrap(), ["a/empty", "a/large", "b/c/small"]);
    assert_eq!(store.keys("b/").await.unwrap(), ["b/c/small"]);
    assert_eq!(store.directories("").await.unwrap(), ["a", "b"]);
    assert_eq!(store.directories("b/").await.unwrap(), ["c"]);
    assert!(store.exists("a/empty").await.unwrap() && !store.exists("a/other").await.unwrap());
    let url = store.signed_url("a/large", Duration::from_mins(10)).await.unwrap();
    assert_eq!(url.as_str(), "https://bucket.example.com/pre/fix/a/large?seconds=600");
    store.delete(&["a/large".into(), "a/never".into()]).await.unwrap();
    assert!(!store.exists("a/large").await.unwrap());
    assert!(
        plugins.path().join("store/bucket/pre%2Ffix%2Fa%2Fempty").exists(),
        "the prefix is part of the key"
    );
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn an_object_that_is_not_there_is_not_found() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (store, session) = store(&plugins).await;
    let error = store.get("nothing", 10).await.unwrap_err();
    assert!(matches!(&error, StoreError::NotFound { key } if key == "nothing"), "{error}");
    session.close().await;
}

#[tokio::test]
async fn an_upload_whose_source_fails_leaves_no_object() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (store, session) = store(&plugins).await;
    let pieces = vec![Ok(bytes(100_000)), Err(StoreError::Source("the source broke".into()))];
    let error = store.put_stream("half", futures::stream::iter(pieces).boxed()).await.unwrap_err();
    assert!(error.to_string().contains("the source broke"), "{error}");
    // The plugin notices it a moment later; it must not take the received part for the whole object.
    store.put("after", Bytes::from_static(b"x")).await.unwrap();
    for _ in 0..10 {
        assert!(!store.exists("half").await.unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.close().await;
}

#[tokio::test]
async fn an_upload_that_is_dropped_leaves_no_object() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (store, session) = store(&plugins).await;
    let pieces = futures::stream::iter(vec![Ok(bytes(100_000))]).chain(futures::stream::pending()).boxed();
    let dropped = tokio::time::timeout(Duration::from_millis(500), store.put_stream("half", pieces)).await;
    assert!(dropped.is_err());
    for _ in 0..10 {
        assert!(!store.exists("half").await.unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.close().await;
}

#[tokio::test]
async fn a_plugin_that_stops_reading_or_writing_ends_at_the_timeout() {
    let mut plugins = Plugins::new().with("p", PROGRAM);
    plugins.settings.timeouts.stall = Duration::from_secs(2);
    let (store, session) = store(&plugins).await;
    let pieces = futures::stream::repeat_with(|| Ok(bytes(1_000_000))).take(100).boxed();
    let error = store.put_stream("stall", pieces).await.unwrap_err().to_string();
    assert!(error.contains("PutObject took longer than 2s"), "{error}");
    store.put("x/stop", bytes(10)).await.unwrap();
    let reading = store.get_stream("x/stop").await.unwrap();
    let error = reading.body.try_collect::<Vec<_>>().await.unwrap_err().to_string();
    assert!(error.contains("GetObject took longer than 2s"), "{error}");
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn an_object_that_breaks_off_is_an_error_and_not_a_short_object() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (store, session) = store(&plugins).await;
    store.put("x/cut", bytes(10)).await.unwrap();
    let error = store.get("x/cut", 100).await.unwrap_err().to_string();
    assert!(error.contains("the test requested a broken stream"), "{error}");
    let error = store.put("x/early", bytes(10_000_000)).await.unwrap_err().to_string();
    assert!(error.contains("before the whole object was read"), "{error}");
    let error = store.keys("outside/").await.unwrap_err().to_string();
    assert!(error.contains("\"another/location\""), "{error}");
    session.close().await;
}

#[tokio::test]
async fn a_store_that_crashed_is_configured_again() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let (store, session) = store(&plugins).await;
    let error = store.put("x/crash", bytes(10)).await.unwrap_err().to_string();
    assert!(error.contains("exit status: 7"), "{error}");
    store.put("x/good", bytes(10)).await.unwrap();
    assert_eq!(store.keys("").await.unwrap(), ["x/good"]);
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn two_locations_of_one_provider_do_not_share_a_process() {
    let plugins = Plugins::new().with("p", PROGRAM);
    let session = plugins.session().await;
    let one = session.object_store(NAME, &location(&plugins, "one")).unwrap();
    let again = session.object_store(NAME, &location(&plugins, "one")).unwrap();
    let two = session.object_store(NAME, &location(&plugins, "two")).unwrap();
    one.put("a", Bytes::new()).await.unwrap();
    assert_eq!(again.keys("").await.unwrap(), ["a"]);
    assert_eq!(plugins.processes().len(), 1);
    assert!(two.keys("").await.unwrap().is_empty());
    assert_eq!(plugins.processes().len(), 2);
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_provider_that_is_not_installed_is_named() {
    let plugins = Plugins::new();
    let session = plugins.session().await;
    let error = session.object_store("aws", &ObjectStoreLocation::default()).err().unwrap().to_string();
    assert!(error.contains("no ObjectStore plugin named 'velero.io/aws' is installed"), "{error}");
}
