//! The lock file, as restic writes it.

use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};

use super::LockKind;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, LockId};
use crate::repository::{Identity, Repository};

/// The holder of a lock, and the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockFile {
    #[serde(with = "crate::time::rfc3339")]
    time: Zoned,
    #[serde(default)]
    pub exclusive: bool,
    #[serde(default)]
    pub hostname: String,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub pid: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uid: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gid: u32,
}

impl LockFile {
    pub(super) fn new(kind: LockKind, identity: &Identity, now: Timestamp) -> Self {
        Self {
            time: now.to_zoned(jiff::tz::TimeZone::UTC),
            exclusive: kind == LockKind::Exclusive,
            hostname: identity.host.clone(),
            username: identity.user.clone(),
            pid: i64::from(std::process::id()),
            uid: identity.uid,
            gid: identity.gid,
        }
    }

    /// When it was created or last renewed, by its holder's clock.
    pub fn time(&self) -> Timestamp {
        self.time.timestamp()
    }

    /// Reads the content of a lock as it is stored, for a process that takes it from others.
    pub fn read(repository: &Repository, content: &[u8]) -> Result<Self> {
        const WHAT: &str = "a lock";
        let plain = repository.decode(FileKind::Lock, WHAT, content.to_vec())?;
        serde_json::from_slice(&plain).map_err(|error| Error::damaged(WHAT, error))
    }

    pub(super) fn renewed(&self, now: Timestamp) -> Self {
        Self { time: now.to_zoned(jiff::tz::TimeZone::UTC), ..self.clone() }
    }

    /// The sealed file. Its ID is known before it is written, so that it can be removed in any case.
    pub(super) fn seal(&self, repository: &Repository) -> Result<Sealed> {
        let json = serde_json::to_vec(self).map_err(|error| Error::invalid("lock", error.to_string()))?;
        let content = repository.seal_file(&json)?;
        Ok(Sealed { id: LockId(Id::of(&content)), content })
    }

    /// `None` if it no longer exists, which may happen at any time.
    pub(crate) async fn load(repository: &Repository, id: LockId) -> Result<Option<Self>> {
        let plain = match repository.load_file(FileKind::Lock, id.0).await {
            Ok(plain) => plain,
            Err(Error::Store { source, .. }) if source.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let parsed = serde_json::from_slice(&plain);
        parsed.map(Some).map_err(|error| Error::damaged(FileKind::Lock.describe(id.0), error))
    }
}

/// A lock file that is ready to be written.
pub(super) struct Sealed {
    pub(super) id: LockId,
    content: Vec<u8>,
}

impl Sealed {
    pub(super) async fn write(self, repository: &Repository) -> Result<()> {
        let action = Error::store(format!("write {}", FileKind::Lock.describe(self.id.0)));
        repository.store().put(&FileKind::Lock.key(self.id.0), self.content).await.map_err(action)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
