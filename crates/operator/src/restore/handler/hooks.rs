//! Commands in restored pods. They begin when a pod is there and run beside the restore of other items; the restore ends
//! after them. Before the first command of a pod its intent is noted in an annotation of the pod, so that after a restart
//! nothing runs twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lifeboat_cluster::ApiError;
use lifeboat_cluster::exec::ExecRequest;
use lifeboat_cluster::write::Target;
use lifeboat_plan::restore::hooks::ExecHook;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::report::HookCounts;
use crate::items::pace::Pace;
use crate::items::run::{Run, locked};

/// Annotation of a pod: the UID of the Restore whose hooks began in it, and how far they came.
const NOTE: &str = "lifeboat.io/restore-hooks";

/// The hooks that run.
#[derive(Default)]
pub(crate) struct HookRuns {
    tasks: Mutex<JoinSet<()>>,
    attempted: AtomicUsize,
    failed: AtomicUsize,
}

/// Begins the hooks of a pod that is there.
pub(crate) fn begin(run: &Arc<Run>, target: &Target, pod: &Value) {
    let hooks = run.valid.hooks.exec(pod, true);
    if hooks.is_empty() {
        return;
    }
    let uid = run.restore.metadata.uid.clone().unwrap_or_default();
    let note = pod.pointer("/metadata/annotations").and_then(|all| all.get(NOTE)).and_then(Value::as_str);
    match note.and_then(|note| note.strip_prefix(&format!("{uid}:"))) {
        Some("done") => return,
        Some(_) => {
            let words = format!(
                "the restore hooks of pod {target} had begun when the server was restarted, and were not run again; look whether they did their work"
            );
            run.report.error(target.namespace.as_deref(), words);
            return;
        }
        None => {}
    }
    let (task_run, target) = (run.clone(), target.clone());
    locked(&run.hooks.tasks).spawn(async move { in_pod(&task_run, &target, hooks, &uid).await });
}

/// Waits until all hooks have ended, or their time is over.
pub(crate) async fn finish(run: &Arc<Run>, cancel: &CancellationToken) -> HookCounts {
    let mut tasks = std::mem::take(&mut *locked(&run.hooks.tasks));
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = cancel.cancelled() => {}
        ended = timeout(run.times.hooks, all) => if ended.is_err() {
            run.report.general_error("the time for restore hooks is over; those that had not run were left out");
        },
    }
    HookCounts {
        attempted: run.hooks.attempted.load(Ordering::Relaxed),
        failed: run.hooks.failed.load(Ordering::Relaxed),
    }
}

/// The hooks of one pod, container by container as they come up, in order within one.
async fn in_pod(run: &Run, target: &Target, hooks: Vec<ExecHook>, uid: &str) {
    let start = Instant::now();
    run.hooks.attempted.fetch_add(hooks.len(), Ordering::Relaxed);
    let mut noted = false;
    let mut stopped = None;
    for hook in &hooks {
        let ended = match &stopped {
            Some(reason) => Err(format!(
                "hook {} in container {} in pod {target} not executed: {reason}",
                hook.name, hook.container
            )),
            None => one(run, target, hook, uid, start, &mut noted).await,
        };
        if let Err(words) = ended {
            run.hooks.failed.fetch_add(1, Ordering::Relaxed);
            run.report.error(target.namespace.as_deref(), words);
            if hook.fail && stopped.is_none() {
                stopped = Some("a hook before it failed");
            }
        }
    }
    if noted && let Err(error) = note(run, target, uid, "done").await {
        tracing::warn!(pod = %target, error = error.chain(), "cannot note that restore hooks have ended");
    }
}

async fn one(
    run: &Run,
    target: &Target,
    hook: &ExecHook,
    uid: &str,
    start: Instant,
    noted: &mut bool,
) -> Result<(), String> {
    is_up(run, target, hook, start).await.map_err(|reason| {
        format!("hook {} in container {} in pod {target} not executed: {reason}", hook.name, hook.container)
    })?;
    // Without the note a restart would run it twice.
    if !*noted {
        note(run, target, uid, "begun").await.map_err(|error| {
            let (name, container) = (&hook.name, &hook.container);
            format!("hook {name} in container {container} in pod {target} not executed: {}", error.chain())
        })?;
        *noted = true;
    }
    let request = ExecRequest {
        namespace: target.namespace.clone().unwrap_or_default(),
        pod: target.name.clone(),
        container: hook.container.clone(),
        command: hook.command.clone(),
        timeout: hook.timeout,
    };
    run.commands.run(&request).await.map(drop).map_err(|error| {
        format!(
            "hook {} in container {} of pod {target} failed to execute, err: {error}",
            hook.name, hook.container
        )
    })
}

async fn note(run: &Run, target: &Target, uid: &str, word: &str) -> Result<(), ApiError> {
    let patch = json!({"metadata": {"annotations": {NOTE: format!("{uid}:{word}")}}});
    run.writer.merge(target, None, &patch).await.map(drop)
}

/// Waits for the container.
async fn is_up(run: &Run, target: &Target, hook: &ExecHook, start: Instant) -> Result<(), String> {
    let mut pace = Pace::default();
    loop {
        let pod = run.writer.get(target).await.map_err(|error| error.chain())?;
        let Some(pod) = pod else { return Err("the pod was deleted".to_owned()) };
        match pod.pointer("/status/phase").and_then(Value::as_str) {
            Some(phase @ ("Succeeded" | "Failed")) => {
                return Err(format!("pod entered phase {phase} before some post-restore exec hooks ran"));
            }
            _ if has_no(&pod, &hook.container) => return Err("the pod has no such container".to_owned()),
            _ => {}
        }
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
        let status = statuses.into_iter().flatten().find(|status| status["name"] == hook.container.as_str());
        let up = status.is_some_and(|status| {
            if hook.ready { status["ready"] == true } else { status.pointer("/state/running").is_some() }
        });
        if up {
            return Ok(());
        }
        if let Some(limit) = hook.wait
            && start.elapsed() >= limit
        {
            return Err(format!("the container was not up within {} s", limit.as_secs()));
        }
        sleep(pace.next()).await;
    }
}

fn has_no(pod: &Value, container: &str) -> bool {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    !containers.into_iter().flatten().any(|known| known["name"] == container)
}
