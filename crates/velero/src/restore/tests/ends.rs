//! Restores that are begun again and again, runs that end by a defect, and what deletion leaves.

use super::*;

/// Begun before, so often.
fn begun(phase: &str, attempts: u64) -> Value {
    let mut object = restore(&json!({"backupName": "nightly-1"}));
    object["metadata"]["annotations"] = json!({"lifeboat.io/attempt": attempts.to_string()});
    object["status"] = json!({"phase": phase});
    object
}

#[rstest]
#[case::again("InProgress", 1, Some("2"))]
#[case::the_last_time("InProgress", 4, Some("5"))]
#[case::too_often("InProgress", 5, None)]
#[case::later_stages_only_wait("Finalizing", 5, Some("6"))]
#[tokio::test]
async fn a_restore_is_begun_a_few_times(
    #[case] phase: &str,
    #[case] attempts: u64,
    #[case] next: Option<&str>,
) {
    let (cluster, (state, mut orders)) = (cluster().await, state());
    cluster.put("restores", &begun(phase, attempts));
    let written = settle(&cluster, &state, "r").await;
    if let Some(next) = next {
        let order = orders.try_recv().unwrap();
        assert_eq!(order.restore.annotations()["lifeboat.io/attempt"], next);
        assert_eq!(written["metadata"]["annotations"]["lifeboat.io/attempt"], next);
        return;
    }
    assert!(orders.try_recv().is_err());
    assert_eq!(written["status"]["phase"], "Failed", "{written}");
    let message = written["status"]["failureReason"].as_str().unwrap();
    assert!(message.contains("interrupted 5 times"), "{message}");
    assert_eq!(cluster.events(), ["NotCompleted"]);
}

#[tokio::test]
async fn a_run_that_ends_by_a_defect_leaves_the_list_and_is_begun_again() {
    let (state, mut orders) =
        state_with(|order| match order.restore.annotations()["lifeboat.io/attempt"].as_str() {
            "2" => async { panic!("a defect") }.boxed(),
            _ => std::future::pending().boxed(),
        });
    let cluster = cluster().await;
    cluster.put("restores", &begun("InProgress", 1));
    settle(&cluster, &state, "r").await;
    let uid = orders.try_recv().unwrap().restore.uid().unwrap();
    state.runs.ended().await;
    assert!(!state.runs.is_running(&uid));
    settle(&cluster, &state, "r").await;
    assert_eq!(orders.try_recv().unwrap().restore.annotations()["lifeboat.io/attempt"], "3");
}

#[rstest]
#[case::read_only(json!({"spec": {"accessMode": "ReadOnly"}}), 0, true)]
#[case::out_of_reach_for_a_moment(json!({"status": {"phase": "Unavailable"}}), 0, false)]
#[case::out_of_reach_for_long(json!({"status": {"phase": "Unavailable"}}), 2, true)]
#[tokio::test]
async fn a_restore_goes_though_its_files_stay(
    #[case] location: Value,
    #[case] hours: i64,
    #[case] goes: bool,
) {
    let (cluster, (state, _orders)) = (cluster().await, state());
    let files = RestoreFiles::new("r").unwrap();
    cluster.store().put(&files.results(), bytes::Bytes::from("x")).await.unwrap();
    cluster.change("backupstoragelocations", "default", &location);
    let mut object = restore(&json!({"backupName": "nightly-1"}));
    let begun = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(hours);
    object["metadata"]["finalizers"] = json!([RESTORE_FINALIZER, "other"]);
    object["metadata"]["deletionTimestamp"] = json!(begun.to_string());
    cluster.put("restores", &object);
    let written = settle(&cluster, &state, "r").await;
    let left = written["metadata"]["finalizers"].as_array().unwrap().len();
    assert_eq!(left, if goes { 1 } else { 2 }, "{written}");
    assert!(cluster.store().exists(&files.results()).await.unwrap());
    assert_eq!(cluster.events().contains(&"FilesStay".to_owned()), goes);
}
