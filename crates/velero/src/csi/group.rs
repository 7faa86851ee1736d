//! Volume groups in the cluster: the VolumeGroupSnapshot that snapshots all claims of a group at one moment, and the
//! objects that its controller creates. The decisions are in `lifeboat_plan::velero::csi`. Every step can be
//! repeated: the group snapshot has the same name in every attempt of a backup, and is deleted only when every member
//! has a snapshot of the backup's own.

use std::collections::BTreeSet;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use lifeboat_api::common::BackupUid;
use lifeboat_cluster::discovery::preferred_version;
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_plan::transfer::snapshots::{self, SERVER};
use lifeboat_plan::velero::csi::{
    self, GROUP_SNAPSHOTS, GroupState, Member, OF_BACKUP, OF_GROUP, OfBackup, VolumeGroup, group_content,
    group_state, is_of_group,
};
use serde_json::{Value, json};

use super::objects::{Snapshots, create, fine_if_gone, labelled, text};

const BEING_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";

/// Access to the cluster's group snapshots.
pub(super) struct GroupSnapshots {
    client: Client,
    version: String,
    snapshots: Snapshots,
}

impl GroupSnapshots {
    /// None if the cluster does not serve group snapshots.
    pub(super) async fn open(snapshots: &Snapshots) -> Result<Option<Self>, ApiError> {
        let client = snapshots.client().clone();
        let version = preferred_version(&client, GROUP_SNAPSHOTS).await?;
        Ok(version.map(|version| Self { client, version, snapshots: snapshots.clone() }))
    }

    fn all(&self, kind: &str) -> Api<DynamicObject> {
        let plural = if kind.ends_with('s') { "es" } else { "s" };
        let plural = format!("{}{plural}", kind.to_lowercase());
        let resource = objects::resource(GROUP_SNAPSHOTS, &self.version, kind, &plural);
        Api::all_with(self.client.clone(), &resource)
    }

    fn of(&self, namespace: &str) -> Api<DynamicObject> {
        let resource =
            objects::resource(GROUP_SNAPSHOTS, &self.version, "VolumeGroupSnapshot", "volumegroupsnapshots");
        objects::namespaced(&self.client, namespace, &resource)
    }

    fn contents(&self) -> Api<DynamicObject> {
        self.all("VolumeGroupSnapshotContent")
    }

    pub(super) async fn classes(&self) -> Result<Vec<Value>, ApiError> {
        let found = self.all("VolumeGroupSnapshotClass").list(&ListParams::default()).await;
        let found = found.attempt("list volumegroupsnapshotclasses")?;
        Ok(found.items.iter().map(objects::to_json).collect())
    }

    pub(super) async fn get(&self, group: &VolumeGroup) -> Result<Option<Value>, ApiError> {
        let (namespace, name) = (&group.namespace, group.name());
        let found = self.of(namespace).get_opt(&name).await;
        let found = found.attempt(format!("read VolumeGroupSnapshot {namespace}/{name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    /// Creates the group snapshot; one with this name that exists is adopted, because names are unique to a backup.
    pub(super) async fn make(&self, group: &VolumeGroup, class: &str) -> Result<(), ApiError> {
        let attempt = format!("create VolumeGroupSnapshot {}/{}", group.namespace, group.name());
        create(&self.of(&group.namespace), &group.request(&self.version, class), attempt).await
    }

    /// Reads the state of the group snapshot.
    pub(super) async fn state(
        &self,
        group: &VolumeGroup,
        members: &[Member],
    ) -> Result<GroupState, ApiError> {
        let Some(object) = self.get(group).await? else {
            return Ok(GroupState::Waiting("the VolumeGroupSnapshot was deleted".to_owned()));
        };
        let name = group_content(&object);
        let content = self.contents().get_opt(&name).await;
        let content = content.attempt(format!("read VolumeGroupSnapshotContent {name}"))?;
        let made = self.made_of(&object).await?;
        Ok(group_state(&object, content.as_ref().map(objects::to_json).as_ref(), members, &made))
    }

    /// The VolumeSnapshots that were created for a group snapshot, each with its content.
    async fn made_of(&self, group: &Value) -> Result<Vec<(Value, Option<Value>)>, ApiError> {
        let mut made = Vec::new();
        for snapshot in self.snapshots.in_namespace(text(group, "/metadata/namespace")).await? {
            if !is_of_group(&snapshot, group) {
                continue;
            }
            let content = match snapshots::bound_content(&snapshot) {
                Some(content) => self.snapshots.content(content).await?,
                None => None,
            };
            made.push((snapshot, content));
        }
        Ok(made)
    }

    /// Makes the driver keep the snapshot of a group's content, whatever happens to the content from now on.
    pub(super) async fn keep(&self, content: &Value, backup: &OfBackup) -> Result<(), ApiError> {
        let Some(mut patch) = csi::content_patch(content, backup) else { return Ok(()) };
        // The backup's own content replaces this one.
        patch["metadata"]["labels"] = json!({OF_GROUP: backup.uid, SERVER: backup.namespace});
        self.snapshots.change_content(text(content, "/metadata/name"), &patch).await
    }

    /// Deletes a group snapshot, the objects that its controller created, and the driver's snapshots, except those
    /// whose handles are in `kept`.
    pub(super) async fn remove(&self, group: &Value, kept: &BTreeSet<String>) -> Result<(), ApiError> {
        let (namespace, name) = (text(group, "/metadata/namespace"), text(group, "/metadata/name"));
        let label = |key: &str| group["metadata"]["labels"][key].as_str().unwrap_or_default();
        let labels = json!({OF_GROUP: label(OF_BACKUP), SERVER: label(SERVER)});
        let policy = |everything: bool| if everything { "Delete" } else { "Retain" };
        let content = group_content(group);
        let patch = json!({
            "metadata": {"labels": labels, "annotations": {BEING_DELETED: "yes"}},
            "spec": {"deletionPolicy": policy(kept.is_empty())},
        });
        fine_if_gone(self.change_content(&content, &patch).await)?;
        let mut parts = Vec::new();
        for (snapshot, content) in self.made_of(group).await? {
            let everything = content.as_ref().map_or(kept.is_empty(), |content| is_idle(content, kept));
            let name = text(&snapshot, "/metadata/name").to_owned();
            let content = content.as_ref().map(|content| text(content, "/metadata/name").to_owned());
            if let Some(content) = &content {
                let patch = json!({"metadata": {"labels": labels},
                    "spec": {"deletionPolicy": policy(everything)}});
                fine_if_gone(self.snapshots.change_content(content, &patch).await)?;
            }
            parts.push((name, content, everything));
        }
        // Before its members: the controller would create missing members of a group snapshot again.
        let deleted = self.of(namespace).delete(name, &DeleteParams::default()).await;
        fine_if_gone(deleted.attempt(format!("delete VolumeGroupSnapshot {namespace}/{name}")).map(drop))?;
        for (name, content, everything) in parts {
            self.snapshots.remove(namespace, &name, content.as_deref(), everything).await?;
        }
        self.delete_content(&content).await
    }

    /// Deletes all group snapshots of a backup, also incomplete ones, as [`Self::remove`] does. Objects that are
    /// being deleted keep their deletion policy.
    pub(super) async fn clear(&self, uid: &BackupUid, kept: &BTreeSet<String>) -> Result<(), ApiError> {
        let mut first = Ok(());
        let stays = |object: &Value| !snapshots::is_going(object);
        let groups = labelled(&self.all("VolumeGroupSnapshot"), OF_BACKUP, Some(uid.as_str())).await?;
        for group in groups.iter().filter(|group| stays(group)) {
            first = first.and(self.remove(group, kept).await);
        }
        let contents = self.snapshots.labelled_contents(OF_GROUP, Some(uid.as_str())).await?;
        for content in contents.iter().filter(|content| stays(content)) {
            let of = |field: &str| text(content, &format!("/spec/volumeSnapshotRef/{field}"));
            let (name, everything) = (text(content, "/metadata/name"), is_idle(content, kept));
            let done = self.snapshots.remove(of("namespace"), of("name"), Some(name), everything).await;
            first = first.and(done);
        }
        for content in
            labelled(&self.contents(), OF_GROUP, Some(uid.as_str())).await?.iter().filter(|one| stays(one))
        {
            first = first.and(self.delete_content(text(content, "/metadata/name")).await);
        }
        first
    }

    /// The UIDs of all backups of a server that have objects of a group snapshot in the cluster.
    pub(super) async fn backups(&self, server: &str) -> Result<Vec<BackupUid>, ApiError> {
        let groups = labelled(&self.all("VolumeGroupSnapshot"), OF_BACKUP, None).await?;
        let mut parts = self.snapshots.labelled_contents(OF_GROUP, None).await?;
        parts.extend(labelled(&self.contents(), OF_GROUP, None).await?);
        let mut uids: Vec<BackupUid> = csi::backups_of(&groups, OF_BACKUP, server).collect();
        uids.extend(csi::backups_of(&parts, OF_GROUP, server));
        Ok(uids)
    }

    async fn change_content(&self, name: &str, patch: &Value) -> Result<(), ApiError> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let changed = self.contents().patch(name, &params, &Patch::Merge(patch)).await;
        changed.attempt(format!("change VolumeGroupSnapshotContent {name}")).map(drop)
    }

    async fn delete_content(&self, name: &str) -> Result<(), ApiError> {
        let deleted = self.contents().delete(name, &DeleteParams::default()).await;
        fine_if_gone(deleted.attempt(format!("delete VolumeGroupSnapshotContent {name}")).map(drop))
    }
}

/// Whether the snapshot of a content is not among the kept ones.
fn is_idle(content: &Value, kept: &BTreeSet<String>) -> bool {
    !kept.contains(text(content, "/status/snapshotHandle"))
}
