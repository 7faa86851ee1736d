use rstest::rstest;

use super::*;

fn volume(status: &Value) -> Volume {
    let object = json!({
        "metadata": {"name": "vpb-1", "labels": {SNAPSHOT_LOCATION: "main"}, "creationTimestamp": "2026-11-16T03:00:00Z"},
        "spec": {"volume": "pv-1", "backup": "b", "plugin": "velero.io/aws"}, "status": status});
    Volume::of(&object, "2026-11-16T03:01:40Z".parse().unwrap())
}

const START: &str = "2026-11-16T03:00:00Z";

#[rstest]
#[case::new(json!({}), "New")]
#[case::running(json!({"phase": "InProgress", "startTimestamp": START,
    "progress": {"bytesDone": 104_857_600, "totalBytes": 419_430_400}}),
    "InProgress, 25%, 100.000 MiB of 400.000 MiB, 1.000 MiB/s, about 5m left")]
#[case::other_spelling(json!({"phase": "uploading", "startTimestamp": START,
    "progress": {"BytesDone": 104_857_600, "TotalBytes": 209_715_200}}),
    "uploading, 50%, 100.000 MiB of 200.000 MiB, 1.000 MiB/s, about 100s left")]
#[case::no_total(json!({"phase": "InProgress", "startTimestamp": START, "progress": {"bytesDone": 104_857_600}}),
    "InProgress, 100.000 MiB, 1.000 MiB/s")]
#[case::ended(json!({"phase": "Completed", "startTimestamp": START, "completionTimestamp": "2026-11-16T03:00:50Z",
    "progress": {"bytesDone": 52_428_800, "totalBytes": 52_428_800}}), "Completed, 50.000 MiB, 1.000 MiB/s, took 50s")]
#[case::failed(json!({"phase": "Failed", "message": "no room", "startTimestamp": START,
    "completionTimestamp": "2026-11-16T03:00:50Z"}), "Failed, took 50s: no room")]
#[case::nonsense(json!({"phase": "InProgress", "startTimestamp": "2027-01-01T00:00:00Z",
    "progress": {"bytesDone": -5, "totalBytes": -7}}), "InProgress, 0 B")]
fn how_far_a_volume_is(#[case] status: Value, #[case] expected: &str) {
    assert_eq!(volume(&status).state(), expected);
}

#[test]
fn a_copied_volume_says_how_it_was_read() {
    let object = json!({"metadata": {"name": "b-1", "annotations": {"velero.io/pvc-name": "data",
        "lifeboat.io/consistency": "Quiesced", "lifeboat.io/changed-files": "2"}},
        "spec": {"node": "a", "pod": {"namespace": "shop", "name": "db-0"}, "volume": "data"},
        "status": {"phase": "Completed", "snapshotID": "abc", "startTimestamp": START,
            "completionTimestamp": "2026-11-16T03:00:50Z", "incrementalBytes": 1024,
            "progress": {"bytesDone": 52_428_800, "totalBytes": 52_428_800}}});
    let objects = Ok(vec![object]);
    let mut page = Page::default();
    put(&mut page, Some(&objects), START.parse().unwrap(), true);
    insta::assert_snapshot!(page.to_text(), @r"
    Copied volumes:
      shop/db-0/data: Completed, 50.000 MiB, 1.000 MiB/s, took 50s
        copied files, snapshot abc, claim data, node a, consistency Quiesced, 1.000 KiB new, 2 files changed while they were read
    ");
}

#[rstest]
#[case::upload(json!({"sourceNamespace": "shop", "sourcePVC": "data"}))]
#[case::download(json!({"sourceNamespace": "old", "targetVolume": {"namespace": "shop", "pvc": "data"}}))]
fn a_moved_volume_is_shown_while_it_runs(#[case] spec: Value) {
    let object = |phase: &str| {
        json!({"metadata": {"name": "du-1"}, "spec": spec,
            "status": {"phase": phase, "startTimestamp": START,
                "progress": {"bytesDone": 26_214_400, "totalBytes": 52_428_800}}})
    };
    let text = |phase: &str, details: bool| {
        let mut page = Page::default();
        let objects = Ok(vec![object(phase)]);
        put(&mut page, Some(&objects), "2026-11-16T03:00:25Z".parse().unwrap(), details);
        page.to_text()
    };
    insta::allow_duplicates! {
        insta::assert_snapshot!(text("InProgress", false), @r"
        Copied volumes:
          shop/data: InProgress, 50%, 25.000 MiB of 50.000 MiB, 1.000 MiB/s, about 25s left
            data of a snapshot
        ");
    }
    assert_eq!(text("Completed", true), "");
}

#[test]
fn one_that_may_hang_says_for_how_long() {
    let object = json!({"metadata": {"name": "x", "creationTimestamp": START}, "spec": {},
        "status": {"phase": "InProgress", "startTimestamp": START}});
    let now = "2026-11-16T03:12:30Z".parse().unwrap();
    assert_eq!(Volume::of(&object, now).state(), "InProgress; no change for 12m");
}

#[test]
fn details_show_all_and_a_glance_what_runs_or_failed() {
    let object = |name: &str, phase: &str| {
        json!({"metadata": {"name": name, "labels": {SNAPSHOT_LOCATION: "main"}},
            "spec": {"volume": name, "plugin": "velero.io/aws"},
            "status": {"phase": phase, "snapshotID": format!("snap-{name}")}})
    };
    let objects = Ok(vec![object("c", "Failed"), object("a", "Completed"), object("b", "InProgress")]);
    let now = START.parse().unwrap();
    let text = |details| {
        let mut page = Page::default();
        put(&mut page, Some(&objects), now, details);
        page.to_text()
    };
    insta::assert_snapshot!(text(true), @r"
    Volumes of plugins:
      a: Completed
        plugin velero.io/aws, location main, snapshot snap-a
      b: InProgress
        plugin velero.io/aws, location main, snapshot snap-b
      c: Failed
        plugin velero.io/aws, location main, snapshot snap-c
    ");
    assert!(!text(false).contains("snap-a") && text(false).contains("snap-b"));
}

#[test]
fn what_a_plugin_says_about_a_snapshot_is_shown_and_bounded() {
    let many: serde_json::Map<_, _> = (0..100).map(|number| (format!("k{number:03}"), json!("v"))).collect();
    let of = |specific: Value| {
        json!({"metadata": {"name": "x"}, "spec": {"volume": "pv-1", "pluginSpecific": specific},
            "status": {"phase": "Completed"}})
    };
    let now = START.parse().unwrap();
    let one = Volume::of(&of(json!({"method": "copy\u{1b}[2J", "zone": "a", "odd": 5})), now);
    assert!(one.line().ends_with("method: copy[2J, zone: a"), "{}", one.line());
    assert_eq!(one.to_json()["pluginSpecific"], json!({"method": "copy[2J", "zone": "a"}));
    assert_eq!(Volume::of(&of(many.into()), now).plugin_specific.len(), 20);
}

#[test]
fn a_plugins_own_object_that_does_not_say_that_it_ended_names_what_is_missing() {
    let object = json!({"metadata": {"name": "snap-1"}, "spec": {"volume": "pv-1", "plugin": "x"},
        "status": {"phase": "Succeeded"}});
    let state = Volume::of(&object, START.parse().unwrap()).state();
    assert_eq!(
        state,
        "Succeeded; waits for status.phase Completed or Failed, or status.completionTimestamp: the plugin wrote phase \
         \"Succeeded\", which does not say that it has ended"
    );
}
