//! Commands in restored pods. They start when a pod exists and run while other items are restored; the restore waits
//! for them. Before the first command of a pod an annotation is written to the pod, so that nothing runs twice after
//! a restart.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifeboat_cluster::ApiError;
use lifeboat_cluster::exec::ExecRequest;
use lifeboat_cluster::write::Target;
use lifeboat_plan::velero::restore::hooks::ExecHook;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::report::{HookCounts, Report};
use crate::backup::Commands;
use lifeboat_control::locked;
use lifeboat_items::effects::Effects;
use lifeboat_items::pace::Pace;

/// Annotation of a pod: the UID of the Restore whose hooks started in it, and their stage.
const NOTE: &str = "lifeboat.io/restore-hooks";

/// The hooks of one restore.
pub(crate) struct PodHooks {
    /// The UID of the Restore.
    uid: String,
    effects: Arc<dyn Effects>,
    commands: Arc<dyn Commands>,
    report: Arc<Report>,
    tasks: Mutex<JoinSet<()>>,
    attempted: AtomicUsize,
    failed: AtomicUsize,
}

/// Why a hook did not run.
#[derive(Debug, thiserror::Error)]
enum NotUp {
    #[error("{0}")]
    Unread(String),
    #[error("the pod was deleted")]
    Deleted,
    #[error("pod entered phase {0} before some post-restore exec hooks ran")]
    Ended(String),
    #[error("the pod has no such container")]
    NoContainer,
    #[error("the container was not up within {} s", .0.as_secs())]
    Late(Duration),
}

impl PodHooks {
    pub(super) fn new(
        uid: String,
        effects: Arc<dyn Effects>,
        commands: Arc<dyn Commands>,
        report: Arc<Report>,
    ) -> Self {
        let (tasks, attempted, failed) = (Mutex::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { uid, effects, commands, report, tasks, attempted, failed }
    }

    /// Starts the hooks of a pod that exists.
    pub(super) fn begin(self: &Arc<Self>, hooks: Vec<ExecHook>, target: &Target, pod: &Value) {
        if hooks.is_empty() {
            return;
        }
        let note = pod.pointer("/metadata/annotations").and_then(|all| all.get(NOTE)).and_then(Value::as_str);
        match note.and_then(|note| note.strip_prefix(&format!("{}:", self.uid))) {
            Some("done") => return,
            Some(_) => {
                let message = format!(
                    "the restore hooks of pod {target} had started when the server was restarted, and were not run again; check whether they completed"
                );
                self.report.error(target.namespace.as_deref(), message);
                return;
            }
            None => {}
        }
        let (all, target) = (self.clone(), target.clone());
        locked(&self.tasks).spawn(async move { all.in_pod(&target, hooks).await });
    }

    /// Waits until all hooks have ended, or `limit` has passed.
    pub(super) async fn finish(&self, limit: Duration, cancel: &CancellationToken) -> HookCounts {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = cancel.cancelled() => {}
            ended = timeout(limit, all) => if ended.is_err() {
                self.report.general("the time for restore hooks is over; hooks that had not run were skipped");
            },
        }
        HookCounts {
            attempted: self.attempted.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// Runs the hooks of one pod, container by container as they come up, in order within a container.
    async fn in_pod(&self, target: &Target, hooks: Vec<ExecHook>) {
        let start = Instant::now();
        self.attempted.fetch_add(hooks.len(), Ordering::Relaxed);
        let mut noted = false;
        let mut stopped = None;
        for hook in &hooks {
            let ended = match &stopped {
                Some(reason) => Err(not_executed(hook, target, reason)),
                None => self.one(target, hook, start, &mut noted).await,
            };
            if let Err(message) = ended {
                self.failed.fetch_add(1, Ordering::Relaxed);
                self.report.error(target.namespace.as_deref(), message);
                if hook.fail && stopped.is_none() {
                    stopped = Some("a hook before it failed");
                }
            }
        }
        if noted && let Err(error) = self.note(target, "done").await {
            tracing::warn!(pod = %target, error = error.chain(), "cannot record that restore hooks have ended");
        }
    }

    async fn one(
        &self,
        target: &Target,
        hook: &ExecHook,
        start: Instant,
        noted: &mut bool,
    ) -> Result<(), String> {
        self.is_up(target, hook, start).await.map_err(|reason| not_executed(hook, target, &reason))?;
        // Without the annotation a restart would run the hook twice.
        if !*noted {
            let written = self.note(target, "begun").await;
            written.map_err(|error| not_executed(hook, target, &error.chain()))?;
            *noted = true;
        }
        let request = ExecRequest {
            namespace: target.namespace.clone().unwrap_or_default(),
            pod: target.name.clone(),
            container: hook.container.clone(),
            command: hook.command.clone(),
            timeout: hook.timeout,
        };
        self.commands.run(&request).await.map(drop).map_err(|error| {
            let error = if hook.is_secret { error.without_output() } else { error.to_string() };
            format!(
                "hook {} in container {} of pod {target} failed to execute, err: {error}",
                hook.name, hook.container
            )
        })
    }

    async fn note(&self, target: &Target, stage: &str) -> Result<(), ApiError> {
        let patch = json!({"metadata": {"annotations": {NOTE: format!("{}:{stage}", self.uid)}}});
        self.effects.merge(target, None, &patch).await
    }

    /// Waits for the container.
    async fn is_up(&self, target: &Target, hook: &ExecHook, start: Instant) -> Result<(), NotUp> {
        let mut pace = Pace::default();
        loop {
            let pod = self.effects.get(target).await.map_err(|error| NotUp::Unread(error.chain()))?;
            if is_container_up(&pod.ok_or(NotUp::Deleted)?, hook)? {
                return Ok(());
            }
            if let Some(limit) = hook.wait
                && start.elapsed() >= limit
            {
                return Err(NotUp::Late(limit));
            }
            sleep(pace.pause()).await;
        }
    }
}

fn not_executed(hook: &ExecHook, target: &Target, reason: &dyn std::fmt::Display) -> String {
    let ExecHook { name, container, .. } = hook;
    format!("hook {name} in container {container} in pod {target} not executed: {reason}")
}

/// Whether a hook's container runs, or is ready if the hook asks for that.
fn is_container_up(pod: &Value, hook: &ExecHook) -> Result<bool, NotUp> {
    match pod.pointer("/status/phase").and_then(Value::as_str) {
        Some(phase @ ("Succeeded" | "Failed")) => return Err(NotUp::Ended(phase.to_owned())),
        _ if has_no(pod, &hook.container) => return Err(NotUp::NoContainer),
        _ => {}
    }
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let status = statuses.into_iter().flatten().find(|status| status["name"] == hook.container.as_str());
    Ok(status.is_some_and(|status| {
        if hook.ready { status["ready"] == true } else { status.pointer("/state/running").is_some() }
    }))
}

fn has_no(pod: &Value, container: &str) -> bool {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    !containers.into_iter().flatten().any(|known| known["name"] == container)
}
