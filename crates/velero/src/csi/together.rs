//! Takes the snapshots of a volume group when the first of its claims comes by; the others find theirs. What came to nothing
//! is told to each of them, and is not tried again in this attempt: every try may take `csiSnapshotTimeout`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::velero::Backup;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::catalogue::GroupResource;
use lifeboat_plan::transfer::snapshots;
use lifeboat_plan::velero::backup::ATTEMPT;
use lifeboat_plan::velero::csi::{self, GroupState, Member, MemberSnapshot, VolumeGroup};
use lifeboat_plugin::actions::{ActionError, Lookup};
use serde_json::Value;

use super::group::GroupSnapshots;
use super::objects::{Patience, Snapshots, text};

/// So many groups are remembered.
const MOST: usize = 256;

/// Why a group came to nothing, where it did.
type Turn = Arc<tokio::sync::Mutex<Option<GroupFailure>>>;

/// Why a claim has no snapshot of its group.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupError {
    #[error("{}", .0.chain())]
    Api(#[from] ApiError),
    /// The claims of the group cannot be read.
    #[error("{0}")]
    Members(ActionError),
    /// The group cannot be taken as one for this claim.
    #[error("{title}: {reason}")]
    NotWhole { title: String, reason: String },
    /// No claim of the group gets a snapshot in this attempt.
    #[error(transparent)]
    Failed(GroupFailure),
}

/// Why the snapshot of a group failed, for all of its claims.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{title}: {reason}")]
pub(super) struct GroupFailure {
    title: String,
    reason: String,
}

/// Where the snapshot of a claim in a group comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was taken with the group.
    Group,
    /// The cluster takes no group snapshots.
    Alone,
}

#[derive(Default)]
pub(super) struct Groups {
    turns: Mutex<BTreeMap<String, Turn>>,
}

/// One group on its way.
struct Taking<'a> {
    groups: &'a GroupSnapshots,
    snapshots: &'a Snapshots,
    group: &'a VolumeGroup,
    members: Vec<Member>,
    limit: Duration,
}

impl Groups {
    /// Makes sure that the claim has the VolumeSnapshot of its group, of the backup's own name.
    pub(super) async fn take(
        &self,
        snapshots: &Snapshots,
        group: &VolumeGroup,
        claim: &Value,
        backup: &Backup,
        cluster: &dyn Lookup,
        limit: Duration,
    ) -> Result<Origin, GroupError> {
        let Some(groups) = GroupSnapshots::open(snapshots).await? else { return Ok(Origin::Alone) };
        let attempt = backup.annotations().get(ATTEMPT).map_or("", String::as_str);
        let turn = self.turn(&format!("{}/{}/{attempt}", group.namespace, group.name()));
        let mut failed = turn.lock().await;
        if let Some(failure) = failed.as_ref() {
            return Err(GroupError::Failed(failure.clone()));
        }
        match take(&groups, snapshots, group, claim, backup, cluster, limit).await {
            Ok(()) => Ok(Origin::Group),
            Err(error) => {
                if let GroupError::Failed(failure) = &error {
                    *failed = Some(failure.clone());
                }
                Err(error)
            }
        }
    }

    fn turn(&self, key: &str) -> Turn {
        let mut turns = locked(&self.turns);
        if turns.len() >= MOST {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        turns.entry(key.to_owned()).or_default().clone()
    }
}

/// Who is in a group now.
async fn members(group: &VolumeGroup, cluster: &dyn Lookup) -> Result<Vec<Member>, ActionError> {
    let claims = GroupResource::new("", "persistentvolumeclaims");
    let found = cluster.list(&claims, Some(&group.namespace), &group.selector()).await;
    let mut members = Vec::new();
    for claim in found? {
        // Also by what the objects say: not every server selects.
        let labelled = claim["metadata"]["labels"][group.key.as_str()] == *group.value;
        if !labelled || snapshots::is_going(&claim) || text(&claim, "/metadata/namespace") != group.namespace
        {
            continue;
        }
        let volume = match snapshots::volume_of(&claim) {
            Some(id) => cluster.get(&id).await?,
            None => None,
        };
        members.push(Member { claim, volume });
    }
    Ok(members)
}

async fn take(
    groups: &GroupSnapshots,
    snapshots: &Snapshots,
    group: &VolumeGroup,
    claim: &Value,
    backup: &Backup,
    cluster: &dyn Lookup,
    limit: Duration,
) -> Result<(), GroupError> {
    let own = snapshots.snapshot(&group.namespace, &group.snapshot_of(claim)).await;
    if own?.is_some() {
        return Ok(());
    }
    let members = members(group, cluster).await.map_err(GroupError::Members)?;
    let names: Vec<&str> = members.iter().map(|member| text(&member.claim, "/metadata/name")).collect();
    let title = format!("{}, claims {}", group.title(), names.join(", "));
    let failed = |reason: String| GroupError::Failed(GroupFailure { title: title.clone(), reason });
    let driver = group.driver(&members).map_err(|error| failed(error.to_string()))?;
    let classes = groups.classes().await.map_err(|error| failed(error.chain()))?;
    let class = csi::of_group(&classes, &driver, claim, backup.annotations());
    let class = text(class.map_err(|error| failed(error.to_string()))?, "/metadata/name").to_owned();
    let of_members = cluster.list(&snapshots::classes(), None, "").await.unwrap_or_default();
    let of_members = csi::of_claim(&of_members, &driver, claim, backup.annotations()).ok();
    let of_members = of_members.map(|class| text(class, "/metadata/name"));
    let taking = Taking { groups, snapshots, group, members, limit };
    let whole = taking.is_whole().await;
    whole.map_err(|reason| GroupError::NotWhole { title: title.clone(), reason })?;
    if let Err(message) = taking.run(&class, of_members).await {
        let left = taking.undo().await.err();
        let left = left.map(|error| format!("; parts of it are left behind: {}", error.chain()));
        let message = format!("{message} (VolumeGroupSnapshotClass {class}, driver {driver})");
        return Err(failed(format!("{message}{}", left.unwrap_or_default())));
    }
    Ok(())
}

impl Taking<'_> {
    async fn run(&self, class: &str, of_members: Option<&str>) -> Result<(), String> {
        self.groups.make(self.group, class).await.map_err(|error| error.chain())?;
        let taken = self.taken().await?;
        let own = async {
            // First of all: from here on nobody's deletion takes the data.
            for member in &taken {
                self.groups.keep(&member.content, &self.group.backup).await?;
            }
            for member in &taken {
                self.give(member, of_members).await?;
            }
            Ok(())
        };
        own.await.map_err(|error: ApiError| error.chain())?;
        // The snapshots are good without: what stays of the group is cleared with the backup.
        let kept = taken.iter().map(|member| text(&member.content, "/status/snapshotHandle").to_owned());
        if let Err(error) = self.put_away(&kept.collect()).await {
            tracing::warn!(
                group = self.group.name(),
                error = error.chain(),
                "a group snapshot stays for now"
            );
        }
        Ok(())
    }

    /// Whether the group can be taken as one: no member has a snapshot from before. An earlier group snapshot is gone on
    /// with; one that is being deleted goes first.
    async fn is_whole(&self) -> Result<(), String> {
        let patience = Patience::new(self.limit);
        loop {
            match self.groups.get(self.group).await {
                Ok(Some(found)) if snapshots::is_going(&found) => {}
                Ok(Some(_)) => return Ok(()),
                Ok(None) => break,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.chain()),
            }
            if !patience.pause().await {
                return Err("an earlier VolumeGroupSnapshot is being deleted and does not go".to_owned());
            }
        }
        let mut known = Vec::new();
        for member in &self.members {
            let name = self.group.snapshot_of(&member.claim);
            let found = self.snapshots.snapshot(&self.group.namespace, &name).await;
            if found.map_err(|error| error.chain())?.is_some() {
                known.push(text(&member.claim, "/metadata/name"));
            }
        }
        match known.as_slice() {
            [] => Ok(()),
            known => Err(format!(
                "its claims {} were snapshotted before others joined it: back up again for all at one moment",
                known.join(", ")
            )),
        }
    }

    async fn put_away(&self, kept: &BTreeSet<String>) -> Result<(), ApiError> {
        match self.groups.get(self.group).await? {
            Some(object) => self.groups.put_away(&object, kept).await,
            None => Ok(()),
        }
    }

    /// Waits until the driver has fixed all claims in time. The error says what keeps it.
    async fn taken(&self) -> Result<Vec<MemberSnapshot>, String> {
        let patience = Patience::new(self.limit);
        loop {
            let last = match self.groups.look(self.group, &self.members).await {
                Ok(GroupState::Taken(taken)) => return Ok(taken),
                Ok(GroupState::Waiting(message)) => message,
                Err(error) if error.is_transient() => error.chain(),
                Err(error) => return Err(error.chain()),
            };
            if !patience.pause().await {
                let seconds = self.limit.as_secs();
                return Err(format!("it was not taken within {seconds} s (spec.csiSnapshotTimeout): {last}"));
            }
        }
    }

    /// The backup's own snapshot of a member.
    async fn give(&self, member: &MemberSnapshot, class: Option<&str>) -> Result<(), ApiError> {
        self.snapshots.make_content(&self.group.content(member, class)).await?;
        self.snapshots.make(&self.group.snapshot(member, class)).await
    }

    /// A group that is not whole is none: nothing of it stays.
    async fn undo(&self) -> Result<(), ApiError> {
        let mut first = self.put_away(&BTreeSet::new()).await;
        for member in &self.members {
            let name = self.group.snapshot_of(&member.claim);
            let done = self.snapshots.take_away(&self.group.namespace, &name, Some(&name), true).await;
            first = first.and(done);
        }
        first
    }
}
