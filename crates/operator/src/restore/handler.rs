//! The restore pipeline: spool -> filters, mapping -> scheduler -> for each item: actions, additional items, waits ->
//! create or compare -> hooks. Takes a job that was validated, gives what happened; the controller makes the calls around
//! it. Many items are under way at once; what they share is [`crate::items::run::Run`].

pub(crate) mod actions;
pub(crate) mod hooks;
pub(crate) mod idle;
pub(crate) mod journal;
pub(crate) mod lookup;
pub(crate) mod maker;
pub(crate) mod native;
pub(crate) mod operations;
pub(crate) mod pod_volumes;
pub(crate) mod report;
#[cfg(test)]
mod tests;
pub(crate) mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use lifeboat_api::velero::Restore;
use lifeboat_archive::{RunLog, Spool};
use lifeboat_cluster::write::{Throttle, Writer};
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plan::restore::priorities::Priorities;
use lifeboat_plan::restore::validate::ValidRestore;
use lifeboat_plan::restore::volumes::DataIn;
use lifeboat_plugin::actions::RestoreItemAction;
use tokio_util::sync::CancellationToken;

use crate::backup::Commands;

pub use crate::items::plan::{Fight, NotPlanned, Planned, PlannedItem, Would};
pub(crate) use crate::items::plan::{Question, dry_run};
pub(crate) use journal::{Begun, Journal};
pub(crate) use maker::{OpenVolume, Owner, Processes, VolumeMaker};
pub(crate) use pod_volumes::{Filled, Filler, end_open};
pub(crate) use report::{Ended, Progress};

use crate::items::run;
use actions::Actions;

/// What is to be restored, from what, and how.
pub(crate) struct Job {
    pub(crate) restore: Restore,
    pub(crate) valid: ValidRestore,
    pub(crate) spool: Spool,
    /// How the backup holds the data of each volume, by its name.
    pub(crate) volumes: BTreeMap<String, DataIn>,
    /// The location, where nobody vouches for what is in it.
    pub(crate) untrusted: Option<String>,
    /// Operations that earlier attempts of this restore began.
    pub(crate) begun: Begun,
    pub(crate) log: RunLog,
}

/// What the pipeline works with.
#[derive(Clone)]
pub(crate) struct Tools {
    /// A client that makes each request once.
    pub(crate) direct: Client,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) actions: Vec<Arc<dyn RestoreItemAction>>,
    /// Makes volumes from snapshots; None where nothing is to be made.
    pub(crate) maker: Option<Arc<VolumeMaker>>,
    /// Brings copies of volumes back; None where there are none, or nobody wants them.
    pub(crate) filler: Option<Arc<Filler>>,
    /// Where operations are noted that actions begin.
    pub(crate) journal: Arc<Journal>,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) priorities: Priorities,
    pub(crate) times: Times,
}

impl Tools {
    fn writer(&self) -> Writer {
        Writer::new(self.direct.clone(), Arc::new(Throttle::default()))
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Additional items to be ready, where the action says nothing.
    pub(crate) ready: Duration,
    /// A namespace or an object to be gone.
    pub(crate) terminating: Duration,
    /// A definition to be established.
    pub(crate) resource: Duration,
    /// Hooks in all.
    pub(crate) hooks: Duration,
    /// One call of an action.
    pub(crate) action: Duration,
}

/// Restores everything that is wanted. Ends early when `cancel` is cancelled; what was under way is dropped.
pub(crate) async fn restore(
    job: Job,
    tools: &Tools,
    progress: &Arc<Progress>,
    cancel: &CancellationToken,
) -> Ended {
    let asked = cancel.run_until_cancelled(Actions::ask(&tools.actions, &tools.catalogue)).await;
    let (actions, left_out) = asked.unwrap_or_default();
    let run = run::Run::new(job, tools, actions, progress.clone());
    for words in left_out {
        run.report.general_error(words);
    }
    // Without their actions items must not be created.
    if !cancel.is_cancelled() {
        run::drive(&run, cancel).await;
    }
    let filling = async {
        match &run.filler {
            Some(filler) => filler.finish(&run, cancel).await,
            None => Filled::default(),
        }
    };
    let (pods, mut filled) = tokio::join!(hooks::finish(&run, cancel), filling);
    let mut ended = run.report.end(pods);
    ended.volumes = std::mem::take(&mut *run::locked(&run.native));
    ended.volumes.infos.append(&mut filled.infos);
    ended.told = filled.told;
    ended.volumes.filled = std::mem::take(&mut *run::locked(&run.filled));
    ended
}
