//! Starts the items of a Restore, or their dry run: combines source, effects, handler and recorder and drives the run
//! to its end. Called by the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use kube::ResourceExt;
use lifeboat_api::velero::Restore;
use lifeboat_archive::{RunLog, Spool};
use lifeboat_cluster::lookup::ClusterLookup;
use lifeboat_cluster::write::{Throttle, Writer};
use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::items::priorities::Priorities;
use lifeboat_plan::items::trust::{self, Untrusted};
use lifeboat_plan::velero::restore::validate::{ValidRestore, named_targets};
use lifeboat_plan::velero::restore::volumes::DataIn;
use lifeboat_plugin::actions::RestoreItemAction;
use tokio_util::sync::CancellationToken;

use super::actions::Actions;
use super::hooks::PodHooks;
use super::idle::idle;
use super::pod_volumes::{Filled, VolumeKey};
use super::report::{HookCounts, Report, RestoredItems};
use super::{ArchiveItems, Begun, Filler, Journal, Live, NativeVolumes, VeleroHandler};
use crate::backup::Commands;
use crate::lookup::ActionLookup;
use lifeboat_control::{Clock, locked};
use lifeboat_items::effects::{ClusterEffects, Effects};
use lifeboat_items::pipeline::recorder::Recorder;
use lifeboat_items::pipeline::run::{Limits, Run, RunParts, drive};
use lifeboat_items::preview::{AT_ONCE, DryRun, Outcomes, Planned, planned};
use lifeboat_items::progress::Progress;

/// How many items of a restore are processed at once, without those that wait: twice the number of concurrent
/// requests.
const ITEMS: usize = 128;

/// Types whose lists actions request repeatedly: settings of actions, and service accounts, which are restored before
/// the items that ask for them.
const REMEMBERED: &[&str] = &["configmaps", "serviceaccounts"];

/// What is to be restored, from what, and how.
pub(crate) struct Job {
    pub(crate) restore: Restore,
    pub(crate) valid: ValidRestore,
    pub(crate) spool: Spool,
    /// Where the backup has the data of each volume, by the volume's name.
    pub(crate) volumes: BTreeMap<String, DataIn>,
    /// The location, if its content is untrusted.
    pub(crate) untrusted: Option<String>,
    /// Operations that earlier attempts of this restore started.
    pub(crate) begun: Begun,
    pub(crate) log: RunLog,
}

/// What the pipeline works with.
#[derive(Clone)]
pub(crate) struct Tools {
    /// A client without retries.
    pub(crate) direct: Client,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) actions: Vec<Arc<dyn RestoreItemAction>>,
    /// Creates volumes from snapshots; None if there is nothing to create.
    pub(crate) maker: Option<Arc<dyn NativeVolumes>>,
    /// Restores copies of volumes; None if there are none, or if data is not wanted.
    pub(crate) filler: Option<Arc<Filler>>,
    /// Records the operations that actions start.
    pub(crate) journal: Arc<Journal>,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) priorities: Priorities,
    pub(crate) times: Times,
    pub(crate) clock: Clock,
}

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For additional items to be ready, if the action sets no limit.
    pub(crate) ready: Duration,
    /// For a namespace or an object that is being deleted to be gone.
    pub(crate) terminating: Duration,
    /// For a CustomResourceDefinition to be established.
    pub(crate) resource: Duration,
    /// For all hooks together.
    pub(crate) hooks: Duration,
    /// For one call of an action.
    pub(crate) action: Duration,
}

/// The results of a dry run.
pub(crate) struct Previewed {
    pub(crate) planned: Planned,
    /// Claims that would be restored from snapshots: namespace and name in the cluster.
    pub(crate) filled: BTreeSet<(String, String)>,
    /// Copied volumes that would be restored, or that have a note of their own.
    pub(crate) reported: BTreeSet<VolumeKey>,
}

/// Restores everything that is selected. Ends early when `cancel` is cancelled; unfinished items are dropped.
pub(crate) async fn restore(
    job: Job,
    tools: &Tools,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> RestoredItems {
    let report = Arc::new(Report::new(job.log.clone()));
    let effects: Arc<dyn Effects> = Arc::new(ClusterEffects(writer(tools)));
    let uid = job.restore.uid().unwrap_or_default();
    let hooks = PodHooks::new(uid, effects.clone(), tools.commands.clone(), report.clone());
    let live = Live { report: report.clone(), journal: tools.journal.clone(), hooks: Arc::new(hooks) };
    let parts = Parts { live: Some(live), effects, recorder: report.clone(), progress, items: ITEMS };
    let begun = cancel.run_until_cancelled(begin(job, tools, parts)).await;
    let Some((handler, run)) = begun else { return report.end(HookCounts::default()) };
    drive(&run, cancel).await;
    let pods = async {
        match &handler.live {
            Some(live) => live.hooks.finish(tools.times.hooks, cancel).await,
            None => HookCounts::default(),
        }
    };
    let filling = async {
        match &handler.filler {
            Some(filler) => filler.finish(&report, cancel).await,
            None => Filled::default(),
        }
    };
    let (pods, mut filled) = tokio::join!(pods, filling);
    let mut ended = report.end(pods);
    ended.volumes = std::mem::take(&mut *locked(&handler.native));
    ended.volumes.infos.append(&mut filled.infos);
    ended.volumes.filled = std::mem::take(&mut *locked(&handler.filled));
    ended.reported = filled.reported;
    ended
}

/// Finds out what a restore would do, through the same code as [`restore`], with effects that write nothing.
pub(crate) async fn preview(job: Job, tools: &Tools) -> Previewed {
    // The settings of actions are ConfigMaps in Lifeboat's namespace; a restore may create them itself.
    let home = job.restore.namespace().unwrap_or_default();
    let dry_run = DryRun::new(Arc::new(writer(tools))).keeping(GroupResource::new("", "configmaps"), &home);
    let dry_run = Arc::new(dry_run);
    let outcomes = Arc::new(Outcomes::default());
    let progress = Arc::new(Progress::default());
    let backup = job.restore.spec.backup_name.clone().unwrap_or_default();
    let parts = Parts {
        live: None,
        effects: dry_run.clone(),
        recorder: outcomes.clone(),
        progress: &progress,
        items: AT_ONCE,
    };
    let (handler, run) = begin(job, tools, parts).await;
    drive(&run, &CancellationToken::new()).await;
    let filled = std::mem::take(&mut *locked(&handler.filled));
    let reported = handler.filler.as_ref().map(|filler| filler.reported()).unwrap_or_default();
    Previewed { planned: planned(&run, &outcomes, &dry_run, &backup).await, filled, reported }
}

/// What differs between a restore and its dry run.
struct Parts<'a> {
    live: Option<Live>,
    effects: Arc<dyn Effects>,
    recorder: Arc<dyn Recorder>,
    progress: &'a Arc<Progress>,
    items: usize,
}

/// Asks the actions what they apply to, and builds the run.
async fn begin(job: Job, tools: &Tools, parts: Parts<'_>) -> (Arc<VeleroHandler>, Arc<Run>) {
    let Parts { live, effects, recorder, progress, items } = parts;
    let (actions, left_out) = Actions::ask(&tools.actions, &tools.catalogue).await;
    let valid = job.valid;
    let archive = Arc::new(ArchiveItems(job.spool));
    let lookup = ClusterLookup::new(effects.clone(), tools.catalogue.clone()).remembering(REMEMBERED);
    let allowed = trust::is_allowed(job.restore.metadata.annotations.as_ref());
    let untrusted = job.untrusted.map(|location| untrusted(location, &job.restore, &valid));
    let handler = Arc::new(VeleroHandler {
        restore: job.restore,
        archive: archive.clone(),
        volumes: job.volumes,
        wants_data: valid.volumes,
        hooks: valid.hooks,
        actions,
        lookup: ActionLookup::new(lookup),
        begun: job.begun,
        provisioned: Mutex::default(),
        filled: Mutex::default(),
        native: Mutex::default(),
        maker: tools.maker.clone(),
        filler: tools.filler.clone(),
        live,
        times: tools.times,
        clock: tools.clock.clone(),
    });
    let run = Run::new(RunParts {
        source: archive,
        rules: valid.rules,
        catalogue: tools.catalogue.clone(),
        priorities: &tools.priorities,
        effects,
        handler: handler.clone(),
        recorder: recorder.clone(),
        progress: progress.clone(),
        untrusted: untrusted.filter(|_| !allowed),
        limits: Limits { terminating: tools.times.terminating, resource: tools.times.resource, items },
        clock: tools.clock.clone(),
    });
    let source = run.source.as_ref();
    for message in idle(&handler.restore, source, &tools.catalogue, run.homes(), run.selected()) {
        recorder.general_warning(message);
    }
    for message in left_out {
        recorder.general_error(message);
    }
    (handler, run)
}

/// What restricts a restore from an untrusted location.
fn untrusted(location: String, restore: &Restore, valid: &ValidRestore) -> Untrusted {
    let own = valid.rules.own.homes().into_iter().map(str::to_owned).chain(restore.namespace());
    Untrusted { location, named: named_targets(&restore.spec), own: own.collect() }
}

fn writer(tools: &Tools) -> Writer {
    Writer::new(tools.direct.clone(), Arc::new(Throttle::default()))
}
