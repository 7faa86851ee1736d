//! Reads and writes the snapshots of a repository. Called by every operation that selects snapshots.

use std::cmp::Reverse;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};

use super::files::too_many;
use super::{ListedFile, Repository};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::SnapshotId;
use crate::snapshot::Snapshot;
use crate::snapshots::{self, DamagedSnapshot, FoundSnapshot, Loaded, ParentQuery};

/// How many small files are read concurrently.
const CONCURRENT_READS: usize = 16;
/// How far the clock of a store may be behind those of the machines that make snapshots. If it is more, a backup may
/// take an older snapshot as its parent, and reads more.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_hours(1);
const SKIPPED: &str = "it is skipped; `forget` with its ID removes it";
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
            tracing::warn!("{}: {SKIPPED}", damaged.error());
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

    /// The parent for a new snapshot. The newest objects are read first, and none that are older than the parent, so
    /// that a backup does not load every snapshot of a large repository. Damaged ones are skipped with a warning.
    pub(crate) async fn find_parent(&self, query: &ParentQuery<'_>) -> Result<Option<FoundSnapshot>> {
        let mut files = self.list(FileKind::Snapshot).await?;
        self.tidy_cache(Cached::Snapshot, files.iter().map(|file| file.id));
        files.sort_by_key(|file| Reverse(file.modified));
        let mut parent: Option<FoundSnapshot> = None;
        for part in files.chunks(CONCURRENT_READS) {
            if let Some((_, snapshot)) = &parent
                && part[0].modified.saturating_add(CLOCKS_DIFFER).unwrap_or(Timestamp::MAX)
                    < snapshot.time.timestamp()
            {
                break;
            }
            let mut candidates: Vec<FoundSnapshot> = parent.into_iter().collect();
            let ids: Vec<SnapshotId> = part.iter().map(|file| SnapshotId(file.id)).collect();
            let loading = stream::iter(ids).map(|id| async move { (id, self.load_snapshot(id).await) });
            let mut loading = loading.buffer_unordered(CONCURRENT_READS);
            while let Some((id, read)) = loading.next().await {
                match read {
                    Ok(snapshot) => candidates.push((id, snapshot)),
                    Err(error @ Error::Damaged { .. }) => tracing::warn!("{error}: {SKIPPED}"),
                    Err(error) => return Err(error),
                }
            }
            parent = snapshots::parent(&candidates, query).cloned();
        }
        Ok(parent)
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
    use std::sync::Arc;

    use super::*;
    use crate::repository::Options;
    use crate::testing::switchable::SwitchableBackend;
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

    /// One snapshot an hour for a host and paths; the object of each is as old as the snapshot.
    async fn hourly(backend: &Arc<SwitchableBackend>, count: i64, host: &str) -> Vec<SnapshotId> {
        let repository = crate::testing::opened(backend.store()).await.unwrap();
        let now = Timestamp::now();
        let mut ids = Vec::new();
        for hours in (0..count).rev() {
            let time = now - SignedDuration::from_hours(hours);
            let (_, sample) =
                crate::snapshots::samples::snapshot("x", "2026-01-01T00:00:00Z", host, &["/etc"], &[]);
            let snapshot = Snapshot { time: time.to_zoned(jiff::tz::TimeZone::UTC), ..sample };
            let id = repository.save_snapshot(&snapshot).await.unwrap();
            backend.date(&FileKind::Snapshot.key(id.0), time);
            ids.push(id);
        }
        ids
    }

    fn query<'a>(host: &'a str, paths: &'a [String]) -> ParentQuery<'a> {
        ParentQuery {
            host,
            paths,
            tags: &[],
            time: Timestamp::now(),
            group_by: crate::snapshots::GroupBy::default(),
        }
    }

    #[tokio::test]
    async fn for_the_parent_only_the_newest_snapshots_are_read() {
        let backend = SwitchableBackend::new();
        crate::testing::new_repository(backend.store(), crate::config::Version::V2).await;
        let others = hourly(&backend, 20, "db").await;
        let ids = hourly(&backend, 200, "web").await;
        let repository = crate::testing::opened(backend.store()).await.unwrap();
        let paths = ["/etc".to_owned()];
        let before = backend.reads_of("snapshots/");
        let parent = repository.find_parent(&query("web", &paths)).await.unwrap();
        assert_eq!(parent.unwrap().0, *ids.last().unwrap());
        let reads = backend.reads_of("snapshots/") - before;
        assert!(reads <= 2 * CONCURRENT_READS, "{reads} of 220 snapshots were read");
        assert_eq!(
            repository.find_parent(&query("db", &paths)).await.unwrap().unwrap().0,
            *others.last().unwrap()
        );
        assert_eq!(repository.find_parent(&query("mail", &paths)).await.unwrap(), None);
        // A copy of an old snapshot is a new object; the parent is still the snapshot with the latest time.
        backend.date(&FileKind::Snapshot.key(ids[0].0), Timestamp::now() + SignedDuration::from_hours(5));
        assert_eq!(
            repository.find_parent(&query("web", &paths)).await.unwrap().unwrap().0,
            *ids.last().unwrap()
        );
    }
}
