//! Takes the snapshots of a volume group when the first of its claims is backed up; the other claims use theirs. A
//! failure is reported for each claim, and is not tried again in this attempt, because every try may take
//! `csiSnapshotTimeout`.

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
use super::objects::{PollTimer, Snapshots, text};

/// How many groups are remembered.
const MOST: usize = 256;

/// The lock of a group, with its failure if it failed.
type Turn = Arc<tokio::sync::Mutex<Option<GroupFailure>>>;

/// Why a claim has no snapshot of its group.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupError {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    /// The claims of the group cannot be read.
    #[error("{0}")]
    Members(ActionError),
    /// This claim cannot be snapshotted together with its group.
    #[error("{title}: {reason}")]
    NotWhole { title: String, reason: NotWhole },
    /// No claim of the group gets a snapshot in this attempt.
    #[error(transparent)]
    Failed(GroupFailure),
}

/// Why a group cannot be snapshotted together.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotWhole {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error("an earlier VolumeGroupSnapshot is still being deleted")]
    Earlier,
    #[error(
        "its claims {0} were snapshotted before others joined the group: back up again to snapshot all at one moment"
    )]
    Joined(String),
}

/// Why a group was not snapshotted.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error("it was not taken within {seconds} s (spec.csiSnapshotTimeout): {last}")]
    Late { seconds: u64, last: String },
}

/// Why the snapshot of a group failed, for all of its claims.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{title}: {reason}")]
pub(super) struct GroupFailure {
    title: String,
    reason: String,
}

/// How the snapshot of a claim in a group is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was taken with the group.
    Group,
    /// The cluster does not serve group snapshots: the claim is snapshotted alone.
    Alone,
}

#[derive(Default)]
pub(super) struct Groups {
    turns: Mutex<BTreeMap<String, Turn>>,
}

/// A group while its snapshot is taken.
struct Taking<'a> {
    groups: &'a GroupSnapshots,
    snapshots: &'a Snapshots,
    group: &'a VolumeGroup,
    members: Vec<Member>,
    limit: Duration,
}

impl Groups {
    /// Makes sure that the claim has a VolumeSnapshot of its group, with the name that the backup uses.
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

/// The claims that are in a group now.
async fn members(group: &VolumeGroup, cluster: &dyn Lookup) -> Result<Vec<Member>, ActionError> {
    let claims = GroupResource::new("", "persistentvolumeclaims");
    let found = cluster.list(&claims, Some(&group.namespace), &group.selector()).await;
    let mut members = Vec::new();
    for claim in found? {
        // Filtered here as well, in case the server ignores the selector.
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
    if let Err(error) = taking.run(&class, of_members).await {
        let left = taking.undo().await.err();
        let left = left.map(|error| format!("; parts of it are left behind: {}", error.chain()));
        let message = format!("{error} (VolumeGroupSnapshotClass {class}, driver {driver})");
        return Err(failed(format!("{message}{}", left.unwrap_or_default())));
    }
    Ok(())
}

impl Taking<'_> {
    async fn run(&self, class: &str, of_members: Option<&str>) -> Result<(), NotTaken> {
        self.groups.make(self.group, class).await?;
        let taken = self.taken().await?;
        // First of all: from here on the driver keeps the data, even if the objects are deleted.
        for member in &taken {
            self.groups.keep(&member.content, &self.group.backup).await?;
        }
        for member in &taken {
            self.give(member, of_members).await?;
        }
        // The snapshots are complete without this step; what is left of the group is removed with the backup.
        let kept = taken.iter().map(|member| text(&member.content, "/status/snapshotHandle").to_owned());
        if let Err(error) = self.remove_group(&kept.collect()).await {
            tracing::warn!(
                group = self.group.name(),
                error = error.chain(),
                "cannot delete a group snapshot; it is deleted with its backup"
            );
        }
        Ok(())
    }

    /// Checks that the group can be snapshotted together: no member has a snapshot already. An earlier group snapshot
    /// is adopted; one that is being deleted is waited for.
    async fn is_whole(&self) -> Result<(), NotWhole> {
        let timer = PollTimer::new(self.limit);
        loop {
            match self.groups.get(self.group).await {
                Ok(Some(found)) if snapshots::is_going(&found) => {}
                Ok(Some(_)) => return Ok(()),
                Ok(None) => break,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
            if !timer.pause().await {
                return Err(NotWhole::Earlier);
            }
        }
        let mut known = Vec::new();
        for member in &self.members {
            let name = self.group.snapshot_of(&member.claim);
            let found = self.snapshots.snapshot(&self.group.namespace, &name).await;
            if found?.is_some() {
                known.push(text(&member.claim, "/metadata/name"));
            }
        }
        match known.as_slice() {
            [] => Ok(()),
            known => Err(NotWhole::Joined(known.join(", "))),
        }
    }

    async fn remove_group(&self, kept: &BTreeSet<String>) -> Result<(), ApiError> {
        match self.groups.get(self.group).await? {
            Some(object) => self.groups.remove(&object, kept).await,
            None => Ok(()),
        }
    }

    /// Waits until the driver has snapshotted all claims. The error says what it waits for.
    async fn taken(&self) -> Result<Vec<MemberSnapshot>, NotTaken> {
        let timer = PollTimer::new(self.limit);
        loop {
            let last = match self.groups.state(self.group, &self.members).await {
                Ok(GroupState::Taken(taken)) => return Ok(taken),
                Ok(GroupState::Waiting(message)) => message,
                Err(error) if error.is_transient() => error.chain(),
                Err(error) => return Err(error.into()),
            };
            if !timer.pause().await {
                let seconds = self.limit.as_secs();
                return Err(NotTaken::Late { seconds, last });
            }
        }
    }

    /// Creates the backup's own snapshot of a member.
    async fn give(&self, member: &MemberSnapshot, class: Option<&str>) -> Result<(), ApiError> {
        self.snapshots.make_content(&self.group.content(member, class)).await?;
        self.snapshots.make(&self.group.snapshot(member, class)).await
    }

    /// Removes everything of a group that is incomplete.
    async fn undo(&self) -> Result<(), ApiError> {
        let mut first = self.remove_group(&BTreeSet::new()).await;
        for member in &self.members {
            let name = self.group.snapshot_of(&member.claim);
            let done = self.snapshots.remove(&self.group.namespace, &name, Some(&name), true).await;
            first = first.and(done);
        }
        first
    }
}
