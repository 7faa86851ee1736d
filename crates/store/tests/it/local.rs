//! What only a directory can get wrong.

use std::os::unix::fs::symlink;

use futures::TryStreamExt;
use lifeboat_store::{Environment, Error, Store, StoreConfig, Tuning, open};
use rstest::rstest;

#[tokio::test]
async fn a_missing_directory_is_reported_and_not_created() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("mount");
    assert!(matches!(Store::local(&root), Err(Error::BucketNotFound { .. })));

    std::fs::create_dir(&root).unwrap();
    let store = Store::local(&root).unwrap();
    std::fs::remove_dir(&root).unwrap();
    for error in [
        store.put("a", "x").await.unwrap_err(),
        store.get("a").await.unwrap_err(),
        store.list_directory("").await.unwrap_err(),
        store.delete("a").await.unwrap_err(),
    ] {
        assert!(
            matches!(error, Error::BucketNotFound { .. }),
            "an unmounted disk is not an empty one: {error:?}"
        );
    }
    assert!(!root.exists());
}

#[tokio::test]
async fn unfinished_files_are_neither_listed_nor_readable() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    store.put("a/b", "x").await.unwrap();
    std::fs::write(directory.path().join("a/.lifeboat-tmp-1"), "half").unwrap();
    let keys: Vec<String> = store.list("").map_ok(|info| info.key).try_collect().await.unwrap();
    assert_eq!(keys, ["a/b"]);
    assert!(matches!(store.get("a/.lifeboat-tmp-1").await, Err(Error::InvalidKey { .. })));
}

#[rstest]
#[case::to_a_directory("/", "is a link to a directory")]
#[case::to_nothing("/does/not/exist", "read")]
#[tokio::test]
async fn a_link_fails_the_listing(#[case] target: &str, #[case] expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    symlink(target, directory.path().join("link")).unwrap();
    let error = store.list("").try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn keys_come_in_the_order_of_s3() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    for key in ["a/x", "a.b", "a-b", "a0", "a"] {
        // `a` cannot be both a file and a directory: the one thing a bucket can do and a directory cannot.
        let result = store.put(key, "x").await;
        assert_eq!(result.is_ok(), key != "a", "{result:?}");
    }
    let keys: Vec<String> = store.list("").map_ok(|info| info.key).try_collect().await.unwrap();
    assert_eq!(keys, ["a-b", "a.b", "a/x", "a0"]);
}

#[tokio::test]
async fn a_location_of_provider_local_opens() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bkt")).unwrap();
    let mut config = StoreConfig {
        provider: "lifeboat.io/local".into(),
        bucket: "bkt".into(),
        prefix: "/p/".into(),
        config: [("path".to_owned(), directory.path().display().to_string())].into(),
        ..StoreConfig::default()
    };
    let store = open(&config, &Environment::default(), Tuning::default()).await.unwrap();
    store.put("a", "x").await.unwrap();
    assert!(directory.path().join("bkt/p/a").is_file());

    config.bucket = "..".into();
    assert!(open(&config, &Environment::default(), Tuning::default()).await.is_err());
    config.bucket = "gone".into();
    let error = open(&config, &Environment::default(), Tuning::default()).await.unwrap_err();
    assert_eq!(error.category(), "bucket_not_found");
    config.config.clear();
    let error = open(&config, &Environment::default(), Tuning::default()).await.unwrap_err();
    assert!(error.to_string().contains("config key 'path'"), "{error}");
}
