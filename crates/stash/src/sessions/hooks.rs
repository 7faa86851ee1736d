//! Runs hooks: commands through the API in the pod that is read or written, calls by a mover in the invoker's
//! namespace. The server itself calls no address, because it can reach addresses that tenants must not reach.

pub(super) mod retries;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::NamespaceName;
use lifeboat_api::stash::HookPodRef;
use lifeboat_cluster::exec::{Commands, ExecError, ExecRequest};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_mover::report::{LogLine, Outcome};
use lifeboat_mover::task::{self, CallWork, Limits, Task};
use lifeboat_plan::stash::hook_trust::TrustError;
use lifeboat_plan::stash::hooks::{
    Call, CallBody, CallError, HookAction, HttpCall, Method, PodAddress, Summary, ValidHook,
};
use lifeboat_plan::stash::mover_pod::MoverPodError;
use lifeboat_plan::transfer::attempts::ATTEMPTS;
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner};
use lifeboat_transfer::movers::{MoverEnd, MoverObserver, MoverRequest};
use lifeboat_transfer::repositories::NoKeys;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::engine::HookMoment;
use super::hook_authority::{Verification, verification};
use super::host_record::HostRecord;
use super::pod::{PodRequest, pod_settings};
use super::tasks::{HookMark, HookTasks};
use crate::context::Context;

/// How long a command or a call may take.
const LIMIT: Duration = Duration::from_mins(5);

/// Where the hook before a host runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookPlace {
    /// In this pod, or as a call; None if there is no pod.
    At(Option<HookPodRef>),
    /// Nowhere, for this reason: the target is stopped.
    Skip(String),
}

/// One run of a hook.
pub(super) struct HookRun<'a> {
    pub(super) hook: &'a ValidHook,
    pub(super) summary: &'a Summary,
    /// The pod that is read or written.
    pub(super) pod: Option<&'a Value>,
    /// The session, and the tasks of a call.
    pub(super) owner: Owner,
    pub(super) tasks: HookTasks,
    pub(super) namespace: &'a str,
    /// The annotations of the object with the hook.
    pub(super) annotations: &'a BTreeMap<String, String>,
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookFailure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("there is no pod to run the command in")]
    NoPod,
    #[error(
        "pod {namespace}/{name}, in which the hooks of this host run, is gone, and they are run in no other one"
    )]
    PodGone { namespace: String, name: String },
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error(transparent)]
    Pod(#[from] MoverPodError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("{}", .0.message())]
    Api(ApiError),
    /// What the mover of a call reported, or how it ended.
    #[error("{0}")]
    Mover(String),
    /// A request to the API server failed for so long.
    #[error(
        "{failure}; it was tried again for {minutes} minutes and is given up: see whether the API server and the webhooks of the cluster answer"
    )]
    GivenUp { failure: String, minutes: u64 },
    #[error("the hook was cancelled")]
    Cancelled,
    #[error("the server stopped while the hook ran")]
    Left,
}

/// A pod, as recorded for a host.
pub(super) fn pod_ref(pod: &Value) -> HookPodRef {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    HookPodRef {
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
    }
}

/// Reads the recorded pod. A new pod with the same name does not count.
pub(super) async fn recorded_pod(core: &Core, pod: &HookPodRef) -> Result<Value, HookFailure> {
    let HookPodRef { namespace, name, uid } = pod;
    let api = objects::namespaced(&core.client, namespace, &objects::resource("", "v1", "Pod", "pods"));
    let found = api.get_opt(name).await.attempt(format!("read Pod {namespace}/{name}"));
    let found = found.map_err(HookFailure::Api)?.filter(|found| found.uid().as_deref() == Some(uid));
    let gone = || HookFailure::PodGone { namespace: namespace.clone(), name: name.clone() };
    found.as_ref().map(objects::to_json).ok_or_else(gone)
}

/// A hook before or after a host.
pub(super) struct HostHook<'a> {
    pub(super) record: &'a HostRecord,
    pub(super) hook: &'a ValidHook,
    pub(super) when: HookMoment,
    pub(super) summary: &'a Summary,
    /// The pod that is read or written.
    pub(super) pod: Option<&'a Value>,
    /// The annotations of the object with the hook.
    pub(super) annotations: &'a BTreeMap<String, String>,
}

/// Runs the hook before or after a host to its end. The hook after a host reverts what the hook before it did, so only its own
/// time limit cancels it, not `cancel`, which ends with the deadline of the session.
pub(super) async fn run_of_host(
    context: &Context,
    due: HostHook<'_>,
    cancel: &CancellationToken,
) -> Result<(), HookFailure> {
    let HostRecord { session, member, host } = due.record;
    let (mark, cancel) = match due.when {
        HookMoment::Before => (HookMark::Pre, cancel.clone()),
        HookMoment::After => (HookMark::Post, CancellationToken::new()),
    };
    let of_host = HookRun {
        hook: due.hook,
        summary: due.summary,
        pod: due.pod,
        owner: session.owner(),
        tasks: HookTasks::of_host(&session.uid, *member, host, mark),
        namespace: &session.namespace,
        annotations: due.annotations,
    };
    run(context, &of_host, &cancel).await
}

/// Runs a hook to its end.
pub(super) async fn run(
    context: &Context,
    run: &HookRun<'_>,
    cancel: &CancellationToken,
) -> Result<(), HookFailure> {
    let address = run.pod.map(PodAddress::of);
    let action = run.hook.action(run.summary, address.as_ref())?;
    match action {
        HookAction::Exec { container, command } => exec(&context.commands, run, container, command).await,
        HookAction::Call(call) => call_by_mover(context, run, call, cancel).await,
    }
}

async fn exec(
    commands: &Arc<dyn Commands>,
    run: &HookRun<'_>,
    container: String,
    command: Vec<String>,
) -> Result<(), HookFailure> {
    let text =
        |pointer: &str| run.pod.and_then(|pod| pod.pointer(pointer)?.as_str()).unwrap_or_default().to_owned();
    let pod = text("/metadata/name");
    if pod.is_empty() {
        return Err(HookFailure::NoPod);
    }
    let request =
        ExecRequest { namespace: text("/metadata/namespace"), pod, container, command, timeout: LIMIT };
    Ok(commands.run(&request).await.map(drop)?)
}

/// Makes the call with a mover, and once more with a second mover if the first one died for reasons unrelated to the call. Their
/// Jobs are only removed at the end, so that after a crash the next server sees which of them died.
async fn call_by_mover(
    context: &Context,
    run: &HookRun<'_>,
    call: Call,
    cancel: &CancellationToken,
) -> Result<(), HookFailure> {
    let (work, job) = (work_of(context, run, call).await?, job_of(context, run).await?);
    let mut attempt = 1;
    let ended = loop {
        let task = run.tasks.task(attempt);
        let file = Task { limits: Limits::default(), ..Task::call(task.as_str(), work.clone()) };
        let job = MoverJob { task, ..job.clone() };
        let request = MoverRequest { job, task: file, keys: Arc::new(NoKeys), turn: None };
        match context.movers.carry_out(request, &Silent, cancel).await.map_err(HookFailure::Api)? {
            MoverEnd::Died(death) if death.may_retry && attempt < ATTEMPTS => {
                tracing::warn!(
                    session = run.owner.name,
                    reason = death.message,
                    "a hook is called once more"
                );
                attempt += 1;
            }
            // The mover continues, and the next leader adopts it.
            MoverEnd::Left => return Err(HookFailure::Left),
            ended => break ended,
        }
    };
    for task in (1..=attempt).map(|attempt| run.tasks.task(attempt)) {
        if let Err(error) = context.movers.clear(run.namespace, &task).await {
            tracing::warn!(%task, error = error.chain(), "the mover of a hook may be left behind");
        }
    }
    match ended {
        MoverEnd::Reported { result, .. } => match result.outcome {
            Outcome::Failed(failure) => Err(HookFailure::Mover(failure.message)),
            _ => Ok(()),
        },
        MoverEnd::Died(death) => Err(HookFailure::Mover(death.message)),
        MoverEnd::Cancelled { .. } => Err(HookFailure::Cancelled),
        MoverEnd::Left => Err(HookFailure::Left),
    }
}

/// The work of the mover of a call.
async fn work_of(context: &Context, run: &HookRun<'_>, call: Call) -> Result<CallWork, HookFailure> {
    let verification = match &call {
        Call::Http(HttpCall { url, .. }) if url.starts_with("https:") => {
            verification(&context.core, run.namespace, run.annotations).await?
        }
        _ => Verification::default(),
    };
    Ok(CallWork { call: in_task(call, verification), timeout_seconds: LIMIT.as_secs() })
}

/// The Job of the first mover of a call.
async fn job_of(context: &Context, run: &HookRun<'_>) -> Result<MoverJob, HookFailure> {
    let settings = context.movers.settings();
    let mut job = MoverJob {
        task: run.tasks.task(1),
        owner: run.owner.clone(),
        place: MoverPlace::Anywhere,
        repository: String::new(),
        group: format!("{}/{}", run.owner.namespace, run.owner.name),
        deadline_seconds: LIMIT.as_secs() * 2,
        namespace: NamespaceName::new(run.namespace),
        pod: settings.pod(&context.core.namespace),
    };
    let request = PodRequest { job: &job, runtime: None, target: None };
    job.pod = pod_settings(&context.core, settings, &request).await.map_err(HookFailure::Api)??;
    Ok(job)
}

/// The call as a task file has it.
pub(super) fn in_task(call: Call, verification: Verification) -> task::Call {
    match call {
        Call::Tcp { host, port } => task::Call::Tcp { host, port },
        Call::Http(HttpCall { method, url, headers, body }) => {
            let (body, form) = match body {
                CallBody::Empty => (None, Vec::new()),
                CallBody::Text(text) => (Some(text), Vec::new()),
                CallBody::Form(fields) => {
                    let field = |(name, value)| task::FormField { name, values: vec![value] };
                    (None, fields.into_iter().map(field).collect())
                }
            };
            task::Call::Http {
                method: match method {
                    Method::Get => task::Method::Get,
                    Method::Post => task::Method::Post,
                },
                url,
                headers: headers.into_iter().map(|(name, value)| task::Header { name, value }).collect(),
                body,
                form,
                ca: verification.ca,
                skip_verify: verification.skip_verify,
            }
        }
    }
}

/// A call reports no progress.
struct Silent;

#[async_trait]
impl MoverObserver for Silent {
    async fn queued(&self, _message: &str) {}
    async fn preparing(&self, _message: &str) {}
    async fn running(&self, _node: &str) {}
    async fn line(&self, _line: &LogLine) {}
}

#[cfg(test)]
mod tests;
