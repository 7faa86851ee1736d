//! Movers whose lines are their result, and pods whose other containers go on.

use lifeboat_mover::report::{Looked, SnapshotLine};
use lifeboat_mover::task::{LookWork, TaskWork};

use super::*;

const TWO: &str = concat!(
    "2026-01-01T00:00:00.1Z {\"line\":\"snapshots\",\"snapshots\":[{\"id\":\"old\",\"time\":\"2026-01-01T00:00:00Z\"}]}\n",
    "2026-01-01T00:00:00.2Z {\"line\":\"snapshots\",\"snapshots\":[{\"id\":\"new\",\"time\":\"2026-01-02T00:00:00Z\"}]}\n",
);

fn looked(listed: u64) -> Looked {
    Looked { listed, ..Looked::default() }
}

/// Some movers end before they are seen running.
#[rstest]
#[case::seen_running(&[running(), reported("a-1", Outcome::Looked(looked(2)))])]
#[case::not_seen_running(&[starting(), reported("a-1", Outcome::Looked(looked(2)))])]
#[tokio::test]
async fn the_snapshots_of_a_look_are_read_from_its_log(#[case] states: &[Value]) {
    let fake = Fake::new().await;
    fake.script(states);
    fake.pods.lock().unwrap().log = TWO.to_owned();
    let mut request = request("a-1");
    request.task.parts[0].work = TaskWork::Look(LookWork::new(10));
    let listed = ListedSnapshots::default();
    let ended = fake.movers.carry_out(request, &listed, &CancellationToken::new()).await.unwrap();
    let MoverEnd::Reported { result, .. } = ended else { panic!("{ended:?}") };
    let Outcome::Looked(looked) = result.outcome else { panic!() };
    let ids: Vec<_> = listed.complete(&looked).unwrap().into_iter().map(|snapshot| snapshot.id).collect();
    assert_eq!(ids, ["new", "old"]);
}

#[tokio::test]
async fn a_line_that_was_lost_is_noticed_and_one_that_came_twice_counts_once() {
    let listed = ListedSnapshots::default();
    let line =
        LogLine::Snapshots { snapshots: vec![SnapshotLine { id: "a".into(), ..SnapshotLine::default() }] };
    listed.line(&line).await;
    listed.line(&line).await;
    assert_eq!(listed.complete(&looked(1)).unwrap().len(), 1);
    assert_eq!(listed.complete(&looked(2)), Err(LinesLost { expected: 2, received: 1 }));
}

#[tokio::test]
async fn a_mover_has_ended_with_its_own_container_and_its_pod_goes_with_the_job() {
    let fake = Fake::new().await;
    let mut pod = reported("THIS", done());
    let proxy = json!({"name": "proxy", "state": {"running": {}}});
    pod["status"]["containerStatuses"].as_array_mut().unwrap().insert(0, proxy);
    pod["spec"]["containers"].as_array_mut().unwrap().insert(0, json!({"name": "proxy"}));
    fake.script(&[pod]);
    assert!(matches!(simply(&fake, "a-1").await, MoverEnd::Reported { .. }));
    fake.movers.clear("lifeboat-movers", &TaskId::new("a-1")).await.unwrap();
    assert!(!fake.has("jobs/mover-a-1"));
}
