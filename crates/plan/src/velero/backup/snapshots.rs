//! Native snapshots: which volumes, in which zone, with which tags. Takes the PersistentVolume, its claim, the pods
//! that mount it and the Backup's settings; gives the decision. Called by the pass for each volume of the backup.

use std::collections::BTreeMap;

use serde_json::Value;

use super::volumes::{VolumeBook, VolumeSettings};
use crate::policy::{VolumeAction, VolumeFacts};

/// Tags of every snapshot in addition to the labels of its backup.
const BACKUP_TAG: &str = "velero.io/backup";
const VOLUME_TAG: &str = "velero.io/pv";

/// Labels with the zone of a volume.
const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// GKE's label: a volume can be in several zones, which the value lists together.
const GKE_ZONE: &str = "topology.gke.io/zone";
const ZONE_KEYS: [&str; 7] = [
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    GKE_ZONE,
    "topology.cinder.csi.openstack.org/zone",
    "topology.manila.csi.openstack.org/zone",
    ZONE,
    OLD_ZONE,
];

/// Why no native snapshot of a volume is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWanted {
    #[error("a volume policy says skip")]
    PolicySkips,
    #[error("a volume policy leaves it to a plugin")]
    PolicyLeavesIt,
    #[error("a volume policy asks for fs-backup")]
    PolicyCopies,
    #[error("its files are copied with pod {pod}")]
    Copied { pod: String },
    #[error("snapshotVolumes is false")]
    SwitchedOff,
}

/// Whether a native snapshot of a volume is taken, as upstream decides it: policies first, then file copies, then
/// `spec.snapshotVolumes`. `pods`: those of the claim's namespace. The error says why not.
pub fn is_wanted(
    volume: &Value,
    claim: Option<&Value>,
    pods: &VolumeBook,
    settings: &VolumeSettings<'_>,
) -> Result<(), NotWanted> {
    let mut facts = VolumeFacts::of_volume(volume);
    if let Some(claim) = claim {
        facts = facts.with_claim(claim);
    }
    match settings.policies.and_then(|policies| policies.action(&facts)) {
        Some(VolumeAction::Snapshot) => return Ok(()),
        Some(VolumeAction::Skip) => return Err(NotWanted::PolicySkips),
        Some(VolumeAction::Custom) => return Err(NotWanted::PolicyLeavesIt),
        Some(VolumeAction::FsBackup) => return Err(NotWanted::PolicyCopies),
        None => {}
    }
    let text = |path: &str| volume.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let claimed = (text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
    if let Some(pod) = pods.copier(&claimed, settings) {
        return Err(NotWanted::Copied { pod });
    }
    if settings.snapshot == Some(false) {
        return Err(NotWanted::SwitchedOff);
    }
    Ok(())
}

/// The zone of a volume: its label, or its node affinity; empty if neither has one.
pub fn zone(volume: &Value) -> String {
    let labels = &volume["metadata"]["labels"];
    if let Some(zone) = labels[ZONE].as_str().or_else(|| labels[OLD_ZONE].as_str()) {
        return zone.to_owned();
    }
    let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms").and_then(Value::as_array);
    let expressions = terms
        .into_iter()
        .flatten()
        .flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    let mut together: Vec<String> = Vec::new();
    for expression in expressions {
        let key = expression["key"].as_str().unwrap_or_default();
        let first = expression["values"][0].as_str();
        let Some(first) = first.filter(|_| ZONE_KEYS.contains(&key) && expression["operator"] == "In") else {
            continue;
        };
        if key != GKE_ZONE {
            return first.to_owned();
        }
        together.push(first.to_owned());
    }
    together.join("__")
}

/// The tags of a snapshot.
pub fn tags(labels: &BTreeMap<String, String>, backup: &str, volume: &str) -> BTreeMap<String, String> {
    let mut tags = labels.clone();
    tags.insert(BACKUP_TAG.to_owned(), backup.to_owned());
    tags.insert(VOLUME_TAG.to_owned(), volume.to_owned());
    tags
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::policy::Policies;

    fn volume() -> Value {
        json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "shop", "name": "data"}}})
    }

    fn pods(annotation: &str) -> VolumeBook {
        let mut book = VolumeBook::default();
        book.add_pod(&json!({
            "metadata": {"namespace": "shop", "name": "db", "annotations": {annotation: "vol"}},
            "spec": {"volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": "data"}}]},
        }));
        book
    }

    #[rstest]
    #[case::nothing_said(None, "", false, true)]
    #[case::asked_for(Some(true), "", false, true)]
    #[case::not_asked_for(Some(false), "", false, false)]
    #[case::copied_by_annotation(None, "backup.velero.io/backup-volumes", false, false)]
    #[case::copied_even_where_asked_for(Some(true), "backup.velero.io/backup-volumes", false, false)]
    #[case::copied_by_default(None, "", true, false)]
    #[case::left_out_of_copies(None, "backup.velero.io/backup-volumes-excludes", true, true)]
    fn the_spec_and_the_pods_decide(
        #[case] snapshot: Option<bool>,
        #[case] annotation: &str,
        #[case] copy_files: bool,
        #[case] expected: bool,
    ) {
        let settings = VolumeSettings { copy_files, snapshot, ..VolumeSettings::default() };
        let wanted = is_wanted(&volume(), None, &pods(annotation), &settings);
        assert_eq!(wanted.is_ok(), expected, "{wanted:?}");
    }

    #[rstest]
    #[case("snapshot", true)]
    #[case("skip", false)]
    #[case("fs-backup", false)]
    fn policies_go_before_everything_else(#[case] action: &str, #[case] expected: bool) {
        let text = format!(
            "version: v1\nvolumePolicies:\n- conditions:\n    pvcLabels: {{tier: db}}\n  action: {{type: {action}}}"
        );
        let policies = Policies::parse(&text).unwrap();
        let settings = VolumeSettings {
            snapshot: Some(!expected),
            policies: Some(&policies),
            ..VolumeSettings::default()
        };
        let claim = json!({"metadata": {"labels": {"tier": "db"}}});
        let pods = pods("backup.velero.io/backup-volumes");
        assert_eq!(is_wanted(&volume(), Some(&claim), &pods, &settings).is_ok(), expected);
    }

    fn required(expressions: &Value) -> Value {
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}})
    }

    #[rstest]
    #[case::label(json!({"metadata": {"labels": {ZONE: "a", OLD_ZONE: "b"}}}), "a")]
    #[case::old_label(json!({"metadata": {"labels": {OLD_ZONE: "b"}}}), "b")]
    #[case::affinity(required(&json!([{"key": ZONE, "operator": "In", "values": ["c", "d"]}])), "c")]
    #[case::not_in(required(&json!([{"key": ZONE, "operator": "NotIn", "values": ["c"]}])), "")]
    #[case::another_key(required(&json!([{"key": "x", "operator": "In", "values": ["c"]}])), "")]
    #[case::gke(required(&json!([{"key": GKE_ZONE, "operator": "In", "values": ["c"]},
        {"key": GKE_ZONE, "operator": "In", "values": ["d"]}])), "c__d")]
    #[case::nowhere(json!({}), "")]
    fn the_zone_is_a_label_or_what_nodes_must_have(#[case] volume: Value, #[case] expected: &str) {
        assert_eq!(zone(&volume), expected);
    }

    #[test]
    fn tags_are_the_labels_and_where_it_belongs() {
        let made = tags(&[("a".to_owned(), "b".to_owned())].into(), "nightly", "pv");
        let made: Vec<_> = made.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(made, ["a=b", "velero.io/backup=nightly", "velero.io/pv=pv"]);
    }
}
