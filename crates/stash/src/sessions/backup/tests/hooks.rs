//! Hooks of hosts after a crash: what the hook before a host began is ended by the one after it, in the same pod and in no other.

use rstest::rstest;

use super::*;
use crate::sessions::finalizer;
use crate::testing::{Killer, Moment};

const POD: &str = "/api/v1/namespaces/shop/pods/web-1";
const SESSION: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop/backupsessions/s";

pub(super) fn hooks() -> Value {
    json!({"hooks": {
        "preBackup": {"exec": {"command": ["quiesce"]}},
        "postBackup": {"exec": {"command": ["release"]}},
    }})
}

/// A session whose server died while its mover read the quiesced pod.
pub(super) async fn interrupted(changes: &Value) -> Shop {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", changes);
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.movers.well.store(false, Ordering::Relaxed);
    assert!(matches!(shop.advance("s").await, Err(Stopped::Left)));
    shop.movers.well.store(true, Ordering::Relaxed);
    shop
}

/// Status and message of a condition of the first member.
fn of_member(session: &Value, kind: &str) -> (String, String) {
    condition(&json!({"status": session["status"]["targets"][0]}), kind)
}

#[tokio::test]
async fn the_pod_of_the_hook_is_on_record_before_it_runs() {
    let shop = interrupted(&hooks()).await;
    let session = shop.object("s");
    assert_eq!(host(&session, 0)["hookPod"], json!({"namespace": "shop", "name": "web-1", "uid": "p-web"}));
    assert_eq!(session["metadata"]["finalizers"], json!(["lifeboat.io/hooks"]));
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(of_member(&session, "PreBackupHookExecutionSucceeded").0, "True");
    assert_eq!(of_member(&session, "PostBackupHookExecutionSucceeded").0, "True");
}

/// The pod is not Ready any more; the hook before the host may be the reason.
fn unready(shop: &Shop) {
    shop.world.server.change(POD, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
}

/// The mover was started while the pod was Ready, and is running or has ended when the next server starts.
#[rstest]
#[case::no_pod_is_ready(false)]
#[case::another_pod_is_ready(true)]
#[tokio::test]
async fn a_mover_that_was_sent_is_adopted_although_its_pod_is_not_ready_any_more(
    #[case] another: bool,
    #[values(true, false)] with_hooks: bool,
) {
    let shop = interrupted(&if with_hooks { hooks() } else { json!({}) }).await;
    unready(&shop);
    if another {
        shop.put_pod("web-2", "p-2", "web");
    }
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(host(&session, 0)["pod"], "web-1", "{session}");
    let expected: &[&str] = if with_hooks { &["web-1: quiesce", "web-1: release"] } else { &[] };
    assert_eq!(shop.commands(), expected, "{session}");
    let requests = locked(&shop.movers.requests);
    let tasks: Vec<&str> = requests.iter().map(|request| request.task.uid.as_str()).collect();
    assert!(tasks.len() == 2 && tasks[0] == tasks[1], "{tasks:?}");
}

#[tokio::test]
async fn a_mover_that_was_sent_is_adopted_although_its_pod_is_gone() {
    let shop = interrupted(&json!({})).await;
    shop.world.server.remove(POD);
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(host(&session, 0)["pod"], "web-1", "{session}");
}

/// The server died after the hook before the host and before a mover was started.
#[tokio::test]
async fn no_mover_is_sent_for_a_pod_that_is_not_ready() {
    let shop = interrupted(&hooks()).await;
    shop.world.server.edit(SESSION, |session| {
        session["status"]["targets"][0]["stats"][0]["attempt"] = Value::Null;
    });
    unready(&shop);
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(host(&session, 0)["error"].as_str().unwrap_or_default().contains("no Ready pod"), "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce", "web-1: release"], "{session}");
    assert_eq!(locked(&shop.movers.requests).len(), 1);
}

/// The Deployment of the quiesced pod was deleted, or its data cannot be read any more.
#[rstest]
#[case::the_deployment_is_gone(|shop: &Shop| {
    shop.world.server.remove("/apis/apps/v1/namespaces/shop/deployments/web");
})]
#[case::the_volume_is_renamed(|shop: &Shop| {
    shop.world.server.edit("/apis/stash.appscode.com/v1beta1/namespaces/shop/backupconfigurations/nightly", |found| {
        found["spec"]["target"]["volumeMounts"][0]["name"] = json!("other");
    });
})]
#[case::the_repository_cannot_be_opened(|shop: &Shop| {
    shop.world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    shop.movers.will(lifeboat_transfer::attempts::testing::fails("the repository cannot be opened"));
})]
#[tokio::test]
async fn the_hook_after_a_host_runs_in_the_pod_of_the_one_before(#[case] meanwhile: fn(&Shop)) {
    let shop = interrupted(&hooks()).await;
    meanwhile(&shop);
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce", "web-1: release"], "{session}");
    assert_eq!(host(&session, 0)["postHook"], "Succeeded", "{session}");
}

#[tokio::test]
async fn a_pod_that_is_gone_is_named_and_no_other_one_gets_its_hook() {
    let shop = interrupted(&hooks()).await;
    shop.world.server.remove(POD);
    // Another one of its name.
    shop.put_pod("web-1", "p-2", "web");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce"], "the new pod was not quiesced");
    let (status, message) = of_member(&session, "PostBackupHookExecutionSucceeded");
    assert_eq!(status, "False");
    assert!(message.contains("pod shop/web-1") && message.contains("is gone"), "{message}");
    assert!(host(&session, 0)["error"].as_str().unwrap_or_default().contains("was replaced"), "{session}");
}

/// A hook that did not begin again is not lost either: the pod may be replaced between `Started` and its end.
#[tokio::test]
async fn a_hook_that_began_in_a_pod_that_is_gone_is_not_begun_in_another() {
    let shop = interrupted(&hooks()).await;
    shop.world.server.edit(SESSION, |session| {
        session["status"]["targets"][0]["stats"][0]["preHook"] = json!("Started");
    });
    shop.world.server.remove(POD);
    shop.put_pod("web-2", "p-2", "web");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce"]);
    assert_eq!(of_member(&session, "PreBackupHookExecutionSucceeded").0, "False");
}

/// The only hook is the one after the host: it is owed from the begin of its host on.
#[tokio::test]
async fn a_hook_without_one_before_it_runs_after_a_crash() {
    let alone = json!({"hooks": {"postBackup": {"exec": {"command": ["notify"]}}}});
    for post in [Value::Null, json!("Started")] {
        let shop = interrupted(&alone).await;
        // Its server died after the host had ended.
        shop.world.server.edit(SESSION, |session| {
            let host = &mut session["status"]["targets"][0]["stats"][0];
            host["phase"] = json!("Succeeded");
            host["snapshots"] = json!([{"name": "abc", "path": "/data"}]);
            host["postHook"] = post.clone();
        });
        let session = shop.run("s").await;
        assert_eq!(phase(&session), "Succeeded", "{session}");
        assert_eq!(shop.commands(), ["web-1: notify"], "{session}");
        assert_eq!(host(&session, 0)["postHook"], "Succeeded");
    }
}

#[tokio::test]
async fn a_session_that_was_deleted_without_a_server_runs_its_hook_and_goes() {
    let shop = interrupted(&hooks()).await;
    let core = &shop.world.context.core;
    let api: kube::Api<DynamicObject> =
        objects::namespaced(&core.client, SHOP, &objects::resource_of::<BackupSession>());
    api.delete("s", &kube::api::DeleteParams::default()).await.unwrap();
    assert!(shop.object("s")["metadata"]["deletionTimestamp"].is_string(), "it is held");
    let (session, record) = shop.parts("s");
    let cancel = CancellationToken::new();
    cancel.cancel();
    Box::pin(advance(&shop.world.context, &session, &record, &cancel)).await.unwrap();
    assert_eq!(shop.commands(), ["web-1: quiesce", "web-1: release"]);
    finalizer::release(core, SessionKind::Backup, &record).await.unwrap();
    assert_eq!(shop.object("s"), Value::Null);
}

#[tokio::test]
async fn a_hook_that_nobody_knows_any_more_is_named() {
    let shop = interrupted(&hooks()).await;
    shop.world.server.remove("/apis/stash.appscode.com/v1beta1/namespaces/shop/backupconfigurations/nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    let (status, message) = of_member(&session, "PostBackupHookExecutionSucceeded");
    assert!(status == "False" && message.contains("the hook after host app is not known"), "{session}");
}

/// A session with hooks, whose mover ends well or not, killed at every write: the pod that was quiesced is released, whatever the end.
#[rstest]
#[tokio::test]
async fn each_hook_that_began_is_ended_wherever_the_server_is_killed(
    #[values(Moment::Before, Moment::After)] moment: Moment,
    #[values(true, false)] well: bool,
) {
    let shop = Shop::new().await;
    let killer = Killer::on(&shop.world.server);
    for nth in 1.. {
        let (name, before) = (format!("s{nth}"), shop.commands().len());
        let mut changes = hooks();
        changes["target"] = json!({"alias": name});
        shop.put_configuration(&name, &changes);
        shop.put_session(&name, "BackupConfiguration", &name);
        if !well {
            shop.movers.will(lifeboat_transfer::attempts::testing::fails("the disk is broken"));
        }
        let died = killer.kill_at(nth, moment, shop.advance(&name)).await.is_none();
        let mut tries = 0;
        while !matches!(phase(&shop.object(&name)), "Succeeded" | "Failed") {
            tries += 1;
            assert!(tries < 5, "no end, killed at write {nth}: {}", shop.object(&name));
            match shop.advance(&name).await {
                Ok(Advance::Ended | Advance::Waits) | Err(Stopped::Api(_)) => {}
                Err(stopped) => panic!("killed at write {nth}: {stopped:?}"),
            }
        }
        let (session, commands) = (shop.object(&name), shop.commands().split_off(before));
        let host = host(&session, 0);
        let context = format!("killed at write {nth}: {commands:?} {session}");
        assert_eq!(commands.first().map(String::as_str), Some("web-1: quiesce"), "{context}");
        assert_eq!(commands.last().map(String::as_str), Some("web-1: release"), "{context}");
        assert_eq!(
            (&host["preHook"], &host["postHook"]),
            (&json!("Succeeded"), &json!("Succeeded")),
            "{context}"
        );
        assert!(!well || phase(&session) == "Succeeded", "{context}");
        if !died {
            assert!(nth > 8, "only {nth} writes");
            return;
        }
    }
}
