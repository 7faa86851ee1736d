//! A second restore after one that failed, of more or less than the first one wrote: all that is overwritten is copied, and a workload is
//! started only if none of its data may be half restored.

use std::sync::atomic::Ordering;

use lifeboat_mover::task::TaskWork;
use lifeboat_plan::stash::in_place::STANDSTILL;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::Advance;
use super::cluster::{BATCHES, Cluster, member};
use crate::testing::{Killer, Moment, condition};

/// StatefulSet `db` with two replicas and their snapshots.
async fn database() -> Cluster {
    let cluster = stored().await;
    cluster.stateful_set("db", 2, 2);
    cluster
}

/// A cluster without the StatefulSet, but with the snapshots.
async fn stored() -> Cluster {
    let cluster = Cluster::new().await;
    for ordinal in 0..2 {
        cluster.snapshot(&format!("app-{ordinal}"), "/data").await;
    }
    cluster
}

/// The target, or one host of it, by rules.
fn spec(only: Option<u32>) -> Value {
    let mut target = member("StatefulSet", "db", "app");
    if let Some(ordinal) = only {
        target["rules"] = json!([{"targetHosts": [format!("app-{ordinal}")]}]);
    }
    json!({"target": target})
}

/// Restore `back` fails while it writes, and leaves its copies in the repository.
async fn fails(cluster: &Cluster, only: Option<u32>) {
    cluster.effects.restores_fail.store(true, Ordering::Relaxed);
    cluster.restore_session("back", &spec(only), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["standstill"]["step"], "HeldDown", "{back}");
    for ordinal in only.map_or(0..2, |ordinal| ordinal..ordinal + 1) {
        cluster.copied(&format!("app-{ordinal}"), "back").await;
    }
    cluster.effects.restores_fail.store(false, Ordering::Relaxed);
}

/// The hosts of the safety copies that were made since a number of works, each with the UID of the restore that it belongs to.
fn copies(cluster: &Cluster, since: usize) -> Vec<(String, String)> {
    let works = cluster.works().into_iter().skip(since);
    let made = works.filter_map(|work| match work {
        TaskWork::Backup(copy) => {
            let of = copy.tags.iter().find_map(|tag| tag.strip_prefix("lifeboat-session="));
            Some((copy.host.clone(), of.unwrap_or_default().to_owned()))
        }
        _ => None,
    });
    made.collect()
}

#[tokio::test]
async fn what_the_copies_of_a_failed_restore_lack_is_added_to_them() {
    let cluster = database().await;
    fails(&cluster, Some(0)).await;
    let before = cluster.works().len();
    cluster.effects.restores_fail.store(true, Ordering::Relaxed);
    cluster.restore_session("again", &spec(None), &json!({}));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["standstill"]["step"], "HeldDown", "{again}");
    // What the first one half restored has its copy from before; a rollback of either finds both hosts.
    assert_eq!(copies(&cluster, before), [("app-1".to_owned(), "uid-back".to_owned())]);
    assert_eq!(again["status"]["standstill"]["safetyOf"]["name"], "back");
    let of_hosts: Vec<usize> = again["status"]["stats"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["safetyCopies"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(of_hosts, [1, 1], "{again}");
    let (_, message) = condition(&again, "WorkloadStarted");
    assert!(message.contains("lifeboat stash rollback restoresession/again"), "{message}");
}

#[tokio::test]
async fn a_restore_that_leaves_half_restored_claims_out_does_not_start_the_workload() {
    let cluster = database().await;
    fails(&cluster, None).await;
    cluster.restore_session("again", &spec(Some(0)), &json!({}));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["phase"], "Failed", "{again}");
    let (_, message) = condition(&again, "RestoreExecutorEnsured");
    for part in ["may have half restored data-db-1,", "rollback restoresession/back", "stash resume"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert_eq!(cluster.replicas("db"), 0);
    assert_eq!(cluster.record_on("data-db-0")["name"], "back", "nothing was written");
    cluster.restore_session("third", &spec(None), &json!({}));
    assert_eq!(cluster.ended("third").await["status"]["phase"], "Succeeded");
    assert_eq!(cluster.replicas("db"), 2);
}

/// The schedule would displace good snapshots of `app-1` with its half-restored data.
#[tokio::test]
async fn a_success_allows_backups_of_what_it_restored_only() {
    let cluster = database().await;
    fails(&cluster, None).await;
    let started = json!({"metadata": {"annotations": {STANDSTILL: null}}, "spec": {"replicas": 2}});
    cluster.world.server.change(&cluster.path_of("db"), &started);
    cluster.restore_session("again", &spec(Some(0)), &json!({}));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["phase"], "Succeeded", "{again}");
    assert_eq!(cluster.record_on("data-db-0"), Value::Null);
    assert_eq!(cluster.record_on("data-db-1")["name"], "back");
}

/// Members of one batch that restore one host of a StatefulSet each.
fn members(name: &str) -> Value {
    let member = |alias: &str, ordinal: u32| {
        let mut target = member("StatefulSet", name, alias);
        let rule =
            json!({"targetHosts": [format!("{alias}-{ordinal}")], "sourceHost": format!("app-{ordinal}")});
        target["rules"] = json!([rule]);
        json!({"target": target})
    };
    json!({"members": [member("first", 0), member("second", 1)]})
}

#[tokio::test]
async fn a_member_does_not_start_a_workload_that_another_member_of_its_batch_left_half_restored() {
    let cluster = database().await;
    let mut batch = members("db");
    batch["maintainOrder"] = json!(true);
    cluster.restore_batch("both", &batch);
    cluster.effects.restores_fail.store(true, Ordering::Relaxed);
    let both = cluster.ended_at(&format!("{BATCHES}/both")).await;
    assert_eq!(both["status"]["phase"], "Failed", "{both}");
    let members = both["status"]["members"].as_array().unwrap();
    assert_eq!(members[0]["standstill"]["step"], "HeldDown", "{both}");
    assert_eq!((&members[1]["standstill"], &members[1]["phase"]), (&Value::Null, &json!("Failed")), "{both}");
    assert!(members[1].to_string().contains("may have half restored data-db-0,"), "{both}");
    assert_eq!(cluster.replicas("db"), 0);
}

/// The server that follows goes on with the member that has stopped the workload, and not with the other one. Every fourth write is enough:
/// each step of a member has several.
#[tokio::test]
async fn members_on_one_workload_take_turns_wherever_the_server_is_killed() {
    let cluster = stored().await;
    let (killer, cancel) = (Killer::on(&cluster.world.server), CancellationToken::new());
    for nth in (1..).step_by(4) {
        let (name, path) = (format!("db{nth}"), format!("{BATCHES}/both{nth}"));
        cluster.stateful_set(&name, 2, 2);
        cluster.restore_batch(&format!("both{nth}"), &members(&name));
        let died = killer.kill_at(nth, Moment::After, cluster.advance(&path, &cancel)).await.is_none();
        let mut tries = 0;
        while died && !matches!(cluster.advance(&path, &cancel).await, Ok(Advance::Ended)) {
            tries += 1;
            assert!(tries < 5, "killed at write {nth}: {:?}", cluster.world.server.get(&path));
        }
        let both = cluster.world.server.get(&path).unwrap();
        assert_eq!(both["status"]["phase"], "Succeeded", "killed at write {nth}: {both}");
        assert_eq!(cluster.replicas(&name), 2, "killed at write {nth}");
        if !died {
            assert!(nth > 20, "only {nth} writes");
            break;
        }
    }
}
