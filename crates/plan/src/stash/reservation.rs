//! Reservations: which invokers write to a repository. A ConfigMap for each restic repository ID has the record, so
//! that two Repository objects for one bucket count as one; it is changed by conditional update only. Takes the
//! record and a claim; gives the next record and whether the claim is granted. Called by the controllers of
//! BackupConfiguration and BackupBatch.
//!
//! A granted claim stays granted. Of the waiting claims the oldest is next: a younger one does not overtake an older
//! one that it conflicts with. A repository can be used by one BackupBatch; BackupConfigurations can share it, also
//! with the batch, as long as all hosts differ. While the data of a repository is being deleted, no other claim is
//! granted.

mod record;

pub use record::{LONGEST, RecordError, VERSION};

use jiff::Timestamp;
use lifeboat_api::stash::{GROUP, InvokerKind, TypedObjectRef};

use super::hosts::HostSet;

/// The key of the record in its ConfigMap.
pub const KEY: &str = "reservations.json";
/// The prefix of the ConfigMap's name; the repository's ID follows.
const CONFIG_MAP: &str = "lifeboat-stash-repository-";
/// The kind of the claim of a Repository whose data is being deleted: no other claim is granted next to it.
const DELETION: &str = "Repository";

/// The name of the ConfigMap for a repository, by its restic ID.
pub fn config_map_name(repository_id: &str) -> String {
    format!("{CONFIG_MAP}{repository_id}")
}

/// An invoker that writes to the repository, or wants to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub kind: InvokerKind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// When the invoker was created.
    pub created: Timestamp,
    /// The Repository object that it uses.
    pub repository: RepositoryName,
    /// The hosts that its members may have.
    pub hosts: Vec<HostSet>,
}

/// A Repository object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryName {
    pub namespace: String,
    pub name: String,
}

/// Who writes to a repository and who waits. No two holders conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    holders: Vec<Claim>,
    /// The oldest first.
    waiting: Vec<Claim>,
}

/// Whether an invoker may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Holds,
    Waits(Conflict),
    /// The record does not have it.
    Absent,
}

/// Why an invoker waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the repository is in use by {kind} {namespace}/{name}, {what}")]
pub struct Conflict {
    pub kind: InvokerKind,
    pub namespace: String,
    pub name: String,
    what: Shared,
}

/// What two invokers cannot share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Shared {
    #[error("whose data is being deleted; use another Repository")]
    Deletion,
    #[error("and takes one BackupBatch only; use another Repository")]
    Batch,
    #[error("which stores host {host:?} as well; use another Repository, or another target.alias")]
    Host { host: String },
}

impl Claim {
    /// The claim of a Repository whose data is about to be deleted.
    pub fn of_deletion(repository: RepositoryName, uid: &str, created: Timestamp) -> Self {
        Self {
            kind: InvokerKind::from(DELETION),
            namespace: repository.namespace.clone(),
            name: repository.name.clone(),
            uid: uid.to_owned(),
            created,
            repository,
            hosts: Vec::new(),
        }
    }

    /// Whether it is that of a Repository whose data is being deleted.
    pub fn is_deletion(&self) -> bool {
        self.kind.as_str() == DELETION
    }

    /// Why two claims cannot both be granted; it names the other claim.
    fn conflict(&self, other: &Self) -> Option<Conflict> {
        let both_are_batches =
            self.kind == InvokerKind::BackupBatch && other.kind == InvokerKind::BackupBatch;
        let pairs = self.hosts.iter().flat_map(|own| other.hosts.iter().map(move |host| (own, host)));
        let mut hosts = pairs.filter_map(|(own, host)| own.overlap(host));
        let what = match hosts.next() {
            _ if self.is_deletion() || other.is_deletion() => Shared::Deletion,
            _ if both_are_batches => Shared::Batch,
            Some(host) => Shared::Host { host },
            None => return None,
        };
        let (kind, namespace, name) = (other.kind.clone(), other.namespace.clone(), other.name.clone());
        Some(Conflict { kind, namespace, name, what })
    }
}

impl Record {
    pub fn holders(&self) -> &[Claim] {
        &self.holders
    }

    pub fn waiting(&self) -> &[Claim] {
        &self.waiting
    }

    /// The record with a claim, new or changed. A holder whose hosts changed keeps its claim if it conflicts with no
    /// other holder.
    #[must_use]
    pub fn with(&self, claim: &Claim) -> Self {
        if self.all().any(|known| known == claim) {
            return self.clone();
        }
        let held = self.holders.iter().any(|known| known.uid == claim.uid);
        let others = |list: &[Claim]| -> Vec<Claim> {
            list.iter().filter(|known| known.uid != claim.uid).cloned().collect()
        };
        let (mut holders, mut waiting) = (others(&self.holders), others(&self.waiting));
        let list = if held { &mut holders } else { &mut waiting };
        list.push(claim.clone());
        Self::settled(holders, waiting)
    }

    /// The record with the claim of a deletion, which never waits: None if any other object has a claim.
    #[must_use]
    pub fn with_deletion(&self, claim: &Claim) -> Option<Self> {
        self.all().all(|known| known.uid == claim.uid).then(|| self.with(claim))
    }

    /// The record without the invokers that no longer exist, or that now use another repository.
    #[must_use]
    pub fn without(&self, is_gone: impl Fn(&Claim) -> bool) -> Self {
        let left = |list: &[Claim]| list.iter().filter(|claim| !is_gone(claim)).cloned().collect();
        Self::settled(left(&self.holders), left(&self.waiting))
    }

    /// Whether the invoker with this UID may write.
    pub fn standing(&self, uid: &str) -> Standing {
        if self.holders.iter().any(|claim| claim.uid == uid) {
            return Standing::Holds;
        }
        let Some(place) = self.waiting.iter().position(|claim| claim.uid == uid) else {
            return Standing::Absent;
        };
        let mut ahead = self.holders.iter().chain(&self.waiting[..place]);
        let conflict = ahead.find_map(|other| self.waiting[place].conflict(other));
        conflict.map_or(Standing::Absent, Standing::Waits)
    }

    /// The holders that use a Repository object, as its status lists them.
    pub fn references(&self, repository: &RepositoryName) -> Vec<TypedObjectRef> {
        let own = self.holders.iter().filter(|claim| claim.repository == *repository && !claim.is_deletion());
        let reference = |claim: &Claim| TypedObjectRef {
            api_group: Some(GROUP.to_owned()),
            kind: Some(claim.kind.to_string()),
            namespace: Some(claim.namespace.clone()),
            name: claim.name.clone(),
        };
        own.map(reference).collect()
    }

    /// All claims, the granted ones first.
    pub fn all(&self) -> impl Iterator<Item = &Claim> {
        self.holders.iter().chain(&self.waiting)
    }

    /// Decides which claims are granted. Of two holders that conflict, the first one stays.
    fn settled(holders: Vec<Claim>, waiting: Vec<Claim>) -> Self {
        let mut record = Self { holders: Vec::new(), waiting };
        for claim in holders {
            let stays = record.holders.iter().all(|other| claim.conflict(other).is_none());
            let list = if stays { &mut record.holders } else { &mut record.waiting };
            list.push(claim);
        }
        let mut queue = std::mem::take(&mut record.waiting);
        queue.sort_by(|one, other| (one.created, &one.uid).cmp(&(other.created, &other.uid)));
        for claim in queue {
            let free = record.all().all(|other| claim.conflict(other).is_none());
            let list = if free { &mut record.holders } else { &mut record.waiting };
            list.push(claim);
        }
        record
    }
}

#[cfg(test)]
mod tests;
