//! A pod with a claim on a volume, and all ways to request its data.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::policy::Policies;

fn book(annotations: &Value) -> VolumeBook {
    let mut book = VolumeBook::default();
    book.add_pod(&json!({
        "metadata": {"namespace": "shop", "name": "db-0", "annotations": annotations},
        "spec": {"volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "settings", "configMap": {"name": "c"}},
        ]},
    }));
    book.add_claim(&json!({"metadata": {"namespace": "shop", "name": "data", "labels": {"app": "db"}},
        "spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}));
    book.add_volume(&json!({"metadata": {"name": "pv-1"}, "spec": {"persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast", "csi": {"driver": "d"}, "claimRef": {"namespace": "shop", "name": "data"}}}));
    book
}

fn settings<'a>() -> VolumeSettings<'a> {
    VolumeSettings::default()
}

#[rstest]
#[case::nobody_asks(json!({}), settings(), None)]
#[case::annotation(json!({"backup.velero.io/backup-volumes": "other, data"}), settings(), Some(Method::FileCopy))]
#[case::copy_all(json!({}), VolumeSettings { copy_files: true, ..settings() }, Some(Method::FileCopy))]
#[case::copy_all_but(json!({"backup.velero.io/backup-volumes-excludes": "data"}),
    VolumeSettings { copy_files: true, ..settings() }, None)]
#[case::snapshots(json!({}), VolumeSettings { snapshot: Some(true), ..settings() }, Some(Method::Snapshot))]
#[case::no_snapshots(json!({}), VolumeSettings { snapshot: Some(false), move_data: true, ..settings() }, None)]
#[case::moved(json!({}), VolumeSettings { move_data: true, ..settings() }, Some(Method::Snapshot))]
#[case::a_copy_goes_before_a_snapshot(json!({"backup.velero.io/backup-volumes": "data"}),
    VolumeSettings { snapshot: Some(true), ..settings() }, Some(Method::FileCopy))]
fn data_that_is_asked_for_is_missed(
    #[case] annotations: Value,
    #[case] settings: VolumeSettings<'_>,
    #[case] expected: Option<Method>,
) {
    let records = book(&annotations).records(&settings, &BTreeSet::new(), &Copies::new());
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].title(), "pv-1 of claim shop/data");
    assert_eq!(records[0].reclaim_policy, "Delete");
    let missed = match &records[0].fate {
        Fate::Missed(method, _) => Some(*method),
        Fate::Skipped(_) | Fate::Unasked(_) | Fate::Snapshotted | Fate::CsiSnapshotted | Fate::Copied(_) => {
            None
        }
    };
    assert_eq!(missed, expected);
}

#[rstest]
#[case("skip", Some(true), Fate::Skipped("a volume policy says skip".into()))]
#[case("snapshot", Some(false), Fate::Missed(Method::Snapshot, "a volume policy asks for a snapshot".into()))]
#[case("fs-backup", Some(true), Fate::Missed(Method::FileCopy,
    "a volume policy asks for fs-backup, and its pod was not backed up".into()))]
fn a_policy_goes_before_the_spec(
    #[case] action: &str,
    #[case] snapshot: Option<bool>,
    #[case] expected: Fate,
) {
    let text = format!(
        "version: v1\nvolumePolicies:\n- conditions: {{pvcLabels: {{app: db}}, csi: {{}}}}\n  action: {{type: {action}}}"
    );
    let policies = Policies::parse(&text).unwrap();
    let records = book(&json!({})).records(
        &VolumeSettings { snapshot, policies: Some(&policies), ..settings() },
        &BTreeSet::new(),
        &Copies::new(),
    );
    assert_eq!(records[0].fate, expected);
}

#[test]
fn a_volume_without_a_claim_belongs_to_its_pod() {
    let mut book = VolumeBook::default();
    book.add_pod(&json!({"metadata": {"namespace": "n", "name": "p"},
        "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "host", "hostPath": {}}]}}));
    let records =
        book.records(&VolumeSettings { copy_files: true, ..settings() }, &BTreeSet::new(), &Copies::new());
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].title(), "tmp of pod n/p");
    assert!(book.records(&settings(), &BTreeSet::new(), &Copies::new()).is_empty());
}

#[test]
fn a_claim_that_two_pods_mount_is_one_volume() {
    let mut book = book(&json!({}));
    book.add_pod(&json!({"metadata": {"namespace": "shop", "name": "db-1"},
        "spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}));
    assert_eq!(
        book.records(&VolumeSettings { copy_files: true, ..settings() }, &BTreeSet::new(), &Copies::new())
            .len(),
        1
    );
}

#[rstest]
#[case::snapshots(VolumeSettings { snapshot: Some(true), ..settings() }, true)]
#[case::moved(VolumeSettings { move_data: true, ..settings() }, true)]
#[case::nobody_asks(settings(), false)]
fn a_claim_whose_volume_is_left_out_has_a_record(#[case] settings: VolumeSettings<'_>, #[case] missed: bool) {
    let mut book = book(&json!({}));
    book.volumes.clear();
    book.add_claim(&json!({"metadata": {"namespace": "shop", "name": "unbound"}, "spec": {}}));
    let records = book.records(&settings, &BTreeSet::new(), &Copies::new());
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0].title(), "pv-1 of claim shop/data");
    assert_eq!(matches!(records[0].fate, Fate::Missed(Method::Snapshot, _)), missed);
}

#[test]
fn a_policy_that_asks_for_files_that_no_pod_mounts_is_not_forgotten() {
    let mut book = book(&json!({}));
    book.mounts.clear();
    let text = "version: v1\nvolumePolicies:\n- conditions: {csi: {}}\n  action: {type: fs-backup}";
    let policies = Policies::parse(text).unwrap();
    let records = book.records(
        &VolumeSettings { policies: Some(&policies), ..settings() },
        &BTreeSet::new(),
        &Copies::new(),
    );
    assert!(matches!(records[0].fate, Fate::Missed(Method::FileCopy, _)), "{records:?}");
}

/// Such as the claims of a Deployment that has no replicas now.
#[rstest]
#[case::nobody_can_take_it(settings(), "unasked")]
#[case::copy_all(VolumeSettings { copy_files: true, ..settings() }, "missed")]
#[case::copy_all_and_no_snapshots(VolumeSettings { copy_files: true, snapshot: Some(false), ..settings() }, "missed")]
#[case::declined(VolumeSettings { snapshot: Some(false), ..settings() }, "declined")]
fn a_claim_that_no_pod_mounts_is_never_silent(#[case] settings: VolumeSettings<'_>, #[case] expected: &str) {
    let mut book = book(&json!({}));
    book.mounts.clear();
    let records = book.records(&settings, &BTreeSet::new(), &Copies::new());
    let found = match &records[0].fate {
        Fate::Missed(..) => "missed",
        Fate::Unasked(_) => "unasked",
        Fate::Skipped(_) => "declined",
        other => panic!("{other:?}"),
    };
    assert_eq!(found, expected, "{records:?}");
}

#[test]
fn a_volume_that_its_pod_leaves_out_is_declined_and_the_pod_is_named() {
    let book = book(&json!({"backup.velero.io/backup-volumes-excludes": "data"}));
    let settings = VolumeSettings { copy_files: true, ..settings() };
    let records = book.records(&settings, &BTreeSet::new(), &Copies::new());
    let Fate::Skipped(reason) = &records[0].fate else { panic!("{records:?}") };
    assert!(reason.contains("pod shop/db-0"), "{reason}");
}

#[rstest]
#[case::made(Copy::Made("o".into()), Fate::Copied("o".into()))]
#[case::left(Copy::Left("its pod is not running".into()),
    Fate::Missed(Method::FileCopy, "defaultVolumesToFsBackup is true, and its pod is not running".into()))]
#[case::missed(Copy::Missed("no".into()), Fate::Missed(Method::FileCopy, "defaultVolumesToFsBackup is true, and no".into()))]
fn the_record_says_what_came_of_a_copy(#[case] copy: Copy, #[case] expected: Fate) {
    let copies = Copies::from([(("shop".into(), "db-0".into(), "data".into()), copy)]);
    let settings = VolumeSettings { copy_files: true, ..settings() };
    assert_eq!(book(&json!({})).records(&settings, &BTreeSet::new(), &copies)[0].fate, expected);
}

#[test]
fn a_pod_that_was_copied_speaks_for_the_claim_of_one_that_was_not() {
    let mut book = book(&json!({}));
    book.add_pod(&json!({"metadata": {"namespace": "shop", "name": "db-1"},
        "spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}));
    let copies = Copies::from([
        (("shop".into(), "db-0".into(), "data".into()), Copy::Left("not running".into())),
        (("shop".into(), "db-1".into(), "d".into()), Copy::Made("o".into())),
    ]);
    let records = book.records(&VolumeSettings { copy_files: true, ..settings() }, &BTreeSet::new(), &copies);
    assert_eq!(
        records.iter().map(|record| record.fate.clone()).collect::<Vec<_>>(),
        [Fate::Copied("o".into())]
    );
}

#[rstest]
#[case::nobody_mounts_it(&[], &[], false)]
#[case::at_rest(&["a"], &["a"], true)]
#[case::one_goes_on(&["a", "b"], &["a"], false)]
#[case::all_at_rest(&["a", "b"], &["a", "b", "c"], true)]
#[case::one_has_ended(&["a", "ended"], &["a"], true)]
#[case::all_have_ended(&["ended"], &["ended"], false)]
fn a_claim_is_at_rest_when_all_its_pods_are(
    #[case] pods: &[&str],
    #[case] quiesced: &[&str],
    #[case] expected: bool,
) {
    let mut book = VolumeBook::default();
    for pod in pods {
        let phase = if *pod == "ended" { "Succeeded" } else { "Running" };
        book.add_pod(
            &json!({"metadata": {"namespace": "shop", "name": pod, "uid": pod}, "status": {"phase": phase},
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}),
        );
    }
    let quiesced = quiesced.iter().map(|uid| (*uid).to_owned()).collect();
    assert_eq!(book.is_quiesced(&("shop".into(), "data".into()), &quiesced), expected);
}
