use rstest::rstest;

use super::*;

pub(super) fn subject(kind: Kind) -> Subject {
    Subject {
        kind,
        namespace: "lifeboat".into(),
        owner: ("one".into(), "uid-one".into()),
        backup: "nightly".into(),
        plugin: "example.com/dirs".into(),
        location: "disk".into(),
        volume: "pv-data".into(),
        snapshot_id: if kind == Kind::Backup { String::new() } else { "snap-1".into() },
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn the_name_follows_owner_snapshot_and_volume_and_nothing_else() {
    let one = subject(Kind::Backup);
    assert_eq!(one.name(), Subject { plugin: "other".into(), ..one.clone() }.name());
    assert_ne!(one.name(), Subject { volume: "pv-other".into(), ..one.clone() }.name());
    assert_ne!(one.name(), Subject { owner: ("one".into(), "other".into()), ..one.clone() }.name());
    let restore = subject(Kind::Restore);
    // The boundary between the parts matters.
    let shifted = Subject { snapshot_id: "snap-1p".into(), volume: "v-data".into(), ..restore.clone() };
    assert_ne!(restore.name(), shifted.name());
    assert!(can_be_name(&one.name()) && one.name().starts_with("vpb-") && restore.name().starts_with("vpr-"));
}

#[test]
fn an_object_of_each_kind_as_it_is_made() {
    let shown = ObjectState { progress: Some((5, 10)), ..ObjectState::begun(at(100)) };
    let objects = [Kind::Backup, Kind::Restore].map(|kind| subject(kind).object(&shown, at(101)));
    insta::assert_json_snapshot!(objects);
}

#[test]
fn what_is_written_is_read_back() {
    for kind in [Kind::Backup, Kind::Restore] {
        let shown = ObjectState {
            progress: Some((5, 10)),
            message: "slowly".into(),
            plugin_specific: [("a".to_owned(), "b".to_owned())].into(),
            made: Some("id-1".into()),
            ..ObjectState::begun(at(100))
        };
        let ended = shown.ended(Some("broke"), at(200));
        let object = subject(kind).object(&ended, at(200));
        assert_eq!(ObjectState::of(kind, &object), ended);
        assert_eq!(operation_state(&object), OperationState::Failed("broke".into()));
    }
}

#[test]
fn an_operation_that_ended_well_has_done_all_of_it() {
    let shown = ObjectState { progress: Some((5, 10)), ..ObjectState::begun(at(0)) }.ended(None, at(9));
    assert_eq!((shown.progress, shown.completed), (Some((10, 10)), Some(at(9))));
    let unknown_total =
        ObjectState { progress: Some((5, 0)), ..ObjectState::begun(at(0)) }.ended(None, at(9));
    assert_eq!(unknown_total.progress, Some((5, 5)));
}

#[rstest]
#[case::nothing(json!({}), OperationState::Open)]
#[case::own_word(json!({"phase": "Uploading"}), OperationState::Open)]
#[case::any_spelling(json!({"phase": "COMPLETED"}), OperationState::Completed)]
#[case::a_time(json!({"phase": "done", "completionTimestamp": "2026-01-01T00:00:00Z"}), OperationState::Completed)]
#[case::a_bad_word_and_a_time(json!({"phase": "PartiallyFailed", "completionTimestamp": "2026-01-01T00:00:00Z"}),
    OperationState::Failed("the plugin gives no reason".into()))]
#[case::another_bad_word(json!({"phase": "Canceled", "message": "by hand", "completionTimestamp": "2026-01-01T00:00:00Z"}),
    OperationState::Failed("by hand".into()))]
#[case::no_time_yet(json!({"phase": "Error"}), OperationState::Open)]
#[case::failed(json!({"phase": "failed", "message": "full", "completionTimestamp": "2026-01-01T00:00:00Z"}),
    OperationState::Failed("full".into()))]
fn the_end_is_a_word_or_a_time(#[case] status: Value, #[case] expected: OperationState) {
    assert_eq!(operation_state(&json!({"status": status})), expected);
}

#[rstest]
#[case::its_own(json!({"metadata": {"name": "snap-1"}, "spec": {"backup": "nightly"}}), true)]
#[case::that_says_little(json!({"metadata": {"name": "snap-1"}}), true)]
#[case::ours(json!({"metadata": {"name": "snap-1", "labels": {OURS: "server"}}}), false)]
#[case::of_another_backup(json!({"metadata": {"name": "snap-1"}, "spec": {"backup": "weekly"}}), false)]
#[case::another_name(json!({"metadata": {"name": "snap-2"}}), false)]
#[case::by_what_it_is_about(json!({"metadata": {"name": "any"},
    "spec": {"backup": "nightly", "volume": "pv-data", "plugin": "example.com/dirs"}}), true)]
#[case::of_another_attempt(json!({"metadata": {"name": "snap-1", "labels": {names::BACKUP_UID: "u2"}}}), false)]
fn a_plugins_own_backup_object_has_the_snapshots_name(#[case] object: Value, #[case] expected: bool) {
    assert_eq!(subject(Kind::Backup).is_plugins_own(&object, Some("snap-1"), &[]), expected);
}

#[rstest]
#[case::its_own("nightly", "snap-1", "example.com/dirs", "new", true)]
#[case::that_does_not_know_the_backup("", "snap-1", "example.com/dirs", "new", true)]
#[case::another_backup("weekly", "snap-1", "example.com/dirs", "new", false)]
#[case::there_before("nightly", "snap-1", "example.com/dirs", "old", false)]
#[case::another_snapshot("nightly", "snap-2", "example.com/dirs", "new", false)]
#[case::another_plugin("nightly", "snap-1", "example.com/disks", "new", false)]
fn a_plugins_own_restore_object_is_found_by_what_it_is_about(
    #[case] backup: &str,
    #[case] snapshot: &str,
    #[case] plugin: &str,
    #[case] uid: &str,
    #[case] expected: bool,
) {
    let object = json!({"metadata": {"name": "any", "uid": uid},
        "spec": {"snapshotID": snapshot, "backup": backup, "plugin": plugin}});
    assert_eq!(subject(Kind::Restore).is_plugins_own(&object, Some("vol-1"), &["old".to_owned()]), expected);
}

#[test]
fn adoption_keeps_the_owners_that_are_there() {
    let object = json!({"metadata": {"ownerReferences": [{"uid": "x"}]}});
    let patch = subject(Kind::Backup).adoption(&object, Some("snap-1"));
    assert_eq!(patch["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    assert_eq!(subject(Kind::Backup).adoption(&patch, Some("snap-1")), patch);
    assert_eq!(patch["metadata"]["labels"].get(OURS), None);
}

#[rstest]
#[case::as_it_is("snap-0a.B_c", true)]
#[case::a_path("arn:aws:snapshot/1", false)]
#[case::a_dash_at_the_end("snap-", false)]
#[case::long(&"s".repeat(64), false)]
fn a_snapshot_s_objects_are_found_by_its_id(#[case] id: &str, #[case] is_valid: bool) {
    let is_hash = |value: &str| value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = snapshot_label(id);
    assert!(if is_valid { value == id } else { is_hash(&value) }, "{value}");
    let made = ObjectState { made: Some(id.to_owned()), ..ObjectState::begun(at(0)) };
    let backup = subject(Kind::Backup);
    let of = |object: &Value| object["metadata"]["labels"][SNAPSHOT_ID].clone();
    assert_eq!(of(&backup.patch(&made, at(1))), value);
    assert_eq!(of(&backup.object(&made, at(1))), value);
    assert_eq!(of(&backup.adoption(&json!({}), Some(id))), value);
    assert_eq!(of(&backup.adoption(&json!({"status": {"snapshotID": id}}), None)), value);
    let restore = Subject { snapshot_id: id.to_owned(), ..subject(Kind::Restore) };
    assert_eq!(of(&restore.object(&ObjectState::begun(at(0)), at(1))), value);
}

#[test]
fn before_the_call_returns_no_id_is_known() {
    let object = subject(Kind::Backup).object(&ObjectState::begun(at(0)), at(1));
    assert_eq!(object["metadata"]["labels"].get(SNAPSHOT_ID), None);
}

#[rstest]
#[case::unknown(json!({"phase": "Succeeded"}), json!({}), Some("the plugin wrote phase \"Succeeded\""))]
#[case::running(json!({"phase": "InProgress"}), json!({}), Some("the plugin to finish it"))]
#[case::on_its_way(json!({"phase": "Uploading", "progress": {"bytesDone": 1, "totalBytes": 2}}), json!({}),
    Some("the plugin to finish it"))]
#[case::of_the_server(json!({"phase": "Uploading"}), json!({OURS: "server"}), Some("the plugin to finish it"))]
#[case::ended(json!({"phase": "Succeeded", "completionTimestamp": "2026-01-01T00:00:00Z"}), json!({}), None)]
fn what_is_not_finished_says_why(
    #[case] status: Value,
    #[case] labels: Value,
    #[case] expected: Option<&str>,
) {
    let object = json!({"metadata": {"name": "snap-1", "labels": labels},
        "spec": {"volume": "pv-1", "plugin": "example.com/x"}, "status": status});
    let waits = waits(&[object], at(0)).waits;
    assert_eq!(waits.is_empty(), expected.is_none());
    let shown = waits.first().map(ToString::to_string).unwrap_or_default();
    if let Some(expected) = expected {
        assert!(shown.starts_with("volumepluginbackups/snap-1 waits for the snapshot of pv-1: "), "{shown}");
        assert!(
            shown.contains(expected) && shown.ends_with("since 1970-01-01T00:00:00Z (example.com/x)"),
            "{shown}"
        );
    }
}

#[test]
fn an_operation_without_progress_for_long_is_reported() {
    let noted = json!({"metadata": {"annotations": {PROGRESS_CHANGED: "1970-01-01T00:00:00Z"}}});
    assert_eq!(hung(&noted, at(599)), None);
    assert_eq!(hung(&noted, at(600)), Some(at(0)));
    let own = json!({"metadata": {"managedFields": [{"time": "1970-01-01T00:01:00Z"}, {"time": "1970-01-01T00:00:00Z"}]}});
    assert_eq!(hung(&own, at(659)), None);
    assert_eq!(hung(&own, at(660)), Some(at(60)));
    let mut ended = noted;
    ended["status"] = json!({"phase": "Completed"});
    assert_eq!(hung(&ended, at(9999)), None);
}

#[rstest]
#[case("snap-1", true)]
#[case("snap-0a.b", true)]
#[case("", false)]
#[case("arn:aws:snapshot/1", false)]
#[case("Snap", false)]
#[case("../x", false)]
#[case("-a", false)]
fn a_providers_name_may_be_none_for_an_object(#[case] text: &str, #[case] expected: bool) {
    assert_eq!(can_be_name(text), expected);
}
