//! One target has one session at work: others wait or are skipped, and say why.

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
async fn a_session_that_waits_longer_than_its_time_out_fails() {
    let shop = two_sessions().await;
    let path = format!("{STASH}/backupconfigurations/two");
    shop.world.server.change(&path, &json!({"spec": {"timeOut": "1s"}}));
    let second = shop.run("second").await;
    assert_eq!(phase(&second), "Failed", "{second}");
    assert!(condition(&second, "DeadlineExceeded").1.contains("shop/first"), "{second}");
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
        annotations.iter().map(|name| ((*name).to_owned(), json!("2026-01-01T00:00:00Z"))).collect();
    shop.world.server.put(
        &format!("{STASH}/restoresessions/back"),
        json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession", "metadata": {"annotations": annotations},
            "spec": {"repository": {"name": "r"}, "target": {"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}},
            "status": {"phase": restore, "totalHosts": 1, "stats": [{"hostname": "app", "phase": restore, "startTime": "2026-01-01T00:00:00Z"}]}}),
    );
    let session = shop.run("s").await;
    assert_eq!(phase(&session), expected, "{session}");
    assert!(condition(&session, "BackupSkipped").1.contains(text), "{session}");
}
