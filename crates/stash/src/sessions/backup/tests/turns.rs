//! One target has one session at work: others wait or are skipped, and say why.

use lifeboat_plan::stash::in_place::{RestoreName, UNFINISHED, unfinished_annotation};
use rstest::rstest;

use super::*;

fn message_of_member(session: &Value) -> String {
    let conditions = session["status"]["targets"][0]["conditions"].as_array().cloned().unwrap_or_default();
    let found =
        conditions.into_iter().find(|condition| condition["type"] == "TargetInUse").unwrap_or_default();
    format!(
        "{} {}",
        found["status"].as_str().unwrap_or_default(),
        found["message"].as_str().unwrap_or_default()
    )
}

/// Two invokers of one target; `first` is the older session.
async fn two_sessions() -> Shop {
    let shop = Shop::new().await;
    shop.put_configuration("one", &json!({}));
    shop.put_configuration("two", &json!({"target": {"alias": "other"}}));
    for (name, invoker, second) in [("first", "one", 1), ("second", "two", 2)] {
        shop.put_session(name, "BackupConfiguration", invoker);
        let created = format!("2026-01-01T00:00:0{second}Z");
        let path = format!("{STASH}/backupsessions/{name}");
        shop.world.server.change(&path, &json!({"metadata": {"creationTimestamp": created}}));
    }
    shop
}

#[tokio::test]
async fn a_session_waits_for_an_older_one_on_its_target_and_says_for_which() {
    let shop = two_sessions().await;
    assert!(matches!(shop.advance("second").await, Ok(Advance::Waits)));
    let waiting = shop.object("second");
    assert_eq!(phase(&waiting), "Pending", "{waiting}");
    assert!(message_of_member(&waiting).contains("shop/first"), "{waiting}");
    assert_eq!(phase(&shop.run("first").await), "Succeeded");
    let second = shop.run("second").await;
    assert_eq!(phase(&second), "Succeeded", "{second}");
    assert!(!message_of_member(&second).contains("True"), "{second}");
}

#[tokio::test]
async fn a_session_that_is_skipped_while_it_waits_has_no_member_that_still_waits() {
    let shop = two_sessions().await;
    assert!(matches!(shop.advance("second").await, Ok(Advance::Waits)));
    assert!(shop.object("second")["status"]["message"].to_string().contains("shop/first"));
    let path = format!("{STASH}/backupconfigurations/two");
    shop.world.server.change(&path, &json!({"status": {"phase": "NotReady"}}));
    let second = shop.run("second").await;
    assert_eq!(phase(&second), "Skipped", "{second}");
    assert!(second["status"]["targets"].is_null() && !second.to_string().contains("TargetInUse"), "{second}");
    assert!(second["status"]["message"].to_string().contains("NotReady"), "{second}");
    assert_eq!(shop.world.server.events(), ["Skipped"]);
}

/// A member without target does not wait for one.
#[tokio::test]
async fn a_member_with_a_target_says_what_its_session_waits_for() {
    let shop = Shop::new().await;
    shop.put_batch("all", &["web"], &json!({}));
    shop.put_session("s", "BackupBatch", "all");
    let target = json!({"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    shop.world.server.change(
        &format!("{STASH}/backupsessions/s"),
        &json!({"status": {"phase": "Pending", "targets": [{}, target]}}),
    );
    let (session, record) = shop.parts("s");
    let id = InvokerId {
        kind: session.spec.invoker.kind.clone(),
        namespace: record.namespace.clone(),
        name: session.spec.invoker.name.clone(),
    };
    let invoker = Invoker::read(&shop.world.context, &id).await.unwrap().unwrap();
    let waits = wait(&shop.world.context, &invoker, &record, "waiting for another session").await;
    assert!(matches!(waits, Ok(Advance::Waits)));
    let session = shop.object("s");
    let of =
        |member: usize| condition(&json!({"status": session["status"]["targets"][member]}), "TargetInUse");
    assert_eq!((of(0).0.as_str(), of(1).0.as_str()), ("", "True"), "{session}");
}

#[tokio::test]
async fn a_session_that_waits_longer_than_its_time_out_fails() {
    let shop = two_sessions().await;
    let path = format!("{STASH}/backupconfigurations/two");
    shop.world.server.change(&path, &json!({"spec": {"timeOut": "1s"}}));
    let second = shop.run("second").await;
    assert_eq!(phase(&second), "Failed", "{second}");
    assert!(condition(&second, "DeadlineExceeded").1.contains("shop/first"), "{second}");
    assert_eq!(success(&shop, "two").as_deref(), Some("0"));
}

/// What the metric says of the last session of an invoker.
fn success(shop: &Shop, invoker: &str) -> Option<String> {
    let metrics = shop.world.context.core.metrics.render();
    let of = |line: &&str| {
        line.starts_with("stash_backup_session_success{") && line.contains(&format!("\"{invoker}\""))
    };
    metrics.lines().find(of).and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
}

#[tokio::test]
async fn a_session_whose_invoker_is_not_valid_any_more_is_no_success() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("good", "BackupConfiguration", "nightly");
    assert_eq!(phase(&shop.run("good").await), "Succeeded");
    assert_eq!(success(&shop, "nightly").as_deref(), Some("1"));
    shop.put_session("bad", "BackupConfiguration", "nightly");
    let path = format!("{STASH}/backupsessions/bad");
    shop.world.server.change(&path, &json!({"status": {"phase": "Running"}}));
    let path = format!("{STASH}/backupconfigurations/nightly");
    shop.world.server.change(&path, &json!({"spec": {"schedule": "never"}}));
    assert_eq!(phase(&shop.run("bad").await), "Failed");
    assert_eq!(success(&shop, "nightly").as_deref(), Some("0"));
}

#[tokio::test]
async fn a_second_session_of_one_invoker_is_skipped() {
    let shop = Shop::new().await;
    shop.put_configuration("one", &json!({}));
    for name in ["first", "second"] {
        shop.put_session(name, "BackupConfiguration", "one");
    }
    shop.world
        .server
        .change(&format!("{STASH}/backupsessions/first"), &json!({"status": {"phase": "Running"}}));
    let second = shop.run("second").await;
    assert_eq!(phase(&second), "Skipped");
    assert!(condition(&second, "BackupSkipped").1.contains("session first"), "{second}");
}

#[rstest]
#[case::not_ready("NotReady", "Skipped", "its invoker is NotReady")]
#[case::invalid("Invalid", "Skipped", "its invoker is Invalid")]
#[tokio::test]
async fn without_a_ready_invoker_a_session_is_skipped(
    #[case] of_invoker: &str,
    #[case] expected: &str,
    #[case] text: &str,
) {
    let shop = Shop::new().await;
    shop.put_configuration("one", &json!({}));
    let path = format!("{STASH}/backupconfigurations/one");
    shop.world.server.change(&path, &json!({"status": {"phase": of_invoker}}));
    shop.put_session("s", "BackupConfiguration", "one");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), expected);
    assert!(condition(&session, "BackupSkipped").1.contains(text), "{session}");
}

#[rstest]
#[case::at_work("Running", &[], "Skipped", "is restoring Deployment shop/web")]
#[case::failed("Failed", &[], "Skipped", "lifeboat stash resume")]
#[case::resumed("Failed", &["lifeboat.io/backups-resumed"], "Succeeded", "")]
#[case::succeeded("Succeeded", &[], "Succeeded", "")]
#[tokio::test]
async fn a_target_that_is_being_restored_or_was_badly_is_not_backed_up(
    #[case] restore: &str,
    #[case] annotations: &[&str],
    #[case] expected: &str,
    #[case] text: &str,
) {
    let shop = Shop::new().await;
    shop.put_configuration("one", &json!({}));
    shop.put_session("s", "BackupConfiguration", "one");
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|name| ((*name).to_owned(), json!("uid-back"))).collect();
    shop.world.server.put(
        &format!("{STASH}/restoresessions/back"),
        json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession", "metadata": {"annotations": annotations},
            "spec": {"repository": {"name": "r"}, "target": {"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}},
            "status": {"phase": restore, "totalHosts": 1, "stats": [{"hostname": "app", "phase": restore, "attempt": 1}]}}),
    );
    let session = shop.run("s").await;
    assert_eq!(phase(&session), expected, "{session}");
    assert!(condition(&session, "BackupSkipped").1.contains(text), "{session}");
}

const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/web";

/// The claim that Deployment `web` mounts, as a target of its own.
fn claim() -> Value {
    json!({
        "alias": "claim",
        "ref": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "web"},
        "paths": ["/data"],
        "volumeMounts": [{"name": "web", "mountPath": "/data"}],
    })
}

fn record(by: &str) -> Value {
    let restore = RestoreName {
        kind: "RestoreSession".into(),
        namespace: SHOP.into(),
        name: by.into(),
        uid: format!("uid-{by}"),
    };
    json!({"metadata": {"annotations": {UNFINISHED: unfinished_annotation(&restore)}}})
}

/// One reads the Deployment, the other the claim that it mounts: the older one goes first.
#[tokio::test]
async fn sessions_of_a_claim_and_of_the_workload_that_mounts_it_take_turns() {
    let shop = two_sessions().await;
    let path = format!("{STASH}/backupconfigurations/two");
    shop.world.server.change(&path, &json!({"spec": {"target": claim()}}));
    // The older one was looked at before.
    shop.world.server.change(
        &format!("{STASH}/backupsessions/first"),
        &json!({"status": {"phase": "Pending", "targets": [{"ref": target("web", "app")["ref"], "claims": ["web"]}]}}),
    );
    assert!(matches!(shop.advance("second").await, Ok(Advance::Waits)));
    let waiting = shop.object("second");
    assert_eq!(phase(&waiting), "Pending", "{waiting}");
    let message = message_of_member(&waiting);
    assert!(
        message.contains("shop/first") && message.contains("PersistentVolumeClaim shop/web"),
        "{waiting}"
    );
    assert_eq!(waiting["status"]["targets"][0]["claims"], json!(["web"]));
    shop.world
        .server
        .change(&format!("{STASH}/backupsessions/first"), &json!({"status": {"phase": "Failed"}}));
    assert_eq!(phase(&shop.run("second").await), "Succeeded");
}

/// The restore that failed is gone; what it wrote is not backed up, whichever target names it.
#[tokio::test]
async fn half_restored_data_is_not_backed_up_although_its_restore_was_deleted() {
    let shop = Shop::new().await;
    shop.put_configuration("one", &json!({}));
    shop.put_configuration("two", &json!({"target": claim()}));
    shop.world.server.change(CLAIM, &record("gone"));
    for (session, invoker) in [("a", "one"), ("b", "two")] {
        shop.put_session(session, "BackupConfiguration", invoker);
        let skipped = shop.run(session).await;
        assert_eq!(phase(&skipped), "Skipped", "{skipped}");
        let message = condition(&skipped, "BackupSkipped").1;
        assert!(message.contains("lifeboat stash resume restoresession/gone -n shop"), "{message}");
    }
    assert!(locked(&shop.movers.requests).is_empty());
    shop.world.server.change(CLAIM, &json!({"metadata": {"annotations": {UNFINISHED: null}}}));
    shop.put_session("c", "BackupConfiguration", "one");
    assert_eq!(phase(&shop.run("c").await), "Succeeded");
}

/// While a restore of the claim runs, its workload is not backed up.
#[tokio::test]
async fn a_restore_of_a_claim_keeps_backups_of_its_workload_waiting() {
    let shop = Shop::new().await;
    shop.put_configuration("one", &json!({}));
    shop.put_session("s", "BackupConfiguration", "one");
    shop.world.server.put(
        &format!("{STASH}/restoresessions/back"),
        json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession",
            "spec": {"repository": {"name": "r"}, "target": {"ref": {"kind": "PersistentVolumeClaim", "name": "web"}}},
            "status": {"phase": "Running", "totalHosts": 1, "stats": [{"hostname": "app", "phase": "Running"}]}}),
    );
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
    let message = condition(&session, "BackupSkipped").1;
    assert!(message.contains("is restoring PersistentVolumeClaim shop/web"), "{message}");
}
