//! Cases that only a directory can get wrong.

use std::os::unix::fs::symlink;

use futures::TryStreamExt;
use lifeboat_store::{Backend, Environment, Error, Key, Local, Store, StoreConfig, Tuning, open};
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
#[case::to_a_directory("/", "is a symbolic link to a directory")]
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

#[tokio::test]
async fn a_directory_is_created_only_on_request_and_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("new/repository");
    Local::create(&root).unwrap();
    assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
    Local::create(&root).unwrap();
    assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o755, "what is there stays");
    std::fs::write(directory.path().join("file"), "x").unwrap();
    assert!(Local::create(directory.path().join("file")).is_err());
    assert!(Local::create(directory.path().join("file/below")).is_err());
}

#[rstest]
#[case::in_one_piece(1024)]
#[case::as_a_stream(33 * 1024 * 1024 + 7)]
#[tokio::test]
async fn ranges_of_any_size_are_read(#[case] size: usize) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    let content: Vec<u8> = (0..size).map(|i: usize| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    store.put("a", content.clone()).await.unwrap();
    assert!(store.get("a").await.unwrap() == content);
    let inner = 5..size as u64 - 3;
    assert!(store.get_range("a", inner).await.unwrap() == content[5..size - 3]);
}

#[tokio::test]
async fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    store.put("a", vec![1; 40 * 1024 * 1024]).await.unwrap();
    let patience = lifeboat_store::RetryPolicy { attempts: 1, ..lifeboat_store::RetryPolicy::default() };
    let mut body = store.with_retry(patience).get_stream("a").await.unwrap().body;
    body.try_next().await.unwrap();
    std::fs::File::options().write(true).open(directory.path().join("a")).unwrap().set_len(9 << 20).unwrap();
    let rest: Result<Vec<_>, _> = body.try_collect().await;
    assert!(rest.is_err());
}

#[tokio::test]
async fn unfinished_files_go_when_nothing_touched_them_for_long() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::local(directory.path()).unwrap();
    store.put("data/ab/whole", "x").await.unwrap();
    let file = |name: &str, hours: u64| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "half").unwrap();
        let time = std::time::SystemTime::now() - std::time::Duration::from_hours(hours);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        path
    };
    let old = file("data/ab/.lifeboat-tmp-1", 25);
    let alone = file("data/cd/.lifeboat-tmp-2", 25);
    let fresh = file("data/ab/.lifeboat-tmp-3", 1);
    let foreign = file("data/ab/old-file", 1000);
    symlink(directory.path().join("data"), directory.path().join("link")).unwrap();
    let day = std::time::Duration::from_hours(24);
    assert_eq!(store.below("data/ab").unwrap().remove_unfinished(day).await.unwrap(), 1);
    assert_eq!(store.remove_unfinished(day).await.unwrap(), 1);
    assert_eq!(store.remove_unfinished(day).await.unwrap(), 0);
    assert!(!old.exists() && !alone.exists() && fresh.exists() && foreign.exists());
    assert!(!directory.path().join("data/cd").exists(), "a directory goes with its last file");
    assert!(store.exists("data/ab/whole").await.unwrap());
}

#[tokio::test]
async fn a_writer_whose_unfinished_file_was_taken_away_gets_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let local = Local::new(directory.path()).unwrap();
    let key = Key::new("a/b").unwrap();
    let upload = local.begin_upload(&key).await.unwrap();
    std::fs::remove_file(directory.path().join("a").join(&upload.0)).unwrap();
    assert!(local.complete_upload(&key, &upload, &[]).await.is_err());
    assert!(local.head(&key).await.unwrap_err().is_not_found());
}

#[test]
fn a_path_that_cannot_become_a_directory_is_reported_without_an_endless_loop() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    symlink("/does/not/exist", &link).unwrap();
    std::fs::write(directory.path().join("file"), "x").unwrap();
    let message = |path: &std::path::Path| match Local::create(path).unwrap_err() {
        error @ Error::Disk { .. } => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(message(&link).contains("dangling symbolic link"));
    assert!(message(&link.join("below/more")).contains("dangling symbolic link"));
    assert!(message(&directory.path().join("file")).contains("not a directory"));
    message("/proc/lifeboat-does-not-exist/below".as_ref());
    let opened = Store::local(directory.path().join("file")).unwrap_err();
    assert!(matches!(opened, Error::Disk { .. }), "{opened:?}");
}

#[test]
fn a_directory_that_may_not_be_read_is_not_reported_as_missing() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let closed = directory.path().join("closed");
    std::fs::create_dir_all(closed.join("repository")).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let opened = Store::local(closed.join("repository"));
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    match opened {
        // root may read every directory.
        Ok(_) => {}
        Err(Error::Disk { source, .. }) => assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied),
        Err(other) => panic!("{other:?}"),
    }
}
