//! One backup, from the choice of the parent to the finished snapshot, which the caller writes.

use std::io::{IsTerminal, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crossbeam_channel::Sender;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Findings};
use super::file::FileJob;
use super::stream::{Producer, StreamFile};
use super::walker::Walker;
use super::workers::{Queues, Worker};
use super::{BackupOptions, BackupOutcome, Parent, Source};
use crate::blobs::BlobReader;
use crate::chunker::{Polynomial, Tables};
use crate::error::{Error, Result};
use crate::id::BlobId;
use crate::index::Index;
use crate::lock::Lock;
use crate::node::NodeTime;
use crate::progress::Progress;
use crate::repository::{Identity, Repository};
use crate::saver::Saver;
use crate::snapshot::{Snapshot, Summary};
use crate::snapshots::{FoundSnapshot, ParentQuery};
use crate::source::directory::{self, DirectoryHandle};
use crate::source::filter::Filter;
use crate::source::metadata::NodeReader;
use crate::source::scan::{ScanTotals, scan};
use crate::source::targets;
use crate::source::walk::Walk;

/// Stores all data and returns the snapshot, which is not written yet.
pub(super) async fn run(
    repository: &Repository,
    options: BackupOptions,
    lock: Option<Arc<Lock>>,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<BackupOutcome> {
    let (started, clock) = (clock_of_files(), Instant::now());
    let draft = Draft::new(repository, &options, started)?;
    progress.begin("loading the index");
    let (index, parent) =
        tokio::try_join!(repository.load_index(), draft.parent(repository, options.parent))?;
    progress.begin("backing up");
    // Stops the threads when this future is dropped or fails, not only when the caller cancels.
    let cancel = cancel.child_token();
    let _stop = cancel.clone().drop_guard();
    let context = Arc::new(context(repository, index, &options, lock, progress, cancel)?);
    let job = Job {
        context: Arc::clone(&context),
        options,
        parent: parent.as_ref().map(|(_, snapshot)| snapshot.tree),
        since: parent.as_ref().map(|(_, snapshot)| node_time(snapshot.started())),
        threads: repository.options().threads.max(1),
        time: draft.node_time(),
        identity: repository.options().identity.clone(),
    };
    let archived = tokio::task::spawn_blocking(move || job.archive()).await.unwrap_or(Err(Error::Cancelled));
    // The threads have ended, so this is the only reference.
    let context = Arc::into_inner(context).ok_or(Error::Cancelled)?;
    let saver = Arc::into_inner(context.saver).ok_or(Error::Cancelled)?;
    match archived {
        Ok(()) => saver.finish().await?,
        // The saver was stopped; it has the reason.
        Err(Error::Cancelled) => return Err(saver.problem().unwrap_or(Error::Cancelled)),
        Err(error) => return Err(error),
    };
    let tree = *context.root.get().ok_or_else(|| Error::damaged("the new snapshot", "it has no tree"))?;
    let findings = context.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(BackupOutcome {
        snapshot_id: None,
        snapshot: draft.finish(tree, parent, &findings),
        unreadable: findings.unreadable.first,
        unreadable_count: findings.unreadable.count,
        changed_while_read: findings.changed.first,
        changed_count: findings.changed.count,
        duration: clock.elapsed(),
    })
}

/// Whether a new snapshot has the same tree as its parent.
pub(super) async fn same_as_parent(repository: &Repository, snapshot: &Snapshot) -> Result<bool> {
    let Some(parent) = snapshot.parent else { return Ok(false) };
    Ok(repository.load_snapshot(parent).await?.tree == snapshot.tree)
}

fn context(
    repository: &Repository,
    index: Index,
    options: &BackupOptions,
    lock: Option<Arc<Lock>>,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<Context> {
    let index = Arc::new(index);
    let saver = if options.dry_run {
        Saver::dry(repository, Arc::clone(&index), cancel.clone())
    } else {
        Saver::start(repository, Arc::clone(&index), lock, cancel.clone())
    };
    Ok(Context {
        reader: BlobReader::new(repository, index),
        saver: Arc::new(saver),
        tables: Tables::new(Polynomial(repository.config().chunker_polynomial))?,
        nodes: NodeReader::new(options.metadata),
        progress,
        cancel,
        runtime: Handle::current(),
        findings: Mutex::new(Findings::default()),
        growth: options.growth,
        large_tree: options.large_tree,
        settle: options.settle,
        zeros: Default::default(),
        root: OnceLock::new(),
    })
}

/// The part of the snapshot that is known before the backup.
struct Draft {
    snapshot: Snapshot,
    started: Zoned,
}

impl Draft {
    fn new(repository: &Repository, options: &BackupOptions, started: Zoned) -> Result<Self> {
        let identity = &repository.options().identity;
        let snapshot = Snapshot {
            time: options.time.clone().unwrap_or_else(|| started.clone()),
            parent: None,
            tree: BlobId(crate::id::Id([0; 32])),
            paths: paths(&options.source)?,
            hostname: options.host.clone(),
            username: identity.user.clone(),
            uid: identity.uid,
            gid: identity.gid,
            excludes: options.excludes.clone(),
            tags: options.tags.clone(),
            original: None,
            program_version: concat!("lifeboat ", env!("CARGO_PKG_VERSION")).to_owned(),
            summary: None,
        };
        Ok(Self { snapshot, started })
    }

    async fn parent(&self, repository: &Repository, choice: Parent) -> Result<Option<FoundSnapshot>> {
        match choice {
            Parent::None => Ok(None),
            Parent::Given(id) => Ok(Some((id, repository.load_snapshot(id).await?))),
            Parent::Newest(group_by) => {
                let query = ParentQuery {
                    host: &self.snapshot.hostname,
                    paths: &self.snapshot.paths,
                    tags: &self.snapshot.tags,
                    time: self.snapshot.time.timestamp(),
                    group_by,
                };
                repository.find_parent(&query).await
            }
        }
    }

    fn node_time(&self) -> NodeTime {
        node_time(&self.snapshot.time)
    }

    fn finish(self, tree: BlobId, parent: Option<FoundSnapshot>, findings: &Findings) -> Snapshot {
        let summary =
            Summary { backup_start: self.started, backup_end: Zoned::now(), counts: findings.counts };
        Snapshot { tree, parent: parent.map(|(id, _)| id), summary: Some(summary), ..self.snapshot }
    }
}

/// The clock that the kernel takes the times of files from. It advances in ticks, so it may be a few milliseconds
/// behind the exact clock: a file that is written after this call never gets an earlier time.
fn clock_of_files() -> Zoned {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let now =
        i32::try_from(now.tv_nsec).ok().and_then(|nanoseconds| Timestamp::new(now.tv_sec, nanoseconds).ok());
    now.map_or_else(Zoned::now, |now| now.to_zoned(TimeZone::system()))
}

fn node_time(time: &Zoned) -> NodeTime {
    let time = time.timestamp();
    NodeTime::new(time.as_second(), time.subsec_nanosecond().unsigned_abs())
}

/// The paths in the snapshot's metadata.
fn paths(source: &Source) -> Result<Vec<String>> {
    match source {
        Source::Root { path, .. } | Source::Entry { path, .. } => Ok(vec![place(path)?]),
        Source::Stream { name, .. } | Source::Command { name, .. } | Source::Device { name, .. } => {
            Ok(vec![format!("/{}", name.trim_matches('/'))])
        }
        Source::Paths(given) if given.is_empty() => {
            Err(Error::invalid("source", "nothing to back up: specify files or directories"))
        }
        Source::Paths(given) => {
            let current = current_directory()?;
            let paths =
                targets::snapshot_paths(given.iter().map(|path| path.as_os_str().as_bytes()), &current);
            Ok(paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
        }
    }
}

/// The path at which a directory is stored in the snapshot: absolute and cleaned.
fn place(path: &str) -> Result<String> {
    let is_odd = |part: &str| matches!(part, "." | "..") || part.contains('\0');
    if !path.starts_with('/') || path.split('/').any(is_odd) {
        let problem = format!("'{path}' is not an absolute path without '.' and '..'");
        return Err(Error::invalid("path in the snapshot", problem));
    }
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    Ok(format!("/{}", parts.join("/")))
}

fn current_directory() -> Result<Vec<u8>> {
    let failed = |source| Error::Local { action: "find the current directory".to_owned(), source };
    Ok(std::env::current_dir().map_err(failed)?.into_os_string().into_encoded_bytes())
}

/// The part of a backup that runs on threads of its own.
struct Job {
    context: Arc<Context>,
    options: BackupOptions,
    parent: Option<BlobId>,
    /// When the backup of the parent started.
    since: Option<NodeTime>,
    threads: usize,
    time: NodeTime,
    identity: Identity,
}

impl Job {
    /// Walks or reads on this thread and works on the others; the first failure stops all of them.
    fn archive(self) -> Result<()> {
        let (queues, files, offer) = Queues::new(self.threads);
        let context = Arc::clone(&self.context);
        let context: &Context = &context;
        std::thread::scope(|scope| {
            let work = || {
                let worker = Worker::new(&queues, offer.clone());
                scope.spawn(move || worker.work(context).inspect_err(|_| context.cancel.cancel()))
            };
            let workers: Vec<_> = (0..self.threads).map(|_| work()).collect();
            let produced = self.produce(files, Worker::new(&queues, offer));
            let produced = produced.inspect_err(|_| context.cancel.cancel());
            let worked = workers.into_iter().map(|worker| worker.join().unwrap_or(Err(Error::Cancelled)));
            first_error(std::iter::once(produced).chain(worked))
        })
    }

    /// Drops both ends of the queues at the end, which ends the workers.
    fn produce(self, files: Sender<FileJob>, worker: Worker<'_>) -> Result<()> {
        let Self { context, options, parent, since, time, identity, .. } = self;
        let stream = |name: &str, reader: &mut dyn Read| {
            let file = StreamFile { name, time, identity: &identity };
            file.archive(&context, &worker, reader)
        };
        let may_be_empty = options.allow_empty;
        match options.source {
            Source::Root { directory, path } => {
                drop(worker);
                let walker = Walker { context: &context, change: options.change, since, files, may_be_empty };
                let open = OpenSource { directory, path: place(&path)?, is_entry: false };
                open.follow(&walker, &options.filter, options.scan, parent)
            }
            Source::Entry { directory, path } => {
                drop(worker);
                let walker =
                    Walker { context: &context, change: options.change, since, files, may_be_empty: false };
                let open = OpenSource { directory, path: place(&path)?, is_entry: true };
                open.follow(&walker, &options.filter, options.scan, parent)
            }
            Source::Device { file, name } => {
                drop(files);
                let device = StreamFile { name: &name, time, identity: &identity };
                device.archive_device(&context, &worker, &file)
            }
            Source::Paths(given) => {
                drop(worker);
                let current = current_directory()?;
                let given = given.iter().map(|path| path.as_os_str().as_bytes());
                let targets = targets::tree(given, &mut directory::list)?;
                let scanned = options.scan.then(|| targets.clone());
                let scanned = scanned.map(|targets| Walk::new(targets, &options.filter, &current));
                let walker =
                    Walker { context: &context, change: options.change, since, files, may_be_empty: false };
                follow(&walker, Walk::new(targets, &options.filter, &current), scanned, parent)
            }
            Source::Stream { name, mut reader } => {
                drop(files);
                not_empty(stream(&name, &mut reader)?, may_be_empty)
            }
            Source::Command { name, argv } => {
                drop(files);
                // On a terminal it may have to ask for a password, and it gets the signals of the keyboard itself.
                let own_group = !std::io::stdin().is_terminal();
                let (producer, mut output) = Producer::start(&argv, own_group, &context.cancel)?;
                let bytes = stream(&name, &mut output)?;
                drop(output);
                producer.finish(&context.cancel)?;
                not_empty(bytes, may_be_empty)
            }
        }
    }
}

/// An open directory, and the path at which it or its entry is stored.
struct OpenSource {
    directory: OwnedFd,
    path: String,
    /// Only the entry of this name is stored.
    is_entry: bool,
}

impl OpenSource {
    fn follow(self, walker: &Walker<'_>, filter: &Filter, scan: bool, parent: Option<BlobId>) -> Result<()> {
        let walk = || {
            let (handle, path) = (DirectoryHandle::of(&self.directory), self.path.as_bytes());
            let walk = handle.and_then(|handle| {
                if self.is_entry {
                    Walk::of_entry(handle, path, filter)
                } else {
                    Walk::at(handle, path, filter)
                }
            });
            walk.map_err(Error::file("read", &self.path))
        };
        let scanned = scan.then(walk).transpose()?;
        follow(walker, walk()?, scanned, parent)
    }
}

/// Walks to the end; in parallel, `scanned` counts the source.
fn follow(
    walker: &Walker<'_>,
    walk: Walk<'_>,
    scanned: Option<Walk<'_>>,
    parent: Option<BlobId>,
) -> Result<()> {
    std::thread::scope(|scope| {
        if let Some(scanned) = scanned {
            let context = walker.context;
            scope.spawn(move || count_ahead(context, scanned));
        }
        walker.follow(walk, parent)
    })
}

/// The most informative error: the other threads only report "cancelled".
fn first_error(outcomes: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = outcomes.filter_map(Result::err).collect();
    errors.sort_by_key(|error| matches!(error, Error::Cancelled));
    errors.into_iter().next().map_or(Ok(()), Err)
}

fn not_empty(bytes: u64, allowed: bool) -> Result<()> {
    if bytes > 0 || allowed {
        return Ok(());
    }
    Err(Error::Refused {
        reason: "the stream was empty, so no snapshot was made".to_owned(),
        hint: "check whether the program before the pipe failed; --allow-empty-input stores an empty file",
    })
}

/// Counts the source for the progress; the backup does not wait for it.
fn count_ahead(context: &Context, walk: Walk<'_>) {
    let mut counted = (0, 0);
    let mut progress = |totals: ScanTotals| {
        context.progress.add_total(totals.files - counted.0, totals.bytes - counted.1);
        counted = (totals.files, totals.bytes);
    };
    scan(walk, &|| context.cancel.is_cancelled(), &mut progress);
    context.progress.total_is_known();
}
