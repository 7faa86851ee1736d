//! The kinds of sessions, and how each keeps the state of a session in its status.

use kube::api::DynamicObject;
use kube::core::ApiResource;
use lifeboat_api::stash::{BackupSession, RestoreBatch, RestoreSession};
use lifeboat_cluster::objects;
use lifeboat_plan::stash::state::SessionState;
use serde_json::Value;

/// A kind whose objects are sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    Backup,
    Restore,
    RestoreBatch,
}

impl SessionKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Backup => "BackupSession",
            Self::Restore => "RestoreSession",
            Self::RestoreBatch => "RestoreBatch",
        }
    }

    pub(crate) fn of(kind: &str) -> Option<Self> {
        [Self::Backup, Self::Restore, Self::RestoreBatch].into_iter().find(|own| own.as_str() == kind)
    }

    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Backup => objects::resource_of::<BackupSession>(),
            Self::Restore => objects::resource_of::<RestoreSession>(),
            Self::RestoreBatch => objects::resource_of::<RestoreBatch>(),
        }
    }

    /// The state of a session.
    pub(crate) fn read(self, object: &DynamicObject) -> Result<SessionState, serde_json::Error> {
        Ok(match self {
            Self::Backup => {
                let session: BackupSession = objects::typed(object)?;
                SessionState::of_backup_session(&session.status.unwrap_or_default())
            }
            Self::Restore => {
                let session: RestoreSession = objects::typed(object)?;
                let target = session.spec.member.target.and_then(|target| target.reference);
                SessionState::of_restore_session(&session.status.unwrap_or_default(), target)
            }
            Self::RestoreBatch => {
                let session: RestoreBatch = objects::typed(object)?;
                SessionState::of_restore_batch(&session.status.unwrap_or_default())
            }
        })
    }

    /// The status of a session in this state.
    pub(crate) fn status(self, state: &SessionState) -> Value {
        let status = match self {
            Self::Backup => serde_json::to_value(state.to_backup_session()),
            Self::Restore => serde_json::to_value(state.to_restore_session()),
            Self::RestoreBatch => serde_json::to_value(state.to_restore_batch()),
        };
        // A status is plain data, which always has a JSON form.
        status.unwrap_or_default()
    }
}
