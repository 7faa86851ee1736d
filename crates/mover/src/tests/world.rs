//! A bucket on disk with a repository, a directory for the task, and the output of the mover.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lifeboat_repository::config::Version;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::testing::{new_repository, opened};
use lifeboat_store::Store;
use tokio_util::sync::CancellationToken;

use crate::report::{BackedUp, Failure, LogLine, NotListed, Outcome, Restored, TaskResult};
use crate::run::{MoverSettings, run};
use crate::task::{
    BackupWork, Direct, Limits, LockTerms, Part, Proof, RepositoryAccess, RestoreWork, Source, Target, Task,
    TaskWork, Transport,
};

const REPOSITORY: &str = "restic/shop";

pub(crate) struct World {
    root: tempfile::TempDir,
    pub(crate) store: Store,
    /// The environment of movers.
    pub(crate) environment: Vec<(String, String)>,
}

/// The output of one mover: exit code, result and log lines.
pub(crate) struct MoverEnd {
    pub(crate) code: u8,
    pub(crate) result: TaskResult,
    pub(crate) lines: Vec<LogLine>,
}

impl World {
    /// With an empty repository.
    pub(crate) async fn new() -> Self {
        let world = Self::bare();
        new_repository(world.store.below(REPOSITORY).unwrap(), Version::V2).await;
        world
    }

    /// Without a repository.
    pub(crate) fn bare() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["bucket/cluster", "task", "scratch", "volume"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        std::fs::write(root.path().join("task/password-0"), "wrong\n").unwrap();
        std::fs::write(root.path().join("task/password-1"), "correct horse\n").unwrap();
        let store = Store::local(root.path().join("bucket")).unwrap().below("cluster").unwrap();
        Self { root, store, environment: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A file of the volume. Waits for the next tick of the file system's clock: a file that was written in the tick in
    /// which a backup starts is read again by the next one.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path("volume").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        // Until the clock of files has gone on: a file that changed in the tick in which a backup starts is read again by the next.
        let about = path.metadata().unwrap();
        let clock = || rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        while (clock().tv_sec, clock().tv_nsec) <= (about.ctime(), about.ctime_nsec()) {
            std::thread::yield_now();
        }
    }

    pub(crate) async fn repository(&self) -> Repository {
        opened(self.store.below(REPOSITORY).unwrap()).await.unwrap()
    }

    pub(crate) fn task(&self, uid: &str, work: TaskWork) -> Task {
        let path = self.root.path().to_str().unwrap().to_owned();
        let direct = Direct {
            provider: "lifeboat.io/local".to_owned(),
            bucket: "bucket".to_owned(),
            prefix: "cluster".to_owned(),
            path: REPOSITORY.to_owned(),
            config: BTreeMap::from([("path".to_owned(), path)]),
            ..Direct::default()
        };
        let repository = RepositoryAccess {
            transport: Transport::Direct(direct),
            passwords: vec!["password-0".to_owned(), "password-1".to_owned()],
            guarded: false,
        };
        let lock = LockTerms { cluster: "cluster-uid".to_owned(), ..LockTerms::default() };
        let limits = Limits { scratch: Some(self.path("scratch")), ..Limits::default() };
        Task { limits, ..Task::single(uid, work, repository, lock) }
    }

    /// A task whose repository is in a directory of its own, which does not exist yet.
    pub(crate) fn in_directory(&self, uid: &str, work: TaskWork) -> Task {
        let mut task = self.task(uid, work);
        // The first password is that of new repositories.
        access(&mut task).passwords = vec!["password-1".to_owned()];
        access(&mut task).transport = Transport::Directory { path: self.path("mounted/team/shop") };
        task
    }

    /// A task with several parts.
    pub(crate) fn tasks<'a>(&self, uid: &str, works: impl IntoIterator<Item = (&'a str, TaskWork)>) -> Task {
        let parts = works.into_iter().map(|(uid, work)| Part { uid: uid.to_owned(), work });
        let parts: Vec<_> = parts.collect();
        Task { parts: parts.clone(), ..self.task(uid, parts[0].work.clone()) }
    }

    pub(crate) fn backup(&self, uid: &str) -> Task {
        let source = Source::Path { path: self.path("volume"), proof: Some(Proof::Directory) };
        self.task(uid, TaskWork::Backup(backup_of(source)))
    }

    pub(crate) fn restore(&self, snapshot: &str, target: &str) -> Task {
        let path = self.path(target);
        std::fs::create_dir_all(&path).unwrap();
        let target = Target::Path { path, proof: Some(Proof::Directory) };
        self.task("restore", TaskWork::Restore(restore_to(snapshot, target)))
    }

    pub(crate) async fn run(&self, task: &Task) -> MoverEnd {
        self.run_with(task, CancellationToken::new(), |_| {}).await
    }

    /// Runs a task; `on_line` gets every log line as it is written.
    pub(crate) async fn run_with(
        &self,
        task: &Task,
        stop: CancellationToken,
        on_line: impl Fn(&LogLine) + Send + 'static,
    ) -> MoverEnd {
        self.run_text(&serde_json::to_string(task).unwrap(), stop, on_line).await
    }

    pub(crate) async fn run_text(
        &self,
        task: &str,
        stop: CancellationToken,
        on_line: impl Fn(&LogLine) + Send + 'static,
    ) -> MoverEnd {
        std::fs::write(self.path("task/task.json"), task).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let result_file = self.path("result");
        let settings = MoverSettings {
            directory: self.path("task"),
            result_file: result_file.clone(),
            pod_uid: "pod-uid".to_owned(),
            environment: self.environment.clone(),
            program: self.path("program"),
            output: Box::new(LineReader { lines: Arc::clone(&lines), on_line: Box::new(on_line) }),
        };
        let code = run(settings, stop).await;
        let result = serde_json::from_slice(&std::fs::read(result_file).unwrap()).unwrap();
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        MoverEnd { code, result, lines }
    }

    /// Whatever happened, no lock remains.
    pub(crate) async fn assert_nothing_is_locked(&self) {
        assert_eq!(self.repository().await.list(FileKind::Lock).await.unwrap(), []);
    }
}

/// The repository of a task that has one.
pub(crate) fn access(task: &mut Task) -> &mut RepositoryAccess {
    task.repository.as_mut().unwrap()
}

pub(crate) fn backup_of(source: Source) -> BackupWork {
    BackupWork { tags: vec!["backup=nightly".to_owned()], ..BackupWork::new(source, "shop/data") }
}

pub(crate) fn restore_to(snapshot: &str, target: Target) -> RestoreWork {
    RestoreWork::new(snapshot, target)
}

impl MoverEnd {
    pub(crate) fn backed_up(self) -> BackedUp {
        match (self.code, self.result.outcome) {
            (0, Outcome::BackedUp(backed_up)) => backed_up,
            (code, other) => panic!("{code}: {other:?}"),
        }
    }

    pub(crate) fn restored(self) -> Restored {
        match (self.code, self.result.outcome) {
            (0, Outcome::Restored(restored)) => restored,
            (code, other) => panic!("{code}: {other:?}"),
        }
    }

    /// For a task with several parts: the exit code and the outcome of each part, by UID.
    pub(crate) fn parts(self) -> (u8, Vec<(String, Outcome)>) {
        match self.result.outcome {
            Outcome::Parts(results) => {
                assert_eq!((self.result.version, results.not_listed), (2, NotListed::default()));
                (self.code, results.parts.into_iter().map(|part| (part.uid, part.outcome)).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    /// The outcome of a task that is done.
    pub(crate) fn done(self) -> Outcome {
        assert_eq!(self.code, 0, "{:?}", self.result);
        self.result.outcome
    }

    pub(crate) fn failed(self) -> Failure {
        match (self.code, self.result.outcome) {
            (1, Outcome::Failed(failure)) => failure,
            (code, other) => panic!("{code}: {other:?}"),
        }
    }
}

/// Parses the log lines; every line must be valid.
struct LineReader {
    lines: Arc<Mutex<Vec<LogLine>>>,
    on_line: Box<dyn Fn(&LogLine) + Send>,
}

impl Write for LineReader {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        for line in std::str::from_utf8(text).unwrap().lines() {
            let line: LogLine = serde_json::from_str(line).unwrap();
            (self.on_line)(&line);
            self.lines.lock().unwrap().push(line);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything below a directory, with owners, modes, times and contents.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    let mut stack = vec![root.to_owned()];
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            let content = if about.is_file() {
                format!("{:?}", std::fs::read(&path).unwrap())
            } else if about.is_symlink() {
                format!("{}", std::fs::read_link(&path).unwrap().display())
            } else {
                stack.push(path.clone());
                String::new()
            };
            let mode = format!("{:o} {} {}", about.mode(), about.uid(), about.gid());
            let time = format!("{}.{}", about.mtime(), about.mtime_nsec());
            found.insert(path.strip_prefix(root).unwrap().to_owned(), format!("{mode} {time} {content}"));
        }
    }
    found
}
