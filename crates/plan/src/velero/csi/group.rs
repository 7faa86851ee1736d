//! Claims that share a label are snapshotted at one moment, through a VolumeGroupSnapshot. It is only temporary: as
//! soon as the driver has taken the snapshots of all claims, each gets a VolumeSnapshot and a content of the backup's
//! own, as if it had been taken alone, and the group is deleted without its snapshots. The members' original objects
//! are not adopted: the snapshot controller deletes them with their group, and restores their owner references when
//! they are removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::taken::{policy_before, snapshot_labels};
use super::{
    DELETION_POLICY, GROUP_HANDLE, OF_BACKUP, OfBackup, RESTORE_SIZE, restore_size, snapshot_name, text,
};
use crate::label;
use crate::transfer::snapshots::{
    Fixed, GROUP, SERVER, VERSION, bound_content, driver_of, fixed, is_going, reported_error,
};

/// The API group of group snapshots.
pub const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io";

/// Label with the node of the driver that took a snapshot, for drivers that run per node.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

/// A volume group of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeGroup {
    pub namespace: String,
    /// The label that its claims share, and its value.
    pub key: String,
    pub value: String,
    pub backup: OfBackup,
}

/// A claim of a group, with its volume if it is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub claim: Value,
    pub volume: Option<Value>,
}

/// The snapshot that the driver took of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSnapshot {
    pub claim: Value,
    /// The content that the group's controller created.
    pub content: Value,
}

/// The state of a group snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupState {
    Taken(Vec<MemberSnapshot>),
    /// Not yet taken; the message that the objects report.
    Waiting(String),
}

/// Why the claims of a group cannot be snapshotted together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    #[error("no volume of a CSI driver is bound to its claims {claims}: remove the label from them")]
    NotBound { claims: String },
    #[error("no claim has its label any more")]
    Empty,
    #[error(
        "its claims are of several drivers, which take no snapshot together ({drivers}): give each driver's claims a value of \
         their own"
    )]
    SeveralDrivers { drivers: String },
}

impl VolumeGroup {
    /// The group of a claim; None if it belongs to none.
    pub fn of(claim: &Value, key: &str, backup: &OfBackup) -> Option<Self> {
        let value = claim["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())?;
        (!key.is_empty()).then(|| Self {
            namespace: text(claim, "/metadata/namespace").to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            backup: backup.clone(),
        })
    }

    pub fn selector(&self) -> String {
        format!("{}={}", self.key, self.value)
    }

    /// The group's name in messages.
    pub fn title(&self) -> String {
        format!("volume group {} of namespace {} (label {})", self.value, self.namespace, self.key)
    }

    /// The name of its VolumeGroupSnapshot. It is the same in every attempt of the backup, so that no snapshot is
    /// taken twice.
    pub fn name(&self) -> String {
        let Self { namespace, key, value, backup } = self;
        let digest = label::digest(&format!("{}/{namespace}/{key}/{value}", backup.uid));
        format!("velero-group-{}", &digest[..16])
    }

    /// The name of a member's VolumeSnapshot.
    pub fn snapshot_of(&self, claim: &Value) -> String {
        snapshot_name(text(claim, "/metadata/name"), text(claim, "/metadata/uid"), &self.backup.uid)
    }

    /// The driver of all members. The error names the claims that cannot be in one group.
    pub fn driver(&self, members: &[Member]) -> Result<String, GroupError> {
        let mut drivers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut without = Vec::new();
        for member in members {
            let name = text(&member.claim, "/metadata/name");
            match member.volume.as_ref().and_then(driver_of) {
                Some(driver) => drivers.entry(driver).or_default().push(name),
                None => without.push(name),
            }
        }
        if !without.is_empty() {
            return Err(GroupError::NotBound { claims: without.join(", ") });
        }
        match drivers.len() {
            0 => Err(GroupError::Empty),
            1 => Ok(drivers.keys().next().copied().unwrap_or_default().to_owned()),
            _ => {
                let of =
                    |(driver, claims): (&&str, &Vec<&str>)| format!("{driver} has {}", claims.join(", "));
                let drivers: Vec<String> = drivers.iter().map(of).collect();
                Err(GroupError::SeveralDrivers { drivers: drivers.join("; ") })
            }
        }
    }

    /// The VolumeGroupSnapshot that requests all snapshots at once.
    pub fn request(&self, version: &str, class: &str) -> Value {
        json!({
            "apiVersion": format!("{GROUP_SNAPSHOTS}/{version}"),
            "kind": "VolumeGroupSnapshot",
            "metadata": {
                "name": self.name(),
                "namespace": self.namespace,
                "labels": {
                    "velero.io/backup-name": label::value(&self.backup.name),
                    "velero.io/backup-uid": self.backup.uid,
                    OF_BACKUP: self.backup.uid,
                    SERVER: self.backup.namespace,
                },
            },
            "spec": {
                "volumeGroupSnapshotClassName": class,
                "source": {"selector": {"matchLabels": {self.key.as_str(): self.value}}},
            },
        })
    }

    /// The content of a member, with the handle from the driver; for a VolumeSnapshot of the same name. `class`: one
    /// of its driver, if there is one.
    pub fn content(&self, member: &MemberSnapshot, class: Option<&str>) -> Value {
        let (of, name) = (&member.content, self.snapshot_of(&member.claim));
        let mut labels = self.labels();
        if let Some(node) = of["metadata"]["labels"][MANAGED_BY].as_str() {
            labels.insert(MANAGED_BY.to_owned(), json!(node));
        }
        let mut made = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "VolumeSnapshotContent",
            "metadata": {"name": name, "labels": labels, "annotations": annotations(of)},
            "spec": {
                "deletionPolicy": "Retain",
                "driver": of["spec"]["driver"],
                "source": {"snapshotHandle": of["status"]["snapshotHandle"]},
                "volumeSnapshotRef": {"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "VolumeSnapshot",
                    "namespace": self.namespace, "name": name},
            },
        });
        if let Some(class) = class {
            made["spec"]["volumeSnapshotClassName"] = json!(class);
        }
        if of["spec"]["sourceVolumeMode"].is_string() {
            made["spec"]["sourceVolumeMode"] = of["spec"]["sourceVolumeMode"].clone();
        }
        made
    }

    /// The VolumeSnapshot of a member, bound to that content.
    pub fn snapshot(&self, member: &MemberSnapshot, class: Option<&str>) -> Value {
        let name = self.snapshot_of(&member.claim);
        let mut made = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": self.namespace,
                "labels": snapshot_labels(&member.claim, &self.backup)},
            "spec": {"source": {"volumeSnapshotContentName": name}},
        });
        if let Some(class) = class {
            made["spec"]["volumeSnapshotClassName"] = json!(class);
        }
        made
    }

    fn labels(&self) -> Map<String, Value> {
        snapshot_labels(&json!({}), &self.backup)
    }
}

/// The annotations that a member's own content keeps from the group's content: the Secrets for its deletion, and the
/// values that a driver without snapshot listing does not report again.
fn annotations(of: &Value) -> Map<String, Value> {
    let known = of["metadata"]["annotations"].as_object().into_iter().flatten();
    let mut kept: Map<String, Value> = known
        .filter(|(key, _)| key.contains("secret"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    kept.insert(DELETION_POLICY.to_owned(), policy_before(of).clone());
    kept.insert(GROUP_HANDLE.to_owned(), json!(group_handle(of)));
    if let Some(size) = restore_size(of) {
        kept.insert(RESTORE_SIZE.to_owned(), json!(size.to_string()));
    }
    kept
}

/// The name of a group snapshot's content: the one it is bound to, or the one that its controller will create.
pub fn group_content(group: &Value) -> String {
    match text(group, "/status/boundVolumeGroupSnapshotContentName") {
        "" => format!("groupsnapcontent-{}", text(group, "/metadata/uid")),
        name => name.to_owned(),
    }
}

/// Whether a VolumeSnapshot was created by a group snapshot.
pub fn is_of_group(snapshot: &Value, group: &Value) -> bool {
    let uid = text(group, "/metadata/uid");
    let owners = snapshot["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owned = owners.into_iter().any(|owner| {
        text(owner, "/kind") == "VolumeGroupSnapshot" && !uid.is_empty() && text(owner, "/uid") == uid
    });
    owned || text(snapshot, "/status/volumeGroupSnapshotName") == text(group, "/metadata/name")
}

/// Whether the snapshots of all members are final. `content`: of the group snapshot; `made`: the VolumeSnapshots that
/// it created, each with its content.
pub fn group_state(
    group: &Value,
    content: Option<&Value>,
    members: &[Member],
    made: &[(Value, Option<Value>)],
) -> GroupState {
    if is_going(group) {
        return GroupState::Waiting("the VolumeGroupSnapshot was deleted".to_owned());
    }
    let (mut taken, mut missing) = (Vec::new(), Vec::new());
    let mut said = reported_error(group).or(content.and_then(reported_error));
    for member in members {
        let name = text(&member.claim, "/metadata/name");
        let found = made.iter().find(|(snapshot, _)| {
            text(snapshot, "/spec/source/persistentVolumeClaimName") == name
                && bound_content(snapshot).is_some()
        });
        let snapshot = found.map(|(snapshot, content)| (fixed(snapshot, content.as_ref()), content));
        match snapshot {
            Some((Fixed::Yes, Some(content))) => {
                taken.push(MemberSnapshot { claim: member.claim.clone(), content: content.clone() });
            }
            Some((Fixed::Waiting(message), _)) => {
                missing.push(name);
                said = said.or(Some(message));
            }
            _ => missing.push(name),
        }
    }
    if missing.is_empty() {
        return GroupState::Taken(taken);
    }
    let message = "no snapshot controller and driver that take group snapshots have answered; are they running, with the feature \
                 CSIVolumeGroupSnapshot?";
    let said = said.unwrap_or_else(|| message.to_owned());
    GroupState::Waiting(format!("claims {} have no snapshot yet: {said}", missing.join(", ")))
}

/// The handle of the group snapshot that a content belongs to; empty if the snapshot was taken alone.
pub fn group_handle(content: &Value) -> String {
    let reported = text(content, "/status/volumeGroupSnapshotHandle");
    let noted = content["metadata"]["annotations"][GROUP_HANDLE].as_str().unwrap_or_default();
    if reported.is_empty() { noted } else { reported }.to_owned()
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
