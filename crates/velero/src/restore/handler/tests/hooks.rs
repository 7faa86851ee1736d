//! Commands in restored pods.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lifeboat_cluster::testing::failure;
use serde_json::json;

use super::shop;
use super::world::World;

#[tokio::test]
async fn hooks_run_when_their_container_is_up() {
    let mut world = World::new(shop());
    world.spec = json!({"hooks": {"resources": [{"name": "h", "postHooks": [
        {"exec": {"command": ["first"]}}, {"exec": {"command": ["false"], "onError": "Fail"}}, {"exec": {"command": ["never"]}}]}]}});
    let looks = AtomicUsize::new(0);
    world.rule = Box::new(move |asked, api| {
        let pod = "/api/v1/namespaces/shop/pods/web-1";
        if asked.method == "GET" && asked.path == pod && looks.fetch_add(1, Ordering::Relaxed) == 2 {
            let status = json!({"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]});
            api.server.change(pod, &json!({"status": status}));
        }
        None
    });
    let (ended, api) = world.restore().await;
    assert_eq!(*api.commands.lock().unwrap(), ["shop/web-1 main: first", "shop/web-1 main: false"]);
    assert_eq!((ended.hooks.attempted, ended.hooks.failed), (3, 2));
    assert_eq!(ended.results.errors.count(), 2, "{:?}", ended.results);
    let pod = api.object("/api/v1/namespaces/shop/pods/web-1").unwrap();
    assert_eq!(pod["metadata"]["annotations"]["lifeboat.io/restore-hooks"], "ru:done");
}

#[tokio::test]
async fn a_restore_that_is_cancelled_while_a_hook_hangs_ends_soon() {
    let mut world = World::new(shop());
    world.spec =
        json!({"hooks": {"resources": [{"name": "h", "postHooks": [{"exec": {"command": ["hang"]}}]}]}});
    world.times.hooks = Duration::from_hours(4);
    let cancel = world.cancel.clone();
    let hung = Arc::new(AtomicUsize::new(0));
    world.rule = Box::new(move |asked, api| {
        let pod = "/api/v1/namespaces/shop/pods/web-1";
        if asked.method == "GET" && asked.path == pod {
            let status = json!({"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]});
            api.server.change(pod, &json!({"status": status}));
        }
        // The note that the hook has begun is the last that is written before it hangs.
        if asked.method == "PATCH" && asked.path == pod && hung.fetch_add(1, Ordering::Relaxed) == 0 {
            let cancel = cancel.clone();
            tokio::spawn(async move { cancel.cancel() });
        }
        None
    });
    let (ended, api) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    assert_eq!(ended.hooks.attempted, 1);
    let pod = api.object("/api/v1/namespaces/shop/pods/web-1").unwrap();
    assert_eq!(pod["metadata"]["annotations"]["lifeboat.io/restore-hooks"], "ru:begun");
}

#[tokio::test]
async fn a_hook_whose_begin_cannot_be_noted_is_not_run() {
    let mut world = World::new(shop());
    world.spec =
        json!({"hooks": {"resources": [{"name": "h", "postHooks": [{"exec": {"command": ["first"]}}]}]}});
    world.rule = Box::new(move |asked, api| {
        let pod = "/api/v1/namespaces/shop/pods/web-1";
        if asked.method == "GET" && asked.path == pod {
            let status = json!({"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]});
            api.server.change(pod, &json!({"status": status}));
        }
        (asked.method == "PATCH" && asked.path == pod).then(|| failure(403, "not for you"))
    });
    let (ended, api) = world.restore().await;
    assert!(api.commands.lock().unwrap().is_empty());
    assert_eq!((ended.hooks.attempted, ended.hooks.failed), (1, 1));
    let message = &ended.results.errors.namespaces["shop"][0];
    assert!(message.contains("not executed") && message.contains("not for you"), "{message}");
}
