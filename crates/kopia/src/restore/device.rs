//! Restores the content of a block device, as Velero's data mover stores it: the snapshot's root has one
//! file, whose name is the path of a device. The name is not used.

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lifeboat_repository::progress::Progress;
use lifeboat_repository::restore::device::DeviceTarget;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result, blocking};
use crate::object::{self, Part};
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::tree;

/// What was restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceOutcome {
    pub bytes: u64,
    /// Whether everything was read again and compared.
    pub verified: bool,
}

/// A part and its offset.
type Piece = (Part, u64);

/// Restores to an existing device, or to a file of the right size. Everything behind the content stays as it is.
pub async fn restore_device(
    repository: &Repository,
    snapshot: &Snapshot,
    target: &Path,
    verify: bool,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<DeviceOutcome> {
    let work = restore(repository, snapshot, target, verify, &progress);
    tokio::select! {
        done = work => done,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

async fn restore(
    repository: &Repository,
    snapshot: &Snapshot,
    target: &Path,
    verify: bool,
    progress: &Arc<Progress>,
) -> Result<DeviceOutcome> {
    progress.begin("reading the snapshot");
    let missing = || Error::Invalid {
        what: format!("snapshot {}", snapshot.id),
        problem: "it is not the content of a block device".to_owned(),
    };
    let root = snapshot.root()?.object()?;
    let entry = tree::load_device(repository, root).await?.ok_or_else(missing)?;
    let size = entry.node.size;
    let parts = object::parts(repository, entry.object()?, Some(size), size).await?;
    let mut at = 0;
    let pieces: Vec<Piece> = parts
        .into_iter()
        .map(|part| {
            at += part.length;
            (part, at - part.length)
        })
        .collect();
    let path = target.to_owned();
    let target = blocking(move || {
        let target = DeviceTarget::open(&path)?;
        target.must_hold(size)?;
        Ok(Arc::new(target))
    })
    .await?;
    progress.begin("restoring");
    progress.add_total(1, size);
    progress.total_is_known();
    each(repository, &pieces, |part, at, plain| {
        let (target, progress) = (Arc::clone(&target), Arc::clone(progress));
        async move {
            blocking(move || {
                target.write(&plain, at)?;
                progress.add_done(0, part.length);
                Ok(())
            })
            .await
        }
    })
    .await?;
    let flushed = Arc::clone(&target);
    blocking(move || Ok(flushed.sync()?)).await?;
    if verify {
        check(repository, &pieces, &target, progress, size).await?;
    }
    Ok(DeviceOutcome { bytes: size, verified: verify })
}

/// Reads all parts, several at once, and passes on their bytes.
async fn each<F: Future<Output = Result<()>>>(
    repository: &Repository,
    pieces: &[Piece],
    mut done: impl FnMut(Part, u64, Vec<u8>) -> F,
) -> Result<()> {
    let mut reading =
        futures::stream::iter(pieces)
            .map(|(part, at)| async move {
                Ok::<_, Error>((*part, *at, object::read_part(repository, part).await?))
            })
            .buffered(repository.options().reads.clamp(1, 8));
    while let Some((part, at, plain)) = reading.try_next().await? {
        done(part, at, plain).await?;
    }
    Ok(())
}

/// Reads everything again and compares it with the hashes.
async fn check(
    repository: &Repository,
    pieces: &[Piece],
    target: &Arc<DeviceTarget>,
    progress: &Arc<Progress>,
    size: u64,
) -> Result<()> {
    progress.begin("verifying");
    progress.add_total(1, size);
    for (part, at) in pieces {
        let (part, at) = (*part, *at);
        let expected = if part.compressed { Some(object::read_part(repository, &part).await?) } else { None };
        let (target, repository) = (Arc::clone(target), repository.clone());
        blocking(move || {
            let length = u32::try_from(part.length).unwrap_or(u32::MAX);
            let found = target.read(at, length)?;
            let same =
                expected.map_or_else(|| repository.matches(&part.content, &found), |bytes| bytes == found);
            if same {
                return Ok(());
            }
            Err(Error::damaged(
                "the restored device",
                format!("the data at byte {at} differs from what was written"),
            ))
        })
        .await?;
        progress.add_done(0, part.length);
    }
    Ok(())
}
