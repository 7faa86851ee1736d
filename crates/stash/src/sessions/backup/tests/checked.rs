//! Sessions that may have been created while no admission policy checked who may.

use lifeboat_plan::install::policies::objects as policies;

use super::*;

#[tokio::test]
async fn a_session_waits_until_policies_check_it_its_invoker_and_its_repository() {
    for missing in ["backupsessions", "backupconfigurations", "repositories"] {
        let shop = Shop::new().await;
        shop.put_configuration("nightly", &json!({}));
        shop.put_session("s", "BackupConfiguration", "nightly");
        let all = policies("lifeboat");
        let is_missing = |policy: &&Value| policy["metadata"]["name"].as_str().unwrap().starts_with(missing);
        let others: Vec<Value> = all.iter().filter(|policy| !is_missing(policy)).cloned().collect();
        shop.world.context.policies.set("lifeboat", &others);
        assert!(matches!(shop.advance("s").await, Ok(Advance::Waits)), "{missing}");
        let session = shop.object("s");
        let (status, message) = condition(&session, "ValidationPassed");
        assert_eq!((phase(&session), status.as_str()), ("Pending", "Unknown"), "{session}");
        assert!(message.contains(missing) && message.contains("install --stash"), "{message}");
        assert!(locked(&shop.movers.requests).is_empty(), "no mover was sent");
        shop.world.context.policies.set("lifeboat", &all);
        let session = shop.run("s").await;
        assert_eq!(
            (phase(&session), condition(&session, "ValidationPassed").0.as_str()),
            ("Succeeded", "True"),
            "{session}"
        );
    }
}

#[tokio::test]
async fn a_session_that_nothing_checks_for_too_long_is_skipped() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let long_ago = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
    shop.world.server.change(&format!("{STASH}/backupsessions/s"), &long_ago);
    shop.world.context.policies.set("lifeboat", &[]);
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
    assert!(condition(&session, "BackupSkipped").1.contains("is missing"), "{session}");
}

#[tokio::test]
async fn a_session_that_has_begun_goes_on_without_policies() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.world.server.change(&format!("{STASH}/backupsessions/s"), &json!({"status": {"phase": "Running"}}));
    // The server has looked at the Repository while policies checked who wrote it.
    shop.world.change("r", &json!({"status": {"observedGeneration": 1}}));
    shop.world.context.policies.set("lifeboat", &[]);
    assert_eq!(phase(&shop.run("s").await), "Succeeded");
}
