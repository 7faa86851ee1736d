//! Hooks around a block. Before a pod's pre hooks run, its post hooks are recorded in the journal; the entry is
//! removed when they have run. So the next leader knows which post hooks still have to run.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
pub(crate) use lifeboat_cluster::exec::Commands;
use lifeboat_cluster::exec::{ExecError, ExecRequest};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::velero::hooks::{Hook, PodHooks};
use lifeboat_transfer::movers::Reserved;
use serde::{Deserialize, Serialize};

use super::blocks::Block;
use super::chains::value;
use super::collect::Collection;
use super::{About, Pass, Report};
use crate::backup::journal::Journal;
use crate::backup::volumes::places::BlockPod;

/// A pod whose post hooks have not run yet, as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) post: Vec<Hook>,
}

impl OpenPod {
    fn id(&self) -> ItemId {
        ItemId::namespaced(GroupResource::new("", "pods"), &self.namespace, &self.name)
    }
}

/// The state of a block's pods after the pre hooks.
#[derive(Default)]
pub(super) struct Hooked {
    open: Vec<OpenPod>,
    /// Pods, by index in the collection, that are not backed up because a hook with onError `Fail` failed.
    pub(super) left_out: BTreeSet<usize>,
    /// The place in the queue of movers that is reserved for the volumes of the pods.
    pub(super) place: Option<Reserved>,
}

impl Hooked {
    /// Whether post hooks have to run.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }
}

impl Pass {
    pub(super) async fn run_pre_hooks(&self, collected: &Collection, block: &Block) -> Hooked {
        let pods = self.pods_of(collected, block);
        let mut hooked = Hooked { place: self.reserve_place(&pods).await, ..Hooked::default() };
        if pods.iter().any(|pod| pod.is_hooked) {
            self.unless_stopped(self.storage_is_back()).await;
        }
        for at in &block.items {
            let kind = collected.kind(*at);
            let id = collected.id(*at);
            let is_pod = kind.id == GroupResource::new("", "pods");
            if !is_pod || self.stop.is_cancelled() || self.written.has(&id, &kind.version) {
                continue;
            }
            let hooks = self.valid.hooks.of_pod(&value(collected, *at));
            for warning in &hooks.warnings {
                self.report.warning(&About::Item(&id), warning, None);
            }
            if !hooks.is_empty() && !self.begin(collected, *at, hooks, &mut hooked).await {
                hooked.left_out.insert(*at);
                self.written.claim(&id, &kind.version);
            }
        }
        hooked
    }

    /// The pods of a block that are not written yet.
    fn pods_of(&self, collected: &Collection, block: &Block) -> Vec<BlockPod> {
        let places = block.items.iter().copied().filter(|at| {
            let kind = collected.kind(*at);
            kind.id == GroupResource::new("", "pods") && !self.written.has(&collected.id(*at), &kind.version)
        });
        let pod = |at: usize| {
            let object = value(collected, at);
            let is_hooked = !self.valid.hooks.of_pod(&object).pre.is_empty();
            BlockPod { id: collected.id(at), uid: collected.items[at].meta.uid.clone(), object, is_hooked }
        };
        places.map(pod).collect()
    }

    /// Waits while storage is away, because a pod would be quiesced until the archive takes it. The request waits itself, no
    /// longer than an outage may last; its answer ends the outage. Where there is none, the archive fails with the cause.
    async fn storage_is_back(&self) {
        if self.outage.now().is_some()
            && let Err(error) = self.store.exists(&self.files.metadata()).await
        {
            tracing::debug!(%error, "storage is still away");
        }
    }

    /// Runs the pre hooks of one pod. False if the pod must not be backed up.
    async fn begin(&self, collected: &Collection, at: usize, hooks: PodHooks, hooked: &mut Hooked) -> bool {
        let id = collected.id(at);
        let pod = OpenPod {
            namespace: id.namespace.clone().unwrap_or_default(),
            name: id.name.clone(),
            uid: collected.items[at].meta.uid.clone(),
            post: hooks.post,
        };
        if !hooks.pre.is_empty()
            && !pod.post.is_empty()
            && let Err(error) = self.journal.open(&pod).await
        {
            // No hook may run before it is recorded: after a crash the post hooks would never run.
            self.report.error(
                &About::Item(&id),
                "Hooks were not run: their journal cannot be written",
                Some(&error.to_string()),
            );
            return true;
        }
        let mut goes_on = true;
        let mut rests = !hooks.pre.is_empty();
        for hook in &hooks.pre {
            // If the backup is stopped, a running pre hook is not waited for; the pod's post hooks run nevertheless.
            let Some(succeeded) = self.unless_stopped(self.run_hook(&pod, hook, "pre")).await else {
                let message = format!(
                    "Pre hook {} is not waited for, because the backup was stopped; it may still run in the container",
                    hook.name
                );
                self.report.warning(&About::Item(&id), &message, None);
                rests = false;
                break;
            };
            rests &= succeeded;
            if !succeeded && hook.fail {
                self.report.error(
                    &About::Item(&id),
                    "Not backed up: a pre hook with onError Fail failed",
                    None,
                );
                goes_on = false;
                break;
            }
        }
        if rests {
            self.made().quiesced.insert(pod.uid.clone());
        }
        hooked.open.push(pod);
        goes_on
    }

    pub(super) async fn run_post_hooks(&self, hooked: Hooked) {
        for pod in hooked.open {
            self.made().quiesced.remove(&pod.uid);
            for hook in &pod.post {
                let succeeded = self.run_hook(&pod, hook, "post").await;
                if !succeeded && hook.fail {
                    break;
                }
            }
            self.journal.close(&pod).await;
        }
    }

    async fn run_hook(&self, pod: &OpenPod, hook: &Hook, half: &str) -> bool {
        let succeeded = run_hook(self.commands.as_ref(), &self.report, pod, hook, half).await;
        let mut made = self.made();
        made.hooks_attempted += 1;
        made.hooks_failed += usize::from(!succeeded);
        succeeded
    }
}

async fn run_hook(commands: &dyn Commands, report: &Report, pod: &OpenPod, hook: &Hook, half: &str) -> bool {
    let id = pod.id();
    report.info_about(&id, &format!("Running {half} hook {} in container {}", hook.name, hook.container));
    let request = ExecRequest {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: hook.container.clone(),
        command: hook.command.clone(),
        timeout: hook.timeout,
    };
    match commands.run(&request).await {
        Ok(output) => {
            let said = [("stdout", hook.shown(&output.stdout)), ("stderr", hook.shown(&output.stderr))];
            report.info(&format!("The {half} hook of pod {} ended", id.path()), &said);
            true
        }
        Err(error) => {
            let message = match &error {
                ExecError::Api(error) => error.chain(),
                other if hook.is_secret => other.without_output(),
                other => other.to_string(),
            };
            report.error(
                &About::Item(&id),
                &format!("Error executing {half} hook {}", hook.name),
                Some(&message),
            );
            false
        }
    }
}

/// Runs the post hooks of every pod that an earlier attempt left quiesced, and returns these pods.
pub(crate) async fn run_open_posts(
    commands: &dyn Commands,
    journal: &Journal,
    report: &Report,
) -> Result<(), ApiError> {
    let (open, unreadable) = journal.entries().await?;
    for message in unreadable {
        report.error(&About::Server, &message, None);
    }
    for pod in open {
        let about = pod.id();
        let about = About::Item(&about);
        if !journal.has_its_pod(&pod).await? {
            let message =
                "The server was interrupted between this pod's hooks; the pod is gone, so none run for it";
            report.warning(&about, message, None);
            journal.close(&pod).await;
            continue;
        }
        let message = "The server was interrupted between this pod's hooks; its post hooks run now";
        report.warning(&about, message, None);
        for hook in &pod.post {
            run_hook(commands, report, &pod, hook, "post").await;
        }
        journal.close(&pod).await;
    }
    Ok(())
}
