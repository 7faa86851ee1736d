//! Restoring a block device.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::restore::device::{DeviceTarget, restore_device};
use lifeboat_repository::snapshot::Snapshot;
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failed};
use crate::report::{Cause, Failure, Restored};

/// `paths`: the path of the device's content in the snapshot, if the task names it.
pub(super) async fn restore(
    repository: &Repository,
    snapshot: &Snapshot,
    path: &Path,
    paths: &[String],
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Result<Restored, Failed> {
    let stored = match paths {
        [] => None,
        [path] => Some(Path::new(path)),
        _ => {
            let message = "paths: a device gets one file of the snapshot, and several are named";
            return Err(Failed::new(Cause::Task, message));
        }
    };
    let target = DeviceTarget::open(path).map_err(|error| opened(error, path))?;
    let restored =
        restore_device(repository, snapshot, target, stored, true, Arc::clone(progress), cancel.clone())
            .await;
    let outcome = restored.map_err(failure::of(Cause::Target))?;
    Ok(Restored { files: 1, bytes: outcome.bytes, verified: outcome.verified, ..Restored::default() })
}

fn opened(error: lifeboat_repository::Error, path: &Path) -> Failed {
    let is_denied = matches!(
        &error,
        lifeboat_repository::Error::File { source, .. } if source.kind() == ErrorKind::PermissionDenied
    );
    match failure::of(Cause::Target)(error) {
        Failed::Because(failure) if is_denied => {
            Failed::Because(Failure { message: format!("{}; {}", failure.message, denied(path)), ..failure })
        }
        failed => failed,
    }
}

/// Why a device may be out of reach for a user other than root.
pub(super) fn denied(path: &Path) -> String {
    format!(
        "'{}' does not belong to the mover's user: let it run as root, or have the container runtime give devices to the user of a pod \
         (containerd's device_ownership_from_security_context)",
        path.display()
    )
}
