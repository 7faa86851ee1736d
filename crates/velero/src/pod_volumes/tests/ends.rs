//! Unusual ends of copies: late, unreported, or at the same moment as a cancellation.

use super::*;

#[tokio::test]
async fn a_snapshot_that_a_dead_mover_made_counts() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(died(true));
    world.fake.holds("o-1-1", "abc");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["snapshotID"]), (&json!("Completed"), &json!("abc")));
}

#[tokio::test]
async fn what_lost_movers_may_still_store_is_given_up_only_when_nobody_waits_for_it() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(lost());
    world.fake.will(lost());
    let object = world.run(&CancellationToken::new()).await;
    assert_eq!(object["status"]["phase"], "Failed");
    assert_eq!(world.fake.calls_to("give up"), ["give up o-1-1", "give up o-1-2"]);

    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(lost());
    world.fake.holds("o-1-1", "abc");
    let object = world.run(&CancellationToken::new()).await;
    assert_eq!(object["status"]["phase"], "Completed");
    assert_eq!(world.fake.calls_to("give up"), Vec::<String>::new(), "it is the copy");
}

#[tokio::test]
async fn a_mover_that_was_killed_is_sent_once_more_and_not_twice() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(died(true));
    world.fake.will(died(true));
    let object = world.run(&CancellationToken::new()).await;
    assert_eq!(object["status"]["phase"], "Failed");
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/attempt"], "2");
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/dead-owners"], "cluster/mover-pod");
    assert_eq!(world.fake.calls_to("send"), ["send o-1-1", "send o-1-2"]);
    assert_eq!(world.fake.calls_to("unlock").len(), 2, "at every death");
    assert_eq!(world.fake.requests.lock().unwrap()[1].task.lock.dead_owners, ["cluster/mover-pod"]);
}

#[tokio::test]
async fn one_that_is_lost_and_only_reads_is_followed_by_another() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(lost());
    world.fake.will(backed_up(0));
    world.fake.holds("o-1-2", "abc");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["snapshotID"]), (&json!("Completed"), &json!("abc")));
    assert_eq!(world.fake.calls_to("give up"), ["give up o-1-1"], "what it may still store is not wanted");
}

#[tokio::test]
async fn the_lock_of_a_mover_that_was_killed_when_it_was_cancelled_goes() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(killed_when_cancelled());
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["message"]), (&json!("Canceled"), &json!("it was cancelled")));
    assert_eq!(world.fake.calls_to("unlock"), ["unlock cluster/mover-pod"]);
}

#[tokio::test]
async fn what_the_server_may_not_read_ends_a_copy() {
    let world = World::new().await;
    world.add(&json!({}));
    world.cluster.forbid("pods", "db-0");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert!(status["message"].as_str().unwrap().contains("read Pod lifeboat/db-0"), "{status}");
}

#[tokio::test]
async fn a_snapshot_that_is_there_counts_though_its_time_is_over() {
    let world = World::new().await;
    world.add(&json!({"metadata": {"annotations": {"lifeboat.io/attempt": "1"},
        "creationTimestamp": "2020-01-01T00:00:00Z"}, "status": {"phase": "InProgress"}}));
    world.fake.holds("o-1-1", "abc");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["snapshotID"]), (&json!("Completed"), &json!("abc")));
    assert_eq!(world.fake.calls(), ["clear o-1-1"]);
}

#[tokio::test]
async fn where_nobody_can_tell_what_a_dead_mover_made_none_follows_it() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.mute.store(true, Ordering::Relaxed);
    world.fake.will(died(true));
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(status["phase"], "Failed");
    let message = "it is unknown whether the volume was copied: storage is away; a snapshot of the volume may be left in the \
                 repository: storage is away";
    assert_eq!(status["message"], message);
    let calls = world.fake.calls();
    assert_eq!(calls[1..], ["send o-1-1", "unlock cluster/mover-pod", "clear o-1-1", "give up o-1-1"]);
}

#[rstest]
#[case::done(backed_up(0))]
#[case::died(died(true))]
#[tokio::test]
async fn a_copy_that_ends_while_it_is_cancelled_leaves_nothing(#[case] end: MoverEnd) {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.late.store(true, Ordering::Relaxed);
    world.fake.will(end);
    world.fake.holds("o-1-1", "abc");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["snapshotID"]), (&json!("Canceled"), &Value::Null));
    assert_eq!(world.fake.calls().last().unwrap(), "forget lifeboat abc");
}
