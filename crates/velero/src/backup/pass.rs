//! One pass of a backup: collect, order, blocks with hooks and actions, archive. Takes a Backup whose spec is valid,
//! the types that the cluster serves, and the storage to write to; returns what was written, or why the whole backup
//! failed. Decisions about single items are functions of crate `plan`.
//!
//! Types that take part in blocks, hooks or an order are collected into a spool first; all others stream from the
//! list's pages to the archive. Chains (ordered items) run one item after the other, before everything else.

mod actions;
mod again;
mod blocks;
mod chains;
mod collect;
mod failure;
mod hooks;
mod items;
mod namespaces;
mod progress;
mod report;
mod spool;
mod stream;
mod summary;
#[cfg(test)]
mod tests;
mod turns;
mod upload;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::{Client, ResourceExt};
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::{BackupOperation, BackupVolumeInfo, NativeSnapshot, ResourceList, Results};
use lifeboat_archive::{ArchiveSize, ArchiveWriter, BackupFiles, ObjectStore};
use lifeboat_control::{Clock, locked};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::velero::backup::phase::Counts;
use lifeboat_plan::velero::backup::validate::ValidBackup;
use lifeboat_plan::velero::backup::volumes::{Copies, VolumeBook};
use lifeboat_plugin::Registry;
use lifeboat_store::Outage;
use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::volumes::copies::Copying;
use super::volumes::native::Snapshotters;
use super::volumes::{csi, native};
use crate::lookup::ActionLookup;

pub(crate) use actions::{ADOPTED, longest};
pub(crate) use again::read_again;
pub(crate) use failure::{PassError, PassFailure};
pub(crate) use hooks::{Commands, OpenPod, run_open_posts};
pub(crate) use progress::{Counters, Fence, Stop, Watch, verdict};
pub(crate) use report::{About, Report};
pub(crate) use upload::{UploadError, upload_failure, upload_outcome};

use actions::{ResolvedActions, ResolvedBlocks};
use turns::Turns;
use written::Written;

/// How long an item that is being processed may continue when the pass is stopped.
const LAST_MOMENT: Duration = Duration::from_secs(10);

/// Everything a pass needs.
pub(crate) struct PassInput {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) backup: Backup,
    pub(crate) valid: ValidBackup,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) registry: Registry,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) journal: Journal,
    pub(crate) report: Report,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stop: CancellationToken,
    pub(crate) page_size: u32,
    pub(crate) workers: usize,
    /// Whether API versions that the cluster does not prefer are written too.
    pub(crate) all_versions: bool,
    /// The directory of the spool for collected items.
    pub(crate) directory: PathBuf,
    /// Checked before the archive becomes visible.
    pub(crate) fence: Option<Fence>,
    /// The snapshotters that take plugin snapshots.
    pub(crate) snapshotters: Arc<Snapshotters>,
    /// Creates and follows the PodVolumeBackups.
    pub(crate) copying: Arc<Copying>,
    /// Whether the file that Velero reads lists the copies too.
    pub(crate) velero_compatible: bool,
    /// Whether storage is away.
    pub(crate) outage: Outage,
}

/// What a pass wrote.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) size: ArchiveSize,
    pub(crate) resources: ResourceList,
    pub(crate) operations: Vec<BackupOperation>,
    pub(crate) volumes: Vec<BackupVolumeInfo>,
    pub(crate) snapshots: Vec<NativeSnapshot>,
    /// The VolumePluginBackups, as they are stored in the backup.
    pub(crate) volume_plugin_backups: Vec<serde_json::Value>,
    /// The PodVolumeBackups, as they are stored in the backup.
    pub(crate) copies: Vec<serde_json::Value>,
    /// Whether the file that Velero reads lists the copies too.
    pub(crate) velero_compatible: bool,
    pub(crate) results: Results,
}

/// A running pass; shared by all of its tasks.
pub(super) struct Pass {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) backup: Backup,
    pub(super) valid: ValidBackup,
    pub(super) catalogue: Arc<Catalogue>,
    actions: ResolvedActions,
    blocks: ResolvedBlocks,
    pub(super) lookup: ActionLookup,
    pub(super) commands: Arc<dyn Commands>,
    pub(super) journal: Journal,
    pub(super) report: Report,
    pub(super) writer: ArchiveWriter,
    written: Written,
    turns: Turns,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: CancellationToken,
    pub(super) page_size: u32,
    pub(super) workers: usize,
    pub(super) all_versions: bool,
    pub(super) directory: PathBuf,
    pub(super) fence: Option<Fence>,
    pub(super) snapshotters: Arc<Snapshotters>,
    pub(super) copying: Arc<Copying>,
    pub(super) velero_compatible: bool,
    outage: Outage,
    store: Arc<dyn ObjectStore>,
    files: BackupFiles,
    pub(super) pods: native::PodsByNamespace,
    pub(super) csi: csi::Drivers,
    pub(super) made: Mutex<PassResults>,
    /// The first error after which nothing more can be written.
    pub(super) fatal: Mutex<Option<PassFailure>>,
    /// The collected items, once all are collected.
    collected: std::sync::OnceLock<collect::Collection>,
}

/// What the pass gathers while it processes items: volumes, copies, counts.
#[derive(Default)]
pub(super) struct PassResults {
    pub(super) resources: ResourceList,
    pub(super) operations: Vec<BackupOperation>,
    pub(super) book: VolumeBook,
    pub(super) taken: native::Taken,
    /// The results of volumes whose files are copied.
    pub(super) copies: Copies,
    /// Namespaces whose repositories are recorded in the journal.
    pub(super) repositories: BTreeSet<String>,
    /// Claims whose files are copied, by namespace and name.
    pub(super) copied_claims: BTreeSet<(String, String)>,
    /// Pods between their pre hooks, which succeeded, and their post hooks; by UID.
    pub(super) quiesced: BTreeSet<String>,
    /// Pods for whose volumes no place in the queue of movers could be reserved, by UID.
    pub(super) without_place: BTreeSet<String>,
    pub(super) csi: csi::CsiSnapshots,
    /// One record per volume, once all are known.
    pub(super) volumes: Vec<BackupVolumeInfo>,
    /// Namespaces of which at least one item was written.
    pub(super) namespaces: BTreeSet<String>,
    pub(super) types: BTreeSet<GroupResource>,
    /// Namespaces in which the server may not list some types.
    pub(super) forbidden: BTreeSet<String>,
    /// Additional items that are backed up after the others, and whether they must be included: nested too deeply, or
    /// ordered and not among the items that the filters take.
    pub(super) later: Vec<(ItemId, bool)>,
    pub(super) hooks_attempted: usize,
    pub(super) hooks_failed: usize,
    /// The number of items of each type, for the log.
    pub(super) per_type: BTreeMap<GroupResource, usize>,
}

/// Runs the pass to its end. If it is dropped at any await, nothing is left in storage, and open hooks are in the
/// journal.
pub(crate) async fn run(input: PassInput) -> Result<Outcome, PassError> {
    let (actions, mut left_out) = ResolvedActions::new(&input.registry.backup, &input.catalogue).await;
    let (blocks, no_blocks) = ResolvedBlocks::new(&input.registry.blocks, &input.catalogue).await;
    left_out.extend(no_blocks);
    for message in left_out {
        input.report.error(&About::Server, &message, None);
    }
    let files = BackupFiles::new(&input.backup.name_any()).map_err(PassFailure::Name)?;
    let writer = ArchiveWriter::start(
        input.store.clone(),
        files.contents(),
        &lifeboat_archive::WriterOptions::default(),
    );
    let pass = Arc::new(Pass {
        lookup: ActionLookup::with_client(input.client.clone(), input.catalogue.clone()),
        client: input.client,
        clock: input.clock,
        backup: input.backup,
        valid: input.valid,
        catalogue: input.catalogue,
        actions,
        blocks,
        commands: input.commands,
        journal: input.journal,
        report: input.report,
        writer,
        written: Written::default(),
        turns: Turns::default(),
        counters: input.counters,
        stop: input.stop,
        page_size: input.page_size,
        workers: input.workers.max(1),
        all_versions: input.all_versions,
        directory: input.directory,
        fence: input.fence,
        snapshotters: input.snapshotters,
        copying: input.copying.clone(),
        velero_compatible: input.velero_compatible,
        outage: input.outage,
        store: input.store,
        files,
        pods: native::PodsByNamespace::default(),
        csi: csi::Drivers::default(),
        made: Mutex::default(),
        fatal: Mutex::default(),
        collected: std::sync::OnceLock::new(),
    });
    pass.report_start();
    let uid = pass.backup.backup_uid();
    let worked = tokio::select! {
        worked = Box::pin(Pass::work(&pass)) => worked,
        never = input.copying.watch(&uid) => match never {},
    };
    if let Err(error) = worked {
        let begun = std::mem::take(&mut pass.made().operations);
        actions::cancel(&pass.actions, &pass.backup, &pass.journal, &begun).await;
        return Err(error);
    }
    Box::pin(Pass::finish(pass)).await
}

impl Pass {
    async fn work(self: &Arc<Self>) -> Result<(), PassError> {
        let ordered = !self.valid.orders.by_type.is_empty();
        let chains_done = CancellationToken::new();
        let in_blocks = async {
            Self::collect(self).await;
            Self::run_chains(self).await;
            chains_done.cancel();
            Self::run_blocks(self).await;
        };
        let streams = async {
            if ordered {
                chains_done.cancelled().await;
            }
            Self::run_streams(self).await;
        };
        tokio::join!(in_blocks, streams);
        self.soon(self.take_later()).await;
        self.finish_copies().await;
        self.soon(Self::take_namespaces(self)).await;
        self.turns.finish(&[GroupResource::new("", "namespaces")]);
        self.soon(self.take_later()).await;
        self.soon(self.take_definitions()).await;
        self.report_idle_entries();
        self.ended()
    }

    /// The error of a pass that was stopped or failed.
    fn ended(&self) -> Result<(), PassError> {
        if let Some(failure) = locked(&self.fatal).take() {
            return Err(failure.into());
        }
        if self.stop.is_cancelled() { Err(PassError::Stopped) } else { Ok(()) }
    }

    /// Runs work that may be dropped at any point; None if the pass is stopped in the meantime.
    pub(super) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.stop.cancelled() => None,
        }
    }

    /// Runs work that should be finished once started; None if the pass is stopped and the work does not end within
    /// [`LAST_MOMENT`].
    async fn soon<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let over = async {
            self.stop.cancelled().await;
            tokio::time::sleep(LAST_MOMENT).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = over => None,
        }
    }

    /// Fails the pass with this reason: nothing more can be written, and all tasks stop.
    fn give_up(&self, failure: PassFailure) {
        locked(&self.fatal).get_or_insert(failure);
        self.stop.cancel();
    }

    fn report_start(&self) {
        for warning in self.valid.filter.warnings().iter().chain(&self.valid.orders.warnings) {
            self.report.warning(&About::Server, warning, None);
        }
        for (kind, order) in &self.valid.orders.by_type {
            let names = order.entries().collect::<Vec<_>>().join(", ");
            self.report.info(&format!("Ordered resources: {kind} in the order {names}"), &[]);
        }
        let namespaces = self.valid.filter.namespaces();
        for missing in namespaces.missing() {
            let message = format!("namespace {missing} is included by its name and does not exist");
            self.report.error(&About::Namespace(missing), &message, None);
        }
        for pattern in namespaces.idle_patterns() {
            self.report.warning(&About::Server, &format!("no namespace matches {pattern:?}"), None);
        }
    }

    pub(super) fn made(&self) -> MutexGuard<'_, PassResults> {
        locked(&self.made)
    }
}
