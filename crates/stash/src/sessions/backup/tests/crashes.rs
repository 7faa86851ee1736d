//! A server that ends at any point: the next one brings the session to the same end.

use std::sync::atomic::AtomicUsize;

use tokio::sync::Notify;

use super::*;

/// What a session ends with, without times.
fn end(session: &Value) -> Value {
    let mut end = session["status"].clone();
    end["sessionDuration"] = Value::Null;
    for target in end["targets"].as_array_mut().into_iter().flatten() {
        for host in target["stats"].as_array_mut().into_iter().flatten() {
            host["duration"] = Value::Null;
            host["startTime"] = Value::Null;
        }
        target["conditions"] = kinds(&target["conditions"]);
    }
    end["conditions"] = kinds(&end["conditions"]);
    end
}

fn kinds(conditions: &Value) -> Value {
    let kind = |condition: &Value| format!("{}={}", condition["type"], condition["status"]);
    conditions.as_array().into_iter().flatten().map(kind).collect()
}

/// A session with hooks, on a cluster of its own.
async fn shop() -> Shop {
    let shop = Shop::new().await;
    let hooks = json!({"preBackup": {"exec": {"command": ["quiesce"]}}, "postBackup": {"exec": {"command": ["release"]}}});
    shop.put_configuration("nightly", &json!({"hooks": hooks}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop
}

#[tokio::test]
async fn a_session_comes_to_the_same_end_wherever_its_server_died() {
    let expected = {
        let shop = shop().await;
        end(&shop.run("s").await)
    };
    for number in 1.. {
        let shop = shop().await;
        let (written, dies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (count, wake) = (written.clone(), dies.clone());
        shop.world.server.on_write(move |_, _| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == number {
                wake.notify_one();
            }
        });
        let died = tokio::select! {
            biased;
            () = dies.notified() => true,
            ran = shop.advance("s") => {
                assert!(matches!(ran, Ok(Advance::Ended)), "after {number} writes");
                false
            }
        };
        let last =
            if phase(&shop.object("s")) == "Succeeded" { shop.object("s") } else { shop.run("s").await };
        assert_eq!(end(&last), expected, "the server died after write {number}");
        let commands = shop.commands();
        assert_eq!(commands.last().map(String::as_str), Some("web-1: release"), "{commands:?}");
        if !died && written.load(Ordering::Relaxed) < number {
            assert!(number > 5, "only {number} writes");
            return;
        }
    }
}

#[tokio::test]
async fn a_host_whose_mover_is_left_to_the_next_leader_has_not_ended() {
    let shop = shop().await;
    shop.movers.well.store(false, Ordering::Relaxed);
    assert!(matches!(shop.advance("s").await, Err(Stopped::Left)));
    let session = shop.object("s");
    assert_eq!(phase(&session), "Running", "{session}");
    assert_eq!(host(&session, 0)["phase"], "Running", "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce"], "the pod is still read");
    shop.movers.well.store(true, Ordering::Relaxed);
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce", "web-1: release"]);
}

#[tokio::test]
async fn the_pod_of_a_session_that_is_deleted_is_released() {
    let shop = shop().await;
    let server = shop.world.server.clone();
    shop.movers.meanwhile(move || {
        server.remove(&format!("{STASH}/backupsessions/s"));
    });
    assert!(matches!(shop.advance("s").await, Err(Stopped::Gone)));
    assert_eq!(shop.commands(), ["web-1: quiesce", "web-1: release"]);
}

/// What becomes of a session that was deleted, and whose object another finalizer holds; gives it as it is then.
async fn deleted(shop: &Shop) -> Value {
    let path = format!("{STASH}/backupsessions/s");
    shop.world.server.edit(&path, |session| {
        session["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        session["metadata"]["finalizers"] = json!(["example.org/keep"]);
    });
    let resource = objects::resource_of::<BackupSession>();
    let sessions = LongWork::new(&shop.world.context.core.metrics, "backupsession");
    let state = Arc::new(State { resource, sessions });
    let object: DynamicObject = serde_json::from_value(shop.object("s")).unwrap();
    Box::pin(reconcile(Arc::new(object), shop.world.context.clone(), state.clone())).await.unwrap();
    state.sessions.ended().await;
    shop.object("s")
}

#[tokio::test]
async fn the_movers_of_a_deleted_session_are_ended_whoever_holds_its_object() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    assert_eq!(phase(&deleted(&shop).await), "", "it does not begin");
    shop.world.server.remove(&format!("{STASH}/backupsessions/s"));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.movers.well.store(false, Ordering::Relaxed);
    assert!(matches!(shop.advance("s").await, Err(Stopped::Left)));
    shop.movers.well.store(true, Ordering::Relaxed);
    let session = deleted(&shop).await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(host(&session, 0)["error"].as_str().unwrap_or_default().contains("cancelled"), "{session}");
}
