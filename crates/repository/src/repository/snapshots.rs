//! Reads and writes the snapshots of a repository. Called by every operation that selects snapshots.

use futures::{StreamExt, TryStreamExt, stream};

use super::files::too_many;
use super::{ListedFile, Repository};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::SnapshotId;
use crate::snapshot::Snapshot;
use crate::snapshots::{DamagedSnapshot, FoundSnapshot, Loaded};

/// How many small files are read concurrently.
const CONCURRENT_READS: usize = 16;
/// What each snapshot takes in memory beside its text.
const OVERHEAD: usize = 256;

impl Repository {
    pub async fn load_snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        self.load_with_size(id).await.map(|(_, snapshot)| snapshot)
    }

    /// A snapshot, and the bytes of its text.
    async fn load_with_size(&self, id: SnapshotId) -> Result<(usize, Snapshot)> {
        let plain = self.load_file(FileKind::Snapshot, id.0).await?;
        let snapshot = serde_json::from_slice(&plain)
            .map_err(|error| Error::damaged(FileKind::Snapshot.describe(id.0), error))?;
        Ok((plain.len(), snapshot))
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
            match self.load_with_size(id).await {
                Ok((size, snapshot)) => Ok((size, Ok((id, snapshot)))),
                Err(Error::Damaged { detail, .. }) => Ok((0, Err(DamagedSnapshot { id, detail }))),
                Err(error) => Err(error),
            }
        };
        let mut loading = stream::iter(ids).map(load).buffer_unordered(CONCURRENT_READS);
        let mut loaded = Loaded::default();
        let (most, mut bytes) = (self.options().most_snapshot_bytes, 0_usize);
        while let Some((size, read)) = loading.try_next().await? {
            bytes = bytes.saturating_add(size + OVERHEAD);
            if bytes > most {
                return Err(too_many(&format!("{most} bytes of snapshots")));
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Options;
    use crate::testing::{memory_repository, password, save_snapshot};

    #[tokio::test]
    async fn no_more_is_listed_and_loaded_than_the_caller_has_memory_for() {
        let repository = memory_repository().await;
        save_snapshot(&repository, 1, &[("a", b"x")]).await;
        let open = async |options: Options| {
            Repository::open(repository.store().clone(), &password(), options).await.unwrap()
        };
        assert_eq!(open(Options::default()).await.load_snapshots().await.unwrap().len(), 1);
        for options in [
            Options { most_listed: 0, ..Options::default() },
            Options { most_snapshot_bytes: OVERHEAD, ..Options::default() },
        ] {
            let error = open(options).await.load_snapshots().await.unwrap_err();
            assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        }
    }
}
