//! Passes in a world where things go wrong: hooks that hang, storage that fails, lists that break.

use std::time::Duration;

use bytes::Bytes;
use lifeboat_archive::{ByteStream, ObjectReading, StoreError};
use lifeboat_store::backend::RequestKind;
use lifeboat_store::layers::Layered;
use lifeboat_store::testing::{Fault, Faults, Rule};
use lifeboat_store::{Memory, RetryPolicy, Tuning};
use url::Url;

use super::*;

/// A bucket that takes nothing.
struct Full;

#[async_trait::async_trait]
impl ObjectStore for Full {
    async fn put(&self, _: &str, _: Bytes) -> Result<(), StoreError> {
        Err(StoreError::Source("the bucket is full".into()))
    }
    async fn put_stream(&self, _: &str, _: ByteStream) -> Result<u64, StoreError> {
        Err(StoreError::Source("the bucket is full".into()))
    }
    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError> {
        Err(StoreError::NotFound { key: key.to_owned() })
    }
    async fn exists(&self, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn directories(&self, _: &str) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    async fn keys(&self, _: &str) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    async fn delete(&self, _: &[String]) -> Result<(), StoreError> {
        Ok(())
    }
    async fn signed_url(&self, key: &str, _: Duration) -> Result<Url, StoreError> {
        Err(StoreError::NotFound { key: key.to_owned() })
    }
    async fn abort_uploads(&self, _: &str) -> Result<u64, StoreError> {
        Ok(0)
    }
}

#[tokio::test]
async fn a_bucket_that_takes_nothing_fails_the_backup_after_its_hooks_ended() {
    let world = shop();
    world.pod("shop", "a", &[], true);
    let ended = run(input(&world, json!({}), Arc::new(Full), CancellationToken::new()).await).await;
    let Err(PassError::Failed(failure)) = ended else { panic!("it did not fail") };
    let message = failure.message();
    assert!(message.contains("the bucket is full"), "{message}");
    assert_eq!(world.ran().last().map(String::as_str), Some("post a"));
}

/// A pass that ends in time: no fault may hold it for longer.
async fn ended(input: PassInput) -> Result<Outcome, PassError> {
    tokio::time::timeout(Duration::from_secs(30), Box::pin(run(input))).await.expect("the pass does not end")
}

#[tokio::test]
async fn a_cancelled_pass_does_not_wait_for_a_hook_that_hangs_and_runs_every_post_hook() {
    let world = shop();
    world.pod("shop", "a", &["data"], true).pod("shop", "b", &["data"], true);
    world.hang("pre b");
    let (stop, store) = (CancellationToken::new(), Arc::new(Store::memory()));
    let token = stop.clone();
    world.on_command(move |_, command| {
        if command == "pre b" {
            token.cancel();
        }
    });
    let ended = ended(input(&world, json!({}), store.clone(), stop).await).await;
    assert!(matches!(ended, Err(PassError::Stopped)));
    assert_eq!(world.ran(), ["pre a", "pre b", "post a", "post b"]);
    assert_eq!(ObjectStore::keys(store.as_ref(), "").await.unwrap(), Vec::<String>::new());
}

#[rstest]
#[case::goes_on("Continue", true)]
#[case::keeps_the_pod_out("Fail", false)]
#[tokio::test]
async fn a_hook_that_hangs_ends_at_its_timeout_and_is_followed_by_its_post_hook(
    #[case] on_error: &str,
    #[case] taken: bool,
) {
    let world = shop();
    world.pod("shop", "a", &[], true);
    let annotations = json!({"pre.hook.backup.velero.io/timeout": "50ms",
        "pre.hook.backup.velero.io/on-error": on_error});
    world.change("/api/v1/namespaces/shop/pods/a", &json!({"metadata": {"annotations": annotations}}));
    world.hang("pre a");
    let (outcome, names) = pass(&world, json!({})).await;
    assert_eq!(world.ran(), ["pre a", "post a"]);
    assert_eq!(names.contains(&"pods/namespaces/shop/a".to_owned()), taken);
    assert_eq!((outcome.counts.hooks_attempted, outcome.counts.hooks_failed), (2, 1));
    let message = &outcome.results.errors.namespaces["shop"][0];
    assert!(message.contains("did not end within"), "{message}");
}

/// A cluster whose archive has several parts.
fn large() -> World {
    let world = shop();
    let mut number = 1_u64;
    for at in 0..40 {
        let mut text = String::new();
        while text.len() < 20_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text += &number.to_string();
        }
        world.add("configmaps", "shop", &format!("large-{at}"), json!({"data": {"text": text}}));
    }
    world.pod("shop", "a", &[], true);
    world
}

fn faulty(faults: Faults, memory: &Arc<Memory>) -> Arc<dyn ObjectStore> {
    let retry = RetryPolicy { attempts: 2, first_pause: Duration::from_millis(1), ..RetryPolicy::default() };
    let tuning = Tuning { part_size: 64 * 1024, retry, ..Tuning::default() };
    Arc::new(Store::new(Arc::new(Layered::new(faults, memory.clone())), "", tuning).unwrap())
}

#[rstest]
#[case::full(Fault::Deny)]
#[case::gone(Fault::Before)]
#[tokio::test]
async fn a_bucket_that_fails_half_way_fails_the_backup_and_keeps_no_parts(#[case] fault: Fault) {
    let memory = Arc::new(Memory::new());
    let rule = Rule { kind: RequestKind::UploadPart, first: 3, times: u64::MAX, fault };
    let store = faulty(Faults::new([rule]), &memory);
    let world = large();
    let ended = ended(input(&world, json!({}), store.clone(), CancellationToken::new()).await).await;
    let Err(PassError::Failed(failure)) = ended else { panic!("it did not fail") };
    let message = failure.message();
    assert!(message.contains("the archive cannot be written"), "{message}");
    assert_eq!(memory.open_uploads(), 0);
    assert_eq!(store.keys("").await.unwrap(), Vec::<String>::new());
    assert_eq!(world.ran(), ["pre a", "post a"]);
}

#[tokio::test]
async fn a_pass_whose_storage_hangs_can_be_cancelled_and_keeps_no_parts() {
    let memory = Arc::new(Memory::new());
    let rule = Rule { kind: RequestKind::UploadPart, first: 2, times: u64::MAX, fault: Fault::Hang };
    let faults = Faults::new([rule]);
    let store = faulty(faults.clone(), &memory);
    let stop = CancellationToken::new();
    let run = ended(input(&large(), json!({}), store.clone(), stop.clone()).await);
    let cancel = async {
        while faults.count(RequestKind::UploadPart) < 2 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(run, cancel);
    assert!(matches!(ended, Err(PassError::Stopped)));
    // The upload is aborted in the background after it was dropped.
    while memory.open_uploads() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.keys("").await.unwrap(), Vec::<String>::new());
}

#[rstest]
#[case::busy(429)]
#[case::problem(500)]
#[case::restarting(503)]
#[tokio::test]
async fn an_api_server_that_stumbles_now_and_then_loses_nothing(#[case] code: u16) {
    let world = shop();
    for at in 0..7 {
        world.add("configmaps", "shop", &format!("c{at}"), json!({}));
        world.pod("shop", &format!("p{at}"), &[], false);
    }
    for path in ["/api/v1/configmaps", "/api/v1/pods", "/api/v1/namespaces"] {
        for nth in [1, 3, 4] {
            world.break_request(path, nth, code);
        }
    }
    let (outcome, names) = pass(&world, json!({})).await;
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (0, 0), "{:?}", outcome.results);
    assert_eq!(names.iter().filter(|name| name.starts_with("configmaps/")).count(), 9);
    assert_eq!(names.iter().filter(|name| name.starts_with("pods/")).count(), 7);
    assert_eq!(names.iter().filter(|name| name.starts_with("namespaces/")).count(), 2);
}

#[tokio::test]
async fn a_list_that_is_forgotten_half_way_is_begun_again_without_doubles() {
    let world = shop();
    for at in 0..7 {
        world.add("configmaps", "shop", &format!("c{at}"), json!({}));
        world.pod("shop", &format!("p{at}"), &[], false);
    }
    world.break_request("/api/v1/configmaps", 3, 410);
    world.break_request("/api/v1/pods", 2, 410);
    let (outcome, mut names) = pass(&world, json!({})).await;
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (0, 0), "{:?}", outcome.results);
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), outcome.counts.items), (count, count));
    assert_eq!(names.iter().filter(|name| name.starts_with("configmaps/")).count(), 9);
    assert_eq!(names.iter().filter(|name| name.starts_with("pods/")).count(), 7);
}

/// A backup without the objects of a whole group must not be called Completed.
#[rstest]
#[case::its_server_is_down("False", 503)]
#[case::its_server_is_well("True", 503)]
#[case::its_server_has_forgotten_the_type("True", 404)]
#[tokio::test]
async fn a_group_whose_own_server_does_not_list_it_is_an_error(#[case] available: &str, #[case] code: u16) {
    let world = shop();
    world.add(
        "apiservices",
        "",
        "v1.example.com",
        json!({"spec": {"service": {"name": "s", "namespace": "n"}},
            "status": {"conditions": [{"type": "Available", "status": available}]}}),
    );
    world.break_list("/apis/example.com/v1/widgets", code);
    let (outcome, names) = pass(&world, json!({})).await;
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (1, 0), "{:?}", outcome.results);
    place(&names, "configmaps/namespaces/shop/settings");
}

#[tokio::test]
async fn a_type_that_disappears_between_two_pages_keeps_what_was_read_and_is_a_warning() {
    let world = shop();
    for at in 0..5 {
        world.add("widgets", "shop", &format!("w{at}"), json!({}));
    }
    world.break_request("/apis/example.com/v1/widgets", 2, 404);
    let (outcome, names) = pass(&world, json!({})).await;
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (0, 1), "{:?}", outcome.results);
    assert_eq!(names.iter().filter(|name| name.starts_with("widgets")).count(), 2);
}

#[tokio::test]
async fn an_object_of_more_than_a_megabyte_is_taken_whole() {
    let world = shop();
    let text = "x".repeat(1_400_000);
    world.add("configmaps", "shop", "large", json!({"data": {"text": text}}));
    world.add("secrets", "shop", "large", json!({"data": {"text": text}}));
    let store: Arc<dyn ObjectStore> = Arc::new(Store::memory());
    let spec = json!({"orderedResources": {"secrets": "shop/large"}});
    run(input(&world, spec, store.clone(), CancellationToken::new()).await).await.unwrap();
    for path in ["configmaps/namespaces/shop/large", "secrets/namespaces/shop/large"] {
        let object = crate::backup::world::archived_object(store.as_ref(), ARCHIVE, path).await.unwrap();
        assert_eq!(object["data"]["text"].as_str().map(str::len), Some(1_400_000));
    }
}

#[tokio::test]
async fn bindings_that_the_server_may_not_read_are_a_warning() {
    let world = shop();
    world.add("serviceaccounts", "shop", "web", json!({}));
    world.break_list("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", 403);
    let (outcome, names) = pass(&world, json!({"includedNamespaces": ["shop"]})).await;
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (0, 1), "{:?}", outcome.results);
    place(&names, "serviceaccounts/namespaces/shop/web");
}

#[tokio::test]
async fn a_server_with_few_rights_lists_its_namespaces_one_by_one() {
    let world = shop();
    world.pod("shop", "a", &[], false);
    for path in ["/api/v1/configmaps", "/api/v1/pods", "/api/v1/namespaces/blog/configmaps"] {
        world.break_list(path, 403);
    }
    let (outcome, names) = pass(&world, json!({})).await;
    place(&names, "configmaps/namespaces/shop/settings");
    place(&names, "pods/namespaces/shop/a");
    assert!(!names.contains(&"configmaps/namespaces/blog/other".to_owned()));
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (1, 0), "{:?}", outcome.results);
    assert!(outcome.results.errors.namespaces.contains_key("blog"));
}
