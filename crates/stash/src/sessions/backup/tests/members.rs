//! Members of a batch: their order, hooks of hosts and of the whole batch.

use lifeboat_transfer::attempts::testing::fails;
use rstest::rstest;

use super::*;

/// The Deployments whose movers were sent, in their order.
fn sent(shop: &Shop) -> Vec<String> {
    let requests = locked(&shop.movers.requests);
    let host = |request: &lifeboat_transfer::movers::MoverRequest| match &request.task.parts[0].work {
        lifeboat_mover::task::TaskWork::Backup(work) => work.host.clone(),
        other => format!("{other:?}"),
    };
    requests.iter().map(host).collect()
}

async fn batch(changes: &Value) -> Shop {
    let shop = Shop::new().await;
    shop.put_deployment("db");
    shop.put_batch("all", &["db", "web"], changes);
    shop.put_session("s", "BackupBatch", "all");
    shop
}

#[rstest]
#[case::maintain_order(json!({"maintainOrder": true}))]
#[case::sequential(json!({"executionOrder": "Sequential"}))]
#[tokio::test]
async fn in_order_a_member_begins_when_the_one_before_has_ended_well_or_not(#[case] changes: Value) {
    let shop = batch(&changes).await;
    shop.movers.will(fails("the disk is broken"));
    let session = shop.run("s").await;
    assert_eq!(sent(&shop), ["db", "web"]);
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(session["status"]["targets"][0]["phase"], "Failed");
    assert_eq!(session["status"]["targets"][1]["phase"], "Succeeded");
}

#[tokio::test]
async fn members_without_order_are_all_backed_up() {
    let shop = batch(&json!({})).await;
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let mut hosts = sent(&shop);
    hosts.sort();
    assert_eq!(hosts, ["db", "web"]);
}

fn exec(command: &str) -> Value {
    json!({"exec": {"command": [command]}})
}

#[rstest]
#[case::always("Always", "quiesce", &["quiesce", "release"], "Succeeded")]
#[case::on_success("OnSuccess", "quiesce", &["quiesce", "release"], "Succeeded")]
#[case::on_failure_of_nothing("OnFailure", "quiesce", &["quiesce"], "Succeeded")]
#[case::a_failed_hook_is_followed_by_its_counterpart("Always", "fail", &["fail", "release"], "Failed")]
#[case::a_failed_hook_and_success_only("OnSuccess", "fail", &["fail"], "Failed")]
#[tokio::test]
async fn hooks_run_in_the_pod_that_is_read_by_their_policy(
    #[case] policy: &str,
    #[case] pre: &str,
    #[case] expected: &[&str],
    #[case] end: &str,
) {
    let shop = Shop::new().await;
    let mut post = exec("release");
    post["executionPolicy"] = json!(policy);
    shop.put_configuration("nightly", &json!({"hooks": {"preBackup": exec(pre), "postBackup": post}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    let expected: Vec<String> = expected.iter().map(|command| format!("web-1: {command}")).collect();
    assert_eq!(shop.commands(), expected);
    assert_eq!(phase(&session), end, "{session}");
    assert_eq!(sent(&shop).is_empty(), pre == "fail", "no mover is sent after a hook that failed");
    let consistency = if pre == "fail" { Value::Null } else { json!("Quiesced") };
    assert_eq!(host(&session, 0)["consistency"], consistency);
}

#[tokio::test]
async fn if_the_hook_before_a_batch_fails_no_member_runs_and_the_hook_after_it_does_by_its_policy() {
    // This server has no image for movers, so every call fails.
    let call = json!({"tcpSocket": {"host": "quiescer.example", "port": 80}});
    for (policy, post_ran) in [("Always", true), ("OnFailure", true), ("OnSuccess", false)] {
        let mut post = call.clone();
        post["executionPolicy"] = json!(policy);
        let shop = batch(&json!({"hooks": {"preBackup": call, "postBackup": post}})).await;
        let session = shop.run("s").await;
        assert_eq!(phase(&session), "Failed", "{session}");
        let (status, message) = condition(&session, "GlobalPreBackupHookSucceeded");
        assert!(status == "False" && message.contains("image"), "{session}");
        assert_eq!(sent(&shop), Vec::<String>::new());
        assert_eq!(
            condition(&session, "GlobalPostBackupHookSucceeded").0 == "False",
            post_ran,
            "{policy}: {session}"
        );
    }
}

/// The hook after a batch ends what the one before it began: where that one did not begin, nothing is ended.
#[tokio::test]
async fn a_batch_that_is_given_up_before_it_begins_runs_no_hook() {
    let call = json!({"tcpSocket": {"host": "quiescer.example", "port": 80}});
    let shop = batch(&json!({"hooks": {"preBackup": call, "postBackup": call}})).await;
    let (session, record) = shop.parts("s");
    let cancel = CancellationToken::new();
    cancel.cancel();
    Box::pin(advance(&shop.world.context, &session, &record, &cancel)).await.unwrap();
    let session = shop.object("s");
    assert_eq!(phase(&session), "Failed", "{session}");
    for kind in ["GlobalPreBackupHookSucceeded", "GlobalPostBackupHookSucceeded"] {
        assert_eq!(condition(&session, kind).0, "", "{session}");
    }
    for member in [0, 1] {
        assert!(session["status"]["targets"][member].to_string().contains("had not begun"), "{session}");
    }
    assert_eq!(sent(&shop), Vec::<String>::new());
}
