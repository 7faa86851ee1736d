//! Movers that work on repositories in memory, as those of a cluster do on volumes: for repositories that the server cannot open. They make
//! repositories, look into them, forget from them, and store a snapshot for each part of a backup.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_mover::report::{
    BackedUp, Cause, Failure, Forgotten, Initialized, LogLine, Looked, Outcome, PartResult, PartResults,
    Restored, SnapshotLine, TaskResult,
};
use lifeboat_mover::task::{BackupWork, LookWork, Task, TaskWork, UID_TAG};
use lifeboat_plan::transfer::movers::MoverJob;
use lifeboat_repository::Retry;
use lifeboat_repository::backup::{BackupOptions, Source, backup};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::forget::forget_named;
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::{InitOptions, Options, Repository};
use lifeboat_repository::states;
use lifeboat_store::Store;
use lifeboat_transfer::attempts::{Effects, Reach, Stored, Unusable};
use lifeboat_transfer::movers::{MoverEnd, MoverObserver, MoverRequest};
use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

/// Movers of a cluster, and the storage that only they reach.
#[derive(Default)]
pub(crate) struct MemoryMovers {
    /// By the repository that a Job names.
    stores: Mutex<BTreeMap<String, Store>>,
    /// How the next movers end, instead of working.
    ends: Mutex<VecDeque<MoverEnd>>,
    /// How many lines of snapshots are lost from the log of the next look.
    pub(crate) lost: Mutex<usize>,
    sent: Mutex<Vec<(MoverJob, Task)>>,
    cleared: Mutex<Vec<TaskId>>,
}

impl MemoryMovers {
    /// The storage of a repository.
    pub(crate) fn store(&self, key: &RepositoryKey) -> Store {
        locked(&self.stores).entry(key.to_string()).or_insert_with(Store::memory).clone()
    }

    /// Another repository is in the place of this one.
    pub(crate) fn exchange(&self, key: &RepositoryKey) {
        locked(&self.stores).remove(&key.to_string());
    }

    /// The next mover ends so.
    pub(crate) fn will(&self, end: MoverEnd) {
        locked(&self.ends).push_back(end);
    }

    /// The works of all movers that were sent, by mover.
    pub(crate) fn works(&self) -> Vec<Vec<TaskWork>> {
        let works = |task: &Task| task.parts.iter().map(|part| part.work.clone()).collect();
        locked(&self.sent).iter().map(|(_, task)| works(task)).collect()
    }

    /// The Jobs and tasks of all movers that were sent.
    pub(crate) fn sent(&self) -> Vec<(MoverJob, Task)> {
        locked(&self.sent).clone()
    }

    /// The tasks whose movers were removed.
    pub(crate) fn cleared(&self) -> Vec<TaskId> {
        locked(&self.cleared).clone()
    }
}

/// One mover at work.
struct Mover<'a> {
    store: Store,
    password: SecretString,
    lost: usize,
    observer: &'a dyn MoverObserver,
}

impl Mover<'_> {
    async fn open(&self) -> Result<Repository, Outcome> {
        let opened = Repository::open(self.store.clone(), &self.password, Options::default()).await;
        opened.map_err(|error| {
            let cause = match &error {
                lifeboat_repository::Error::NoRepository { .. } => Cause::NoRepository,
                lifeboat_repository::Error::WrongPassword { .. } => Cause::Password,
                _ => Cause::Storage,
            };
            Outcome::Failed(Failure { cause, message: error.to_string() })
        })
    }

    async fn carry_out(&self, uid: &str, work: &TaskWork) -> Result<Outcome, Outcome> {
        Ok(match work {
            TaskWork::Init => self.init().await?,
            TaskWork::Look(work) => self.look(work).await?,
            TaskWork::Forget(work) => self.forget(&work.snapshots).await?,
            TaskWork::Backup(work) => self.backup(uid, work).await?,
            TaskWork::Restore(_) => Outcome::Restored(Restored { verified: true, ..Restored::default() }),
            TaskWork::Maintain(_) | TaskWork::Call(_) => {
                let message = "not in these tests".to_owned();
                return Err(Outcome::Failed(Failure { cause: Cause::Task, message }));
            }
        })
    }

    async fn init(&self) -> Result<Outcome, Outcome> {
        let created = !self.store.exists("config").await.unwrap();
        if created {
            let (store, options) = (self.store.clone(), Options::default());
            Repository::init(store, &self.password, InitOptions::default(), options).await.unwrap();
        }
        let repository = self.open().await?.config().id.clone();
        Ok(Outcome::Initialized(Initialized { repository, created }))
    }

    async fn look(&self, work: &LookWork) -> Result<Outcome, Outcome> {
        let opened = self.open().await?;
        for state in &work.states {
            states::write(&opened, &state.name, state.content.as_bytes()).await.unwrap();
        }
        let mut found = opened.load_readable_snapshots().await.unwrap().found;
        found.reverse();
        let all = found.len() as u64;
        found.truncate(usize::try_from(work.newest).unwrap());
        let line = |(id, snapshot): &lifeboat_repository::snapshots::FoundSnapshot| SnapshotLine {
            id: id.to_string(),
            time: snapshot.time.timestamp(),
            host: snapshot.hostname.clone(),
            paths: snapshot.paths.clone(),
            tags: snapshot.tags.clone(),
            ..SnapshotLine::default()
        };
        let snapshots = found.iter().skip(self.lost).map(line).collect();
        self.observer.line(&LogLine::Snapshots { snapshots }).await;
        let packs = opened.list(FileKind::Pack).await.unwrap();
        Ok(Outcome::Looked(Looked {
            repository: opened.config().id.clone(),
            snapshots: all,
            listed: found.len() as u64,
            damaged: 0,
            bytes: packs.iter().map(|pack| pack.size).sum(),
            states_failed: None,
        }))
    }

    async fn forget(&self, ids: &[String]) -> Result<Outcome, Outcome> {
        let opened = self.open().await?;
        let ids: Vec<_> = ids.iter().map(|id| id.parse().unwrap()).collect();
        let removed = forget_named(&opened, &ids, &LockOptions::default()).await.unwrap().len() as u64;
        let left = opened.list(FileKind::Snapshot).await.unwrap();
        Ok(Outcome::Forgotten(Forgotten { removed, emptied: removed > 0 && left.is_empty() }))
    }

    async fn backup(&self, uid: &str, work: &BackupWork) -> Result<Outcome, Outcome> {
        let opened = self.open().await?;
        let source = tempfile::tempdir().unwrap();
        std::fs::write(source.path().join("file"), uid).unwrap();
        let directory = std::fs::File::open(source.path()).unwrap().into();
        let path = work.at.clone().unwrap_or_else(|| "/".to_owned());
        let mut options = BackupOptions::new(Source::Root { directory, path }, &work.host);
        options.tags = work.tags.iter().cloned().chain([format!("{UID_TAG}{uid}")]).collect();
        let (lock, progress) = (LockOptions::default(), Arc::new(Progress::default()));
        let made = backup(&opened, options, &lock, progress, CancellationToken::new()).await.unwrap();
        let snapshot = made.snapshot_id.unwrap().to_string();
        Ok(Outcome::BackedUp(BackedUp { snapshot, files: 1, bytes: 7, ..BackedUp::default() }))
    }
}

#[async_trait]
impl Effects for MemoryMovers {
    async fn reach(&self, key: &RepositoryKey, _make: bool) -> Result<Reach, Unusable> {
        Err(Unusable { message: format!("the server cannot open {key}"), retry: Retry::Never })
    }

    async fn stored(&self, key: &RepositoryKey, _task: &TaskId) -> Result<Vec<Stored>, Unusable> {
        Err(Unusable { message: format!("the server cannot open {key}"), retry: Retry::Never })
    }

    async fn forget(&self, key: &RepositoryKey, _snapshots: &[String]) -> Result<(), RepositoryProblem> {
        Err(RepositoryProblem::Unusable(format!("the server cannot open {key}")))
    }

    async fn drop_reports(&self, _: &RepositoryKey, _: &str, _: &[TaskId]) {}

    async fn carry_out(
        &self,
        request: MoverRequest,
        observer: &dyn MoverObserver,
        _cancel: &CancellationToken,
    ) -> Result<MoverEnd, ApiError> {
        let MoverRequest { job, task, keys, .. } = request;
        locked(&self.sent).push((job.clone(), task.clone()));
        if let Some(end) = locked(&self.ends).pop_front() {
            return Ok(end);
        }
        let key = keys.read().await.unwrap();
        let password = key.files["password-0"].expose_secret().to_vec();
        let mover = Mover {
            store: locked(&self.stores).entry(job.repository.clone()).or_insert_with(Store::memory).clone(),
            password: SecretString::from(String::from_utf8(password).unwrap()),
            lost: std::mem::take(&mut *locked(&self.lost)),
            observer,
        };
        let mut parts = Vec::new();
        for part in &task.parts {
            let outcome = mover.carry_out(&part.uid, &part.work).await.unwrap_or_else(|failed| failed);
            parts.push(PartResult { uid: part.uid.clone(), outcome });
        }
        let outcome = match parts.as_slice() {
            [only] if only.uid == task.uid => only.outcome.clone(),
            _ => Outcome::Parts(PartResults { parts, ..PartResults::default() }),
        };
        Ok(MoverEnd::Reported { result: TaskResult::new(task.uid, outcome), dead_owner: None })
    }

    async fn clear(&self, _namespace: &str, task: &TaskId) -> Result<(), ApiError> {
        locked(&self.cleared).push(task.clone());
        Ok(())
    }

    async fn give_up(&self, _: &RepositoryKey, _: &TaskId, _: Timestamp) {}

    async fn unlock(&self, _: &RepositoryKey, _: &str) {}
}
