//! While a pass runs: writes its progress to the status, at most once a second, and checks whether the pass has to
//! stop.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use lifeboat_api::common::BackupUid;
use lifeboat_cluster::MANAGER;
use lifeboat_control::locked;
use lifeboat_plan::items::waits::{WAITING, Waits};
use lifeboat_plan::velero::backup::{ATTEMPT, CANCEL, attempt, is_cancelled};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::storage_away::StorageAway;

/// How often the object is read.
const LOOK: Duration = Duration::from_secs(1);

/// How far a pass has come.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    expected: AtomicUsize,
    announced: AtomicUsize,
    begun: AtomicUsize,
    written: AtomicUsize,
}

impl Counters {
    /// The counters of a pass that has written all its items.
    pub(crate) fn of_written(items: usize) -> Self {
        let counters = Self::default();
        counters.expect(items);
        counters.write(items);
        counters
    }

    pub(super) fn expect(&self, items: usize) {
        self.expected.fetch_add(items, Ordering::Relaxed);
    }

    /// Adds items that are still to be listed, by the API server's `remainingItemCount`.
    pub(super) fn expect_at_least(&self, items: usize) {
        let expected = self.expected.load(Ordering::Relaxed) + items;
        self.announced.fetch_max(expected, Ordering::Relaxed);
    }

    pub(super) fn see(&self, items: usize) {
        self.begun.fetch_add(items, Ordering::Relaxed);
    }

    pub(super) fn write(&self, items: usize) {
        self.written.fetch_add(items, Ordering::Relaxed);
    }

    /// The number of items to back up, as far as it is known, and of items written.
    pub(crate) fn now(&self) -> (usize, usize) {
        let load = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let known = load(&self.expected).max(load(&self.announced)).max(load(&self.begun));
        (known, load(&self.written))
    }
}

/// Why a pass is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The Backup has the annotation that cancels it.
    Cancelled,
    /// The object is gone or is being deleted.
    Deleted,
    /// Another attempt runs: this server is not the leader any more.
    Overtaken,
    /// The server shuts down; the next leader starts the pass again.
    Shutdown,
}

/// Checked right before a write that could damage the files of another attempt.
#[derive(Clone)]
pub(crate) struct Fence {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) name: String,
    pub(crate) uid: BackupUid,
    pub(crate) attempt: u64,
}

impl Fence {
    /// Whether the object still exists and still belongs to this attempt. The check is repeated while the API server
    /// does not answer; if that takes too long, the lease expires and the term ends.
    pub(super) async fn holds(&self) -> bool {
        loop {
            match self.api.get_opt(&self.name).await {
                Ok(None) => return false,
                Ok(Some(found)) => {
                    let stop = verdict(&found, &self.uid, self.attempt);
                    return !matches!(stop, Some(Stop::Deleted | Stop::Overtaken));
                }
                Err(error) => {
                    tracing::debug!(%error, backup = self.name, "cannot read the Backup to check its attempt");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Watches one Backup while its pass runs.
pub(crate) struct Watch {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) name: String,
    pub(crate) uid: BackupUid,
    pub(crate) attempt: u64,
    pub(crate) stop: CancellationToken,
    pub(crate) shutdown: CancellationToken,
    /// The storage that the pass writes to.
    storage: Option<StorageAway>,
    reason: Mutex<Option<Stop>>,
    shown: Mutex<Shown>,
}

/// What the object shows: the progress, and what the backup waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shown {
    items: (usize, usize),
    waits: Option<String>,
}

impl Watch {
    pub(crate) fn new(
        api: Api<DynamicObject>,
        name: &str,
        uid: &BackupUid,
        attempt: u64,
        shutdown: CancellationToken,
    ) -> Self {
        let (name, uid, stop) = (name.to_owned(), uid.clone(), CancellationToken::new());
        let (reason, shown) = (Mutex::default(), Mutex::default());
        Self { api, name, uid, attempt, stop, shutdown, storage: None, reason, shown }
    }

    /// Shows when this storage is away.
    pub(crate) fn with_storage(self, storage: StorageAway) -> Self {
        Self { storage: Some(storage), ..self }
    }

    /// The Backup shows these waits of an earlier attempt, which are over or are shown again.
    pub(crate) fn showing(self, waits: Option<&String>) -> Self {
        locked(&self.shown).waits = waits.cloned();
        self
    }

    pub(crate) fn reason(&self) -> Option<Stop> {
        locked(&self.reason).clone()
    }

    /// Polls until the pass ends, which drops this future.
    pub(crate) async fn follow(&self, counters: &Counters) {
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return self.end(Stop::Shutdown),
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Some(stop) = self.poll(counters).await {
                return self.end(stop);
            }
        }
    }

    fn end(&self, stop: Stop) {
        locked(&self.reason).get_or_insert(stop);
        self.stop.cancel();
    }

    /// Writes progress, if there is some, and reads the object. An API server that cannot be reached does not stop
    /// the pass: the lease decides who works.
    async fn poll(&self, counters: &Counters) -> Option<Stop> {
        let away = self.storage.as_ref().and_then(StorageAway::now);
        let now = Shown { items: counters.now(), waits: Waits::default().and(away).annotation() };
        let shown = locked(&self.shown).clone();
        let seen = if now == shown {
            self.api.get(&self.name).await
        } else {
            let progress = json!({"totalItems": now.items.0, "itemsBackedUp": now.items.1});
            // The UID prevents a write into another object with the same name.
            let mut patch = json!({"metadata": {"uid": self.uid}, "status": {"progress": progress}});
            if now.waits != shown.waits {
                patch["metadata"]["annotations"] = json!({WAITING: now.waits});
            }
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            self.api.patch(&self.name, &params, &Patch::Merge(patch)).await
        };
        match seen {
            Ok(object) => {
                *locked(&self.shown) = now;
                verdict(&object, &self.uid, self.attempt)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Some(Stop::Deleted),
            Err(kube::Error::Api(status)) if matches!(status.code, 409 | 422) => {
                // Another object has the name now, or there was a write conflict: read the object before judging.
                let found = self.api.get(&self.name).await.ok()?;
                verdict(&found, &self.uid, self.attempt)
            }
            Err(_) => None,
        }
    }
}

/// Why the pass has to stop according to the object; None if it may continue.
pub(crate) fn verdict(object: &DynamicObject, uid: &BackupUid, this_attempt: u64) -> Option<Stop> {
    let annotation =
        |key: &str| object.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    if object.metadata.uid.as_deref() != Some(uid.as_str()) || object.metadata.deletion_timestamp.is_some() {
        return Some(Stop::Deleted);
    }
    if attempt(annotation(ATTEMPT)) > this_attempt {
        return Some(Stop::Overtaken);
    }
    is_cancelled(annotation(CANCEL)).then_some(Stop::Cancelled)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lifeboat_api::velero::Backup;
    use lifeboat_cluster::objects;
    use lifeboat_control::Clock;
    use lifeboat_store::layers::Layered;
    use lifeboat_store::testing::Faults;
    use lifeboat_store::{Memory, Outage, RetryPolicy, Store, Tuning};
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::backup::world::World;

    const PATH: &str = "/apis/velero.io/v1/namespaces/lifeboat/backups/b";

    async fn watch(world: &World, annotations: Value) -> Watch {
        let metadata = json!({"name": "b", "namespace": "lifeboat", "uid": "u", "annotations": annotations});
        world.put(
            PATH,
            json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": {}}),
        );
        let resource = objects::resource_of::<Backup>();
        let api = objects::namespaced(&world.client().await, "lifeboat", &resource);
        Watch::new(api, "b", &BackupUid::new("u"), 1, CancellationToken::new())
    }

    #[rstest]
    #[case::cancelled(json!({"lifeboat.io/attempt": "1", "lifeboat.io/cancel": "true"}), Stop::Cancelled)]
    #[case::overtaken(json!({"lifeboat.io/attempt": "2"}), Stop::Overtaken)]
    #[tokio::test]
    async fn a_pass_is_told_to_end(#[case] annotations: Value, #[case] expected: Stop) {
        let world = World::default();
        let watch = watch(&world, annotations).await;
        watch.follow(&Counters::default()).await;
        assert_eq!(watch.reason(), Some(expected));
        assert!(watch.stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_deleted_backup_ends_and_progress_is_shown_until_then() {
        let world = World::default();
        let watch = watch(&world, json!({})).await;
        let counters = Counters::default();
        counters.expect(7);
        counters.write(3);
        assert_eq!(watch.poll(&counters).await, None);
        let progress = world.get(PATH).unwrap()["status"]["progress"].clone();
        assert_eq!(progress, json!({"totalItems": 7, "itemsBackedUp": 3}));
        world.remove(PATH);
        assert_eq!(watch.poll(&counters).await, Some(Stop::Deleted));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backup_shows_since_when_its_storage_is_away() {
        let world = World::default();
        let (outage, faults) = (Outage::default(), Faults::default());
        let clock = Clock::new(|| "2026-11-16T08:00:00Z".parse().unwrap());
        let storage = StorageAway::new("the backup", "storage location default".to_owned(), &outage, &clock);
        let watch = watch(&world, json!({})).await.with_storage(storage);
        let retry = RetryPolicy::default().with_outage(Duration::from_mins(15));
        let tuning = Tuning { retry, outage, ..Tuning::default() };
        let backend = Arc::new(Layered::new(faults.clone(), Arc::new(Memory::new())));
        let store = Store::new(backend, "", tuning).unwrap();
        faults.set_away(true);
        let counters = Counters::default();
        let look = async {
            tokio::time::sleep(Duration::from_mins(5)).await;
            assert_eq!(watch.poll(&counters).await, None);
            let waits = world.get(PATH).unwrap()["metadata"]["annotations"][WAITING].clone();
            faults.set_away(false);
            Waits::read(waits.as_str())
        };
        let (written, waits) = tokio::join!(store.put("a", "x"), look);
        written.unwrap();
        let shown = waits.waits[0].to_string();
        assert!(shown.starts_with("the backup waits for storage location default ("), "{shown}");
        assert!(shown.ends_with("since 2026-11-16T07:55:00Z"), "{shown}");
        assert_eq!(watch.poll(&counters).await, None);
        assert_eq!(world.get(PATH).unwrap()["metadata"]["annotations"].get(WAITING), None);
    }

    #[tokio::test]
    async fn a_server_that_comes_to_rest_stops_its_passes() {
        let world = World::default();
        let watch = watch(&world, json!({})).await;
        watch.shutdown.cancel();
        watch.follow(&Counters::default()).await;
        assert_eq!(watch.reason(), Some(Stop::Shutdown));
    }
}
