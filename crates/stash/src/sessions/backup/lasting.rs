//! The work on a BackupSession until its end.

use std::sync::Arc;

use async_trait::async_trait;
use kube::core::ApiResource;
use lifeboat_api::stash::BackupSession;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::session::InvokerId;
use tokio_util::sync::CancellationToken;

use super::{advance, finish, is_pending};
use crate::context::Context;
use crate::invokers::Invoker;
use crate::sessions::engine::Stopped;
use crate::sessions::finalizer;
use crate::sessions::kind::SessionKind;
use crate::sessions::lasting::{Advance, Lasting};
use crate::sessions::record::SessionRecord;

/// A BackupSession that has not ended.
pub(super) struct LastingBackup {
    pub(super) context: Context,
    pub(super) resource: ApiResource,
    pub(super) session: BackupSession,
}

#[async_trait]
impl Lasting for LastingBackup {
    fn context(&self) -> &Context {
        &self.context
    }

    fn kind(&self) -> SessionKind {
        SessionKind::Backup
    }

    async fn advance(
        &self,
        record: &Arc<SessionRecord>,
        cancel: &CancellationToken,
    ) -> Result<Advance, Stopped> {
        Box::pin(advance(&self.context, &self.session, record, cancel)).await
    }

    async fn reread(&self, record: &SessionRecord) -> Result<Option<Arc<SessionRecord>>, ApiError> {
        let Some(found) = record.current().await? else { return Ok(None) };
        let may_begin = found.metadata.deletion_timestamp.is_none() || finalizer::is_on(&found);
        let again = SessionRecord::new(&self.context.core, SessionKind::Backup, &self.resource, found);
        let Ok(again) = again else { return Ok(None) };
        Ok(if may_begin || !is_pending(&again).await { Some(Arc::new(again)) } else { None })
    }

    async fn end_now(&self, record: &SessionRecord, message: &str) -> Result<(), Stopped> {
        let invoker = &self.session.spec.invoker;
        let id = InvokerId {
            kind: invoker.kind.clone(),
            namespace: record.namespace.clone(),
            name: invoker.name.clone(),
        };
        // The metrics of an invoker that cannot be read stay as they are.
        let invoker = Invoker::read(&self.context, &id).await.ok().flatten();
        finish::end_now(&self.context, invoker.as_ref(), record, message).await
    }
}
