//! Movers in namespaces of others.

use lifeboat_api::common::NamespaceName;
use lifeboat_plan::transfer::movers::{MoverJob, job as manifests};

use super::*;

fn elsewhere(uid: &str) -> MoverJob {
    MoverJob { namespace: NamespaceName::new("shop"), ..job(uid) }
}

/// The object of a task, which has it on record.
fn put_owner(fake: &Fake, uid: &str) {
    let object =
        json!({"metadata": {"name": format!("pvb-{uid}"), "uid": format!("owner-{uid}")}, "task": uid});
    fake.put(&format!("podvolumebackups/pvb-{uid}"), object);
}

fn put_secret(fake: &Fake, wanted: &MoverJob) {
    let mut secret = manifests::secret(wanted);
    secret["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    fake.put(&format!("secrets/mover-{}", wanted.task), secret);
}

#[tokio::test]
async fn a_job_in_any_namespace_counts_where_its_task_is_on_record() {
    let fake = Fake::new().await;
    for uid in ["recorded", "forged"] {
        fake.put_job(&elsewhere(uid), &[running()]);
    }
    fake.put_job(&job("own"), &[running()]);
    put_owner(&fake, "recorded");
    let mut counted: Vec<_> =
        fake.movers.running().await.unwrap().into_iter().map(|candidate| candidate.task).collect();
    counted.sort();
    assert_eq!(counted, ["own", "recorded"]);
}

#[tokio::test]
async fn a_server_with_limited_rights_counts_in_the_movers_namespace() {
    let fake = Fake::new().await;
    fake.limit_rights();
    fake.put_job(&elsewhere("recorded"), &[running()]);
    fake.put_job(&job("own"), &[running()]);
    put_owner(&fake, "recorded");
    let counted: Vec<_> =
        fake.movers.running().await.unwrap().into_iter().map(|candidate| candidate.task).collect();
    assert_eq!(counted, ["own"]);
}

#[rstest]
#[case::full(false, &["jobs/mover-needed", "secrets/mover-foreign", "secrets/mover-needed"])]
#[case::limited(true, &["jobs/mover-needed", "jobs/mover-over", "secrets/mover-foreign", "secrets/mover-needed",
    "secrets/mover-over"])]
#[tokio::test]
async fn a_sweep_removes_what_is_over_in_every_namespace_it_may_list(
    #[case] is_limited: bool,
    #[case] expected: &[&str],
) {
    let fake = Fake::new().await;
    if is_limited {
        fake.limit_rights();
    }
    for uid in ["needed", "over"] {
        fake.put_job(&elsewhere(uid), &[running()]);
        put_secret(&fake, &elsewhere(uid));
    }
    put_owner(&fake, "needed");
    // Its labels are ours, and it names no task.
    put_secret(&fake, &elsewhere("foreign"));
    let unnamed = json!({"metadata": {"annotations": {"lifeboat.io/task": null}}});
    fake.server.change("/api/v1/namespaces/shop/secrets/mover-foreign", &unnamed);
    fake.movers.sweep().await.unwrap();
    assert_eq!(fake.left(), expected);
}

#[tokio::test]
async fn a_secret_that_was_left_in_a_namespace_of_others_goes_when_its_task_is_over() {
    let fake = Fake::new().await;
    for uid in ["open", "over"] {
        put_secret(&fake, &elsewhere(uid));
    }
    put_owner(&fake, "open");
    fake.movers.sweep().await.unwrap();
    assert_eq!(fake.left(), ["secrets/mover-open"]);
}

/// The server before this one died between the record of a result and the deletion of its Job.
#[tokio::test(start_paused = true)]
async fn a_job_of_an_earlier_server_goes_soon_after_its_task_is_over() {
    let fake = Fake::new().await;
    let owner = |phase: &str| {
        json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": "pvb-late", "uid": "owner-late"}, "status": {"phase": phase}})
    };
    fake.put_job(&job("late"), &[running()]);
    fake.put("podvolumebackups/pvb-late", owner("InProgress"));
    let stop = CancellationToken::new();
    let ends = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(fake.left(), ["jobs/mover-late"]);
        fake.put("podvolumebackups/pvb-late", owner("Completed"));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(fake.left(), Vec::<String>::new());
        stop.cancel();
    };
    tokio::join!(fake.movers.run(&stop), ends);
}

#[rstest]
#[case::without_an_object(None, false)]
#[case::of_another_task(Some("b-1"), false)]
#[case::on_record(Some("a-1"), true)]
#[tokio::test]
async fn in_the_namespace_of_others_a_job_is_ours_where_its_task_is_on_record(
    #[case] task: Option<&str>,
    #[case] expected: bool,
) {
    let fake = Fake::new().await;
    let found = manifests::job(&elsewhere("a-1")).unwrap();
    if let Some(task) = task {
        let object = json!({"metadata": {"name": "pvb-a-1", "uid": "owner-a-1"}, "task": task});
        fake.put("podvolumebackups/pvb-a-1", object);
    }
    assert_eq!(fake.movers.is_ours(&found).await.unwrap(), expected);
    let own = manifests::job(&job("a-1")).unwrap();
    assert!(
        fake.movers.is_ours(&own).await.unwrap(),
        "in the movers' own namespace only Lifeboat makes Jobs"
    );
}

#[tokio::test]
async fn a_forged_job_with_the_name_of_a_mover_is_replaced() {
    let fake = Fake::new().await;
    fake.script(&[running(), reported("THIS", done())]);
    let mut request = request("a-1");
    request.job.namespace = NamespaceName::new("shop");
    fake.put_job(&request.job, &[reported("a-1", done())]);
    let ended = fake.movers.carry_out(request, &Notes::default(), &CancellationToken::new()).await.unwrap();
    assert!(matches!(ended, MoverEnd::Reported { .. }), "{ended:?}");
    let changes = fake.changes();
    assert!(changes.contains(&"DELETE jobs/mover-a-1".to_owned()), "{changes:?}");
    assert!(changes.contains(&"POST jobs".to_owned()), "{changes:?}");
}

#[tokio::test]
async fn the_movers_of_an_object_that_is_given_up_are_ended_and_no_others() {
    let fake = Fake::new().await;
    for uid in ["given-up", "needed"] {
        fake.put_job(&elsewhere(uid), &[running()]);
        put_secret(&fake, &elsewhere(uid));
        put_owner(&fake, uid);
    }
    fake.movers.end_all_of("owner-given-up").await.unwrap();
    assert_eq!(fake.left(), ["jobs/mover-needed", "secrets/mover-needed"]);
}
