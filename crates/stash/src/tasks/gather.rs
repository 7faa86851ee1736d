//! Reads the facts for the task of a member: its AppBinding with Secrets, the Task of that name with its Functions,
//! the Repository.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use lifeboat_api::appcatalog::{AppBinding, AppBindingSpec};
use lifeboat_api::stash::{Function, Repository, RuntimeSettings, Task, TaskRef};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::Core;
use lifeboat_plan::stash::databases::{AppAccess, AppFacts, BuiltIn, Direction, secret_names};
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::session::TargetKey;
use lifeboat_plan::stash::tasks::{
    Interim, StepsRequest, TaskError, TaskFacts, TaskMover, built_in_mover, is_volume_task, named_task,
    needed_functions, steps_mover,
};
use lifeboat_plan::stash::variables::{AppVariables, RepositoryVariables, SystemVariables, TargetVariables};
use lifeboat_transfer::repositories::RepositoryKey;

use super::work::TaskWork;
use crate::context::Context;
use crate::repository::parts_of;
use crate::target::{TargetName, workload};

/// The member whose task is wanted.
pub(crate) struct TaskRequest<'a> {
    pub(crate) direction: Direction,
    /// The namespace of the invoker or restore.
    pub(crate) namespace: &'a str,
    pub(crate) task: Option<&'a TaskRef>,
    pub(crate) target: Option<(TargetKind, &'a TargetKey)>,
    pub(crate) key: &'a RepositoryKey,
    pub(crate) interim: Interim<'a>,
    pub(crate) runtime: Option<&'a RuntimeSettings>,
    /// Upstream's variables of the invoker, the session, the host and what is restored. Those of namespace, Repository, target and
    /// application are set here.
    pub(crate) variables: SystemVariables,
}

/// Why no mover can work for a task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskProblem {
    #[error("AppBinding {namespace}/{name} does not exist; create it, or correct target.ref")]
    NoApp { namespace: String, name: String },
    #[error("AppBinding {namespace}/{name} cannot be read ({problem}); correct it")]
    App { namespace: String, name: String, problem: serde_json::Error },
    #[error(
        "AppBinding {namespace}/{name}: this server does not serve namespace {namespace}, so it runs nothing there; add it to the server's \
         --tenant-namespaces, or create the object where the AppBinding's server is"
    )]
    NotServed { namespace: String, name: String },
    #[error(
        "Task {task} would run containers of its own in namespace {namespace}, in which its AppBinding is; in another namespace only built-in \
         tasks run: use one, or create the object in {namespace}"
    )]
    OwnTaskElsewhere { task: String, namespace: String },
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl From<lifeboat_plan::stash::databases::AppError> for TaskProblem {
    fn from(error: lifeboat_plan::stash::databases::AppError) -> Self {
        Self::Task(error.into())
    }
}

/// Whether a member has a task.
pub(crate) fn has_task(kind: Option<TargetKind>, task: Option<&TaskRef>) -> bool {
    kind.is_none_or(|kind| kind == TargetKind::AppBinding) || task.is_some_and(|task| !task.name.is_empty())
}

/// The work of a mover for the host of a member; None if the task does the same as no task.
pub(crate) async fn task_work(
    context: &Context,
    request: TaskRequest<'_>,
) -> Result<Option<TaskWork>, TaskProblem> {
    let namespace =
        request.target.map_or(request.namespace, |(_, target)| target.namespace.as_str()).to_owned();
    let app = match request.target {
        Some((TargetKind::AppBinding, target)) => Some(read_app(context, target, request.namespace).await?),
        _ => None,
    };
    let named = named_task(request.direction, request.task, app.as_ref())?;
    let repository = read_repository(context, request.key, &namespace).await?;
    let access = app.as_ref().map(AppAccess::of).transpose()?;
    let own = read_task(context, &named.name).await?;
    if own.is_some() && namespace != request.namespace {
        return Err(TaskProblem::OwnTaskElsewhere { task: named.name, namespace });
    }
    let mover: TaskMover = match (own, BuiltIn::parse(&named.name)) {
        (Some(task), _) => steps_mover(&StepsRequest {
            direction: request.direction,
            task: &task,
            params: &named.params,
            system: variables(&request, app.as_ref().map(|app| &app.spec), repository),
            app: access.as_ref(),
            interim: request.interim,
            runtime: request.runtime.and_then(|runtime| runtime.container.as_ref()),
        })?,
        (None, Some(tool)) => match &access {
            Some(access) => built_in_mover(&tool, access, &named.params, &context.settings.tool_images)?,
            None => return Err(TaskError::NeedsApp { name: named.name }.into()),
        },
        (None, None) if is_volume_task(&named.name) && access.is_none() => return Ok(None),
        (None, None) => return Err(TaskError::NoTask { name: named.name }.into()),
    };
    Ok(Some(TaskWork { namespace, mover, app: app.map(|app| app.spec) }))
}

async fn read_app(context: &Context, target: &TargetKey, own: &str) -> Result<AppFacts, TaskProblem> {
    let (namespace, name) = (target.namespace.clone(), target.name.clone());
    // The right to use an AppBinding of another namespace is checked on admission of the object that names it.
    if namespace != own && !context.served.serves(&context.core, &namespace).await? {
        return Err(TaskProblem::NotServed { namespace, name });
    }
    let key = TargetName { kind: TargetKind::AppBinding, namespace: &namespace, name: &name };
    let Some(found) = workload(&context.core, key).await? else {
        return Err(TaskProblem::NoApp { namespace, name });
    };
    let spec = match serde_json::from_value::<AppBinding>(found) {
        Ok(app) => app.spec,
        Err(problem) => return Err(TaskProblem::App { namespace, name, problem }),
    };
    let mut secrets = BTreeMap::new();
    let api: Api<Secret> = Api::namespaced(context.core.client.clone(), &namespace);
    for secret in secret_names(&spec) {
        let found = api.get_opt(&secret).await.attempt(format!("read Secret {namespace}/{secret}"))?;
        secrets.extend(found.map(|found| (secret, found.data.unwrap_or_default())));
    }
    Ok(AppFacts { namespace, name, spec, secrets })
}

/// The variables of the Repository. In another namespace than that of the Repository, a task gets only its name.
async fn read_repository(
    context: &Context,
    key: &RepositoryKey,
    namespace: &str,
) -> Result<Option<RepositoryVariables>, TaskProblem> {
    let (own, name) = parts_of(key);
    let api: Api<Repository> = Api::namespaced(context.core.client.clone(), own);
    let found = api.get_opt(name).await.attempt(format!("read Repository {own}/{name}"))?;
    Ok(found.map(|found| {
        if own == namespace {
            return RepositoryVariables::of(own, name, &found.spec.backend);
        }
        let (name, namespace) = (name.to_owned(), own.to_owned());
        RepositoryVariables { name, namespace, ..RepositoryVariables::default() }
    }))
}

/// The Task of this name with its Functions; None if there is no Task.
async fn read_task(core: &Core, name: &str) -> Result<Option<TaskFacts>, ApiError> {
    let tasks: Api<Task> = Api::all(core.client.clone());
    let Some(task) = tasks.get_opt(name).await.attempt(format!("read Task {name}"))? else {
        return Ok(None);
    };
    let api: Api<Function> = Api::all(core.client.clone());
    let mut functions = BTreeMap::new();
    for function in needed_functions(&task.spec) {
        let found = api.get_opt(function).await.attempt(format!("read Function {function}"))?;
        functions.extend(found.map(|found| (function.to_owned(), found.spec)));
    }
    Ok(Some(TaskFacts { name: name.to_owned(), functions, spec: task.spec }))
}

fn variables(
    request: &TaskRequest<'_>,
    app: Option<&AppBindingSpec>,
    repository: Option<RepositoryVariables>,
) -> SystemVariables {
    let own = &request.variables;
    let paths = own.target.as_ref().map(|target| target.paths.clone()).unwrap_or_default();
    let target = request.target.map(|(kind, target)| TargetVariables {
        api_version: kind.api_version().to_owned(),
        kind: kind.as_str().to_owned(),
        resource: format!("{}s", kind.as_str().to_lowercase()),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        mount_path: String::new(),
        paths,
    });
    let app = app.map(|app| AppVariables {
        version: app.version.clone().unwrap_or_default(),
        app_type: app.type_.clone().unwrap_or_default(),
        replicas: 1,
    });
    SystemVariables { namespace: request.namespace.to_owned(), repository, target, app, ..own.clone() }
}
