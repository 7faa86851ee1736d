//! Restoring a block device.

use std::path::Path;
use std::sync::Arc;

use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::restore::device::{DeviceTarget, restore_device};
use lifeboat_repository::snapshot::Snapshot;
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failed};
use crate::report::{Cause, Restored};

pub(super) async fn restore(
    repository: &Repository,
    snapshot: &Snapshot,
    path: &Path,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<Restored, Failed> {
    let target = DeviceTarget::open(path).map_err(failure::of(Cause::Target))?;
    let restored =
        restore_device(repository, snapshot, target, true, Arc::clone(progress), cancel.clone()).await;
    let outcome = restored.map_err(failure::of(Cause::Target))?;
    Ok(Restored { files: 1, bytes: outcome.bytes, verified: outcome.verified, ..Restored::default() })
}
