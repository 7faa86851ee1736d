//! Requests that fail for ever, or are refused, do not keep a session from ending. The clock is paused: it jumps over pauses.

use lifeboat_cluster::testing::failure;
use lifeboat_control::testing::{Requests, Verb, When};
use rstest::rstest;

use super::hooks::{hooks, interrupted};
use super::*;

const POD: &str = "/api/v1/namespaces/shop/pods/web-1";
const SESSION: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop/backupsessions/s";

/// A policy refuses to change Lifeboat's ConfigMaps.
fn refuse_reservations(shop: &Shop) {
    shop.world.server.answer(|_, asked| {
        let is_record = asked.method != "GET" && asked.path.contains("/namespaces/lifeboat/configmaps");
        is_record.then(|| failure(403, "admission webhook \"policy.example\" denied the request"))
    });
}

/// The session is worked on as the controller does it, until it has ended.
async fn last(shop: &Shop) {
    let (session, record) = shop.parts("s");
    let resource = objects::resource_of::<BackupSession>();
    let backup = LastingBackup { context: shop.world.context.clone(), resource, session };
    until_ended(&backup, record, &CancellationToken::new()).await;
}

#[rstest]
#[case::by_the_first_server(None)]
#[case::by_a_server_that_follows(Some("2026-01-01T00:00:00Z"))]
#[tokio::test]
async fn a_pod_that_can_never_be_read_fails_the_host_that_its_hook_quiesced(#[case] since: Option<&str>) {
    let shop = interrupted(&hooks()).await;
    if let Some(since) = since {
        let known = json!({"type": "Interrupted", "status": "True", "reason": "RequestsFail", "message": "m", "lastTransitionTime": since});
        shop.world.server.edit(SESSION, |session| {
            session["status"]["conditions"].as_array_mut().unwrap().push(known);
        });
    }
    let reads = Requests::new(Verb::Get, POD);
    shop.world.server.fail(reads.clone(), When::Always, 500);
    tokio::time::pause();
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    let host = host(&session, 0);
    let error = host["error"].as_str().unwrap_or_default();
    assert!(error.contains("cannot read Pod shop/web-1") && error.contains("is given up"), "{error}");
    assert_eq!(host["postHook"], "Failed", "{session}");
    if since.is_some() {
        assert!(shop.world.server.requests(&reads).len() < 12, "the time did not begin anew");
    }
}

#[tokio::test]
async fn reservations_that_a_policy_refuses_fail_the_session_and_the_next_one_succeeds() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let refuses = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let still = refuses.clone();
    shop.world.server.answer(move |_, asked| {
        let is_record = asked.method != "GET" && asked.path.contains("/namespaces/lifeboat/configmaps");
        (is_record && still.load(Ordering::Relaxed)).then(|| failure(422, "denied by policy.example"))
    });
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    let (status, message) = condition(&session, "BackendRepositoryInitialized");
    assert!(status == "False" && message.contains("policy.example"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty(), "no mover was sent");
    refuses.store(false, Ordering::Relaxed);
    shop.put_session("s2", "BackupConfiguration", "nightly");
    assert_eq!(phase(&shop.run("s2").await), "Succeeded");
}

#[tokio::test]
async fn a_session_that_had_begun_when_its_reservation_is_refused_ends_and_releases_its_pod() {
    let shop = interrupted(&hooks()).await;
    refuse_reservations(&shop);
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(shop.commands(), ["web-1: quiesce", "web-1: release"]);
    assert!(session["status"].to_string().contains("policy.example"), "{session}");
}

#[tokio::test]
async fn an_error_of_the_api_server_that_lasts_ends_the_session_with_its_cause() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.world.server.fail(Requests::new(Verb::List, "*/restorebatches"), When::Always, 500);
    tokio::time::pause();
    last(&shop).await;
    let session = shop.object("s");
    assert_eq!(phase(&session), "Failed", "{session}");
    let (status, message) = condition(&session, "Interrupted");
    assert!(status == "True" && message.contains("list objects RestoreBatch"), "{session}");
}

#[tokio::test]
async fn a_session_whose_status_is_refused_is_abandoned_and_ends_when_it_can_be_written() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let abandoned = shop.world.context.abandoned.clone();
    shop.world.server.answer(move |_, asked| {
        let is_refused = asked.method == "PUT"
            && asked.path == format!("{SESSION}/status")
            && !abandoned.has(Some("uid-s"));
        is_refused.then(|| failure(403, "denied by policy.example"))
    });
    tokio::time::pause();
    last(&shop).await;
    let session = shop.object("s");
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(condition(&session, "Interrupted").1.contains("policy.example"), "{session}");
    assert!(shop.world.server.events().contains(&"StatusNotWritten".to_owned()));
    assert!(locked(&shop.movers.requests).is_empty(), "nothing starts that is not on record");
    assert!(!shop.world.context.abandoned.has(Some("uid-s")));
}

#[tokio::test]
async fn another_session_starts_beside_one_that_is_abandoned() {
    let shop = interrupted(&json!({})).await;
    shop.put_session("next", "BackupConfiguration", "nightly");
    let session = shop.run("next").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
    shop.world.context.abandoned.add("uid-s");
    shop.put_session("after", "BackupConfiguration", "nightly");
    let session = shop.run("after").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
}
