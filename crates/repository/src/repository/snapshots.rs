//! Reads and writes the snapshots of a repository. Called by every operation that selects snapshots.

use futures::{StreamExt, TryStreamExt, stream};

use super::{ListedFile, Repository};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::SnapshotId;
use crate::snapshot::Snapshot;
use crate::snapshots::{DamagedSnapshot, FoundSnapshot, Loaded};

/// How many small files are read concurrently.
const CONCURRENT_READS: usize = 16;

impl Repository {
    pub async fn load_snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        let plain = self.load_file(FileKind::Snapshot, id.0).await?;
        serde_json::from_slice(&plain)
            .map_err(|error| Error::damaged(FileKind::Snapshot.describe(id.0), error))
    }

    /// All snapshots, oldest first. One that cannot be read fails the whole operation: its data might be pruned.
    pub async fn load_snapshots(&self) -> Result<Vec<FoundSnapshot>> {
        let loaded = self.load_all_snapshots().await?;
        loaded.damaged.first().map_or(Ok(loaded.found), |damaged| Err(damaged.error()))
    }

    /// All snapshots, for commands that read: damaged ones are skipped with a warning each. A store that cannot be
    /// read is an error.
    pub async fn load_readable_snapshots(&self) -> Result<Loaded> {
        let loaded = self.load_all_snapshots().await?;
        for damaged in &loaded.damaged {
            tracing::warn!("{}: it is skipped; `forget` with its ID removes it", damaged.error());
        }
        Ok(loaded)
    }

    /// All snapshots, damaged ones separately.
    pub(crate) async fn load_all_snapshots(&self) -> Result<Loaded> {
        let ids = self.list(FileKind::Snapshot).await?;
        self.tidy_cache(Cached::Snapshot, ids.iter().map(|file| file.id));
        let load = |file: ListedFile| async move {
            let id = SnapshotId(file.id);
            match self.load_snapshot(id).await {
                Ok(snapshot) => Ok(Ok((id, snapshot))),
                Err(Error::Damaged { detail, .. }) => Ok(Err(DamagedSnapshot { id, detail })),
                Err(error) => Err(error),
            }
        };
        let mut loading = stream::iter(ids).map(load).buffer_unordered(CONCURRENT_READS);
        let mut loaded = Loaded::default();
        while let Some(read) = loading.try_next().await? {
            match read {
                Ok(found) => loaded.found.push(found),
                Err(damaged) => loaded.damaged.push(damaged),
            }
        }
        loaded.found.sort_by(|(a, one), (b, other)| one.time.cmp(&other.time).then(a.cmp(b)));
        loaded.damaged.sort_by_key(|damaged| damaged.id);
        Ok(loaded)
    }

    /// Writes a snapshot. The caller holds the lock and has verified it.
    pub async fn save_snapshot(&self, snapshot: &Snapshot) -> Result<SnapshotId> {
        let json =
            serde_json::to_vec(snapshot).map_err(|error| Error::invalid("snapshot", error.to_string()))?;
        self.save_file(FileKind::Snapshot, &json).await.map(SnapshotId)
    }
}
