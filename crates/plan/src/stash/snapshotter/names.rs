//! Names and labels of the VolumeSnapshots of a session. The name is derived from the session and the claim, so that
//! after a crash the next server finds the existing snapshots.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::claim_of;
use crate::label;
use crate::stash::session::{InvokerId, TargetKey, labels};
use crate::transfer::snapshots::{GROUP, VERSION};

/// Label of a VolumeSnapshot: the UID of the BackupSession that took it.
pub const SESSION: &str = "lifeboat.io/backup-session";

/// The longest name of an object.
const LONGEST: usize = 253;
/// The length of the longest suffix after a claim's name: a Unix time and a hash.
const APPENDED: usize = "-9223372036854775807-01234567".len();
/// The minimum number of digits of a Unix time. Names that users choose may end in shorter numbers.
const DIGITS: usize = 10;

/// The session that takes snapshots.
#[derive(Clone, Debug)]
pub struct SnapshotOwner {
    pub invoker: InvokerId,
    /// The name of the session; `uid` and `created` are its UID and creation time.
    pub session: String,
    pub uid: String,
    pub created: Timestamp,
}

/// What to do about the snapshot of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Take it under this name.
    Take(String),
    /// The session has taken it already.
    Adopt(String),
}

/// Another object has the name that a session needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("VolumeSnapshot {name} exists and was not made by this session; delete or rename it")]
pub struct NotOurs {
    pub name: String,
}

impl SnapshotOwner {
    /// The names that the snapshot of a claim may have. The first is upstream's; the second, with a hash of the session's UID, is
    /// used if another session has the first, because two invokers of one claim may be due in the same second.
    pub fn names(&self, claim: &str) -> [String; 2] {
        let base = format!("{}-{}", label::shortened(claim, LONGEST - APPENDED), self.second());
        let own = format!("{base}-{}", &label::digest(&self.uid)[..8]);
        [base, own]
    }

    /// The Unix time in the session's name; if the name has none, the time at which the session was created.
    fn second(&self) -> i64 {
        let mut parts = self.session.rsplit('-').take(2);
        let is_time = |part: &&str| part.len() >= DIGITS && part.bytes().all(|byte| byte.is_ascii_digit());
        parts.find(is_time).and_then(|part| part.parse().ok()).unwrap_or(self.created.as_second())
    }

    /// Chooses the name of the snapshot of a claim, or finds the snapshot that the session has taken already. `find` returns the
    /// VolumeSnapshot with a name.
    pub fn choose<'a>(
        &self,
        claim: &str,
        find: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<Choice, NotOurs> {
        let [plain, own] = self.names(claim);
        // The second name is checked first: if it is in use, the first one was already taken.
        match find(&own) {
            Some(found) if self.owns(found, claim) => return Ok(Choice::Adopt(own)),
            Some(_) => return Err(NotOurs { name: own }),
            None => {}
        }
        match find(&plain) {
            None => Ok(Choice::Take(plain)),
            Some(found) if self.owns(found, claim) => Ok(Choice::Adopt(plain)),
            Some(found) if owned_by_session(found) => Ok(Choice::Take(own)),
            Some(_) => Err(NotOurs { name: plain }),
        }
    }

    /// Whether a VolumeSnapshot was taken of this claim by the session.
    pub fn owns(&self, snapshot: &Value, claim: &str) -> bool {
        snapshot["metadata"]["labels"][SESSION] == *self.uid && claim_of(snapshot) == claim
    }

    /// The VolumeSnapshot to create. No object owns it, because deleting a session or its invoker must not delete
    /// data.
    pub fn snapshot(&self, name: &str, claim: &str, class: &str, target: Option<&TargetKey>) -> Value {
        let mut labels: BTreeMap<String, String> = labels(&self.invoker, target);
        labels.insert(SESSION.to_owned(), self.uid.clone());
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": self.invoker.namespace, "labels": labels},
            "spec": {"volumeSnapshotClassName": class, "source": {"persistentVolumeClaimName": claim}},
        })
    }
}

/// Whether a session took the snapshot, this one or another.
pub fn owned_by_session(snapshot: &Value) -> bool {
    snapshot["metadata"]["labels"][SESSION].as_str().is_some_and(|uid| !uid.is_empty())
}
