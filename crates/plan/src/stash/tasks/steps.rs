//! The Functions of a Task as containers of the mover's pod. In a backup they run before the mover, which stores what
//! they left in `INTERIM_DATA_DIR`; in a restore the mover fills that directory first. They see the Secret of the
//! AppBinding, but no credentials of the repository.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Volume;
use lifeboat_api::stash::{
    ClaimTemplate, ContainerRuntimeSettings, FunctionRef, FunctionSpec, Param, TaskSpec, TempDirSettings,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::images::is_of_upstream;
use super::{TaskData, TaskError, TaskMover, TaskPod};
use crate::stash::databases::{AppAccess, AppFiles, Direction};
use crate::stash::variables::{SystemVariables, Variables, system};
use crate::transfer::movers::{STEP, USER};

/// Upstream's paths in every Function: a directory for temporary files, and the volume of `interimVolumeTemplate`.
const TEMPORARY: &str = "/stash-tmp";
const INTERIM: &str = "/stash-interim-volume";
/// The directory of the data in each of them.
const DATA: &str = "data";
/// Where the mover has that directory.
const IN_MOVER: &str = "/mover/interim";
/// Names of volumes.
const TEMPORARY_VOLUME: &str = "temporary";
const INTERIM_VOLUME: &str = "interim";
/// Names of the mover's own volumes, and prefixes of them.
const RESERVED: [&str; 7] =
    ["task", "scratch", "program", "app", "repository", TEMPORARY_VOLUME, INTERIM_VOLUME];
/// The step of upstream's Tasks that reports to its operator: the server does it.
const UPDATE_STATUS: &str = "update-status";

/// A Task and its Functions, by name. A Function that does not exist is not listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFacts {
    pub name: String,
    pub spec: TaskSpec,
    pub functions: BTreeMap<String, FunctionSpec>,
}

/// Where Functions leave their data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interim<'a> {
    pub temporary: Option<&'a TempDirSettings>,
    pub template: Option<&'a ClaimTemplate>,
}

/// What decides about the mover of a Task.
pub struct StepsRequest<'a> {
    pub direction: Direction,
    pub task: &'a TaskFacts,
    /// Values of the invoker.
    pub params: &'a [Param],
    /// Upstream's variables; that of the interim directory is set here.
    pub system: SystemVariables,
    pub app: Option<&'a AppAccess>,
    pub interim: Interim<'a>,
    /// Of the invoker.
    pub runtime: Option<&'a ContainerRuntimeSettings>,
}

/// The Functions that a Task needs.
pub fn needed_functions(task: &TaskSpec) -> BTreeSet<&str> {
    task.steps.iter().map(|step| step.name.as_str()).filter(|name| *name != UPDATE_STATUS).collect()
}

/// The mover of a Task.
pub fn steps_mover(request: &StepsRequest<'_>) -> Result<TaskMover, TaskError> {
    let (volume, root) = match request.interim.template {
        Some(_) => (INTERIM_VOLUME, INTERIM),
        None => (TEMPORARY_VOLUME, TEMPORARY),
    };
    let interim = format!("{root}/{DATA}");
    let variables = SystemVariables { interim_data_dir: interim.clone(), ..request.system.clone() };
    let files = request.app.map(AppFiles::of).unwrap_or_default();
    let steps = Steps {
        request,
        system: system(&variables),
        interim_mount: json!({"name": volume, "mountPath": interim, "subPath": DATA}),
        app_mount: files.mount(),
    };
    let (volumes, has_claims) = steps.volumes()?;
    let containers = steps.containers(&volumes)?;
    let own = own_volumes(&request.interim)?;
    let is_backup = request.direction == Direction::Backup;
    let mount = json!({"name": volume, "mountPath": IN_MOVER, "subPath": DATA, "readOnly": is_backup});
    // The kubelet gives the new volume to this group. Claims of the Task have data of others, whose owners must not change.
    let with_group = request.interim.template.is_some() && !has_claims;
    let security =
        if with_group { Map::from_iter([("fsGroup".to_owned(), json!(USER))]) } else { Map::new() };
    let (before, after) = if is_backup { (containers, Vec::new()) } else { (Vec::new(), containers) };
    let pod = TaskPod {
        tool_image: None,
        annotations: files.annotations,
        security,
        env: Vec::new(),
        volumes: own.into_iter().chain(files.volume).chain(volumes).collect(),
        mounts: vec![mount],
        before,
        after,
    };
    Ok(TaskMover { data: TaskData::Directory { path: IN_MOVER.to_owned(), at: interim }, pod })
}

/// The volumes for temporary and interim files. The claim of a template is created and deleted together with the pod.
fn own_volumes(interim: &Interim<'_>) -> Result<Vec<Value>, TaskError> {
    let mut directory = json!({});
    if let Some(settings) = interim.temporary {
        if let Some(medium) = settings.medium.as_ref().filter(|medium| !medium.is_empty()) {
            directory["medium"] = json!(medium);
        }
        if let Some(limit) = &settings.size_limit {
            directory["sizeLimit"] = json!(limit);
        }
    }
    let mut volumes = vec![json!({"name": TEMPORARY_VOLUME, "emptyDir": directory})];
    if let Some(template) = interim.template {
        let spec = template.spec.as_ref().ok_or(TaskError::InterimSpec)?;
        let metadata = template.metadata.clone().unwrap_or_default();
        let claim = json!({
            "metadata": {
                "labels": metadata.labels.unwrap_or_default(),
                "annotations": metadata.annotations.unwrap_or_default(),
            },
            "spec": spec,
        });
        volumes.push(json!({"name": INTERIM_VOLUME, "ephemeral": {"volumeClaimTemplate": claim}}));
    }
    Ok(volumes)
}

struct Steps<'a> {
    request: &'a StepsRequest<'a>,
    system: BTreeMap<String, String>,
    interim_mount: Value,
    app_mount: Option<Value>,
}

impl Steps<'_> {
    fn task(&self) -> &str {
        &self.request.task.name
    }

    /// The volumes of the Task, and whether claims are among them.
    fn volumes(&self) -> Result<(Vec<Value>, bool), TaskError> {
        let object = format!("Task {}", self.task());
        let variables = Variables::new(&[], &self.system, self.request.params);
        let volumes: Vec<Volume> = replaced(&object, &variables, &self.request.task.spec.volumes)?;
        for volume in &volumes {
            if RESERVED.contains(&volume.name.as_str()) || volume.name.starts_with("data") {
                return Err(TaskError::VolumeName {
                    task: self.task().to_owned(),
                    name: volume.name.clone(),
                });
            }
        }
        let has_claims = volumes.iter().any(|volume| volume.persistent_volume_claim.is_some());
        Ok((volumes.iter().map(|volume| json!(volume)).collect(), has_claims))
    }

    fn containers(&self, volumes: &[Value]) -> Result<Vec<Value>, TaskError> {
        let steps = self.request.task.spec.steps.iter().enumerate();
        let containers: Vec<Value> = steps
            .filter(|(_, step)| step.name != UPDATE_STATUS)
            .map(|(number, step)| self.container(number, step, volumes))
            .collect::<Result<_, _>>()?;
        if containers.is_empty() {
            return Err(TaskError::NoSteps { task: self.task().to_owned() });
        }
        Ok(containers)
    }

    fn container(&self, number: usize, step: &FunctionRef, volumes: &[Value]) -> Result<Value, TaskError> {
        let name = &step.name;
        let function = self.request.task.functions.get(name).ok_or_else(|| TaskError::NoFunction {
            task: self.task().to_owned(),
            step: number,
            function: name.clone(),
        })?;
        let variables = Variables::new(&step.params, &self.system, self.request.params);
        let function: FunctionSpec = replaced(&format!("Function {name}"), &variables, function)?;
        if is_of_upstream(&function.image) {
            return Err(TaskError::UpstreamImage {
                task: self.task().to_owned(),
                function: name.clone(),
                image: function.image,
            });
        }
        let mounts = function.volume_mounts.iter().map(|mount| &mount.name);
        let mut used = mounts.chain(function.volume_devices.iter().map(|device| &device.name));
        if let Some(volume) = used.find(|used| !volumes.iter().any(|volume| volume["name"] == used.as_str()))
        {
            return Err(TaskError::NoVolume {
                task: self.task().to_owned(),
                function: name.clone(),
                volume: volume.clone(),
            });
        }
        Ok(self.rendered(number, name, &function))
    }

    fn rendered(&self, number: usize, name: &str, function: &FunctionSpec) -> Value {
        let mut mounts: Vec<Value> = function.volume_mounts.iter().map(|mount| json!(mount)).collect();
        mounts.push(json!({"name": TEMPORARY_VOLUME, "mountPath": TEMPORARY}));
        mounts.push(self.interim_mount.clone());
        mounts.extend(self.app_mount.clone());
        let mut env = self.request.app.map(AppAccess::env).unwrap_or_default();
        let mut container = json!({
            "name": container_name(number, name),
            "image": function.image,
            "imagePullPolicy": "IfNotPresent",
            // The end of its log says why a Function failed.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        });
        let mut set = |field: &str, value: Value| container[field] = value;
        if !function.command.is_empty() {
            set("command", json!(function.command));
        }
        if !function.args.is_empty() {
            set("args", json!(function.args));
        }
        if let Some(directory) = &function.working_dir {
            set("workingDir", json!(directory));
        }
        if !function.volume_devices.is_empty() {
            set("volumeDevices", json!(function.volume_devices));
        }
        // Settings of the invoker come last and take precedence. Probes and lifecycle hooks are not supported for
        // init containers.
        let mut env_from = Vec::new();
        for settings in function.runtime_settings.iter().chain(self.request.runtime) {
            env.extend(settings.env.iter().flatten().map(|variable| json!(variable)));
            env_from.extend(settings.env_from.iter().flatten().map(|source| json!(source)));
            if let Some(resources) = &settings.resources {
                set("resources", json!(resources));
            }
            if let Some(security) = &settings.security_context {
                set("securityContext", json!(security));
            }
        }
        set("env", json!(env));
        if !env_from.is_empty() {
            set("envFrom", json!(env_from));
        }
        container
    }
}

/// An object whose variables are replaced.
fn replaced<T: Serialize + DeserializeOwned>(
    object: &str,
    variables: &Variables,
    value: &T,
) -> Result<T, TaskError> {
    let wrong = |error: serde_json::Error| TaskError::Replaced {
        object: object.to_owned(),
        problem: error.to_string(),
    };
    let value = serde_json::to_value(value).map_err(wrong)?;
    serde_json::from_value(variables.replace(object, &value)?).map_err(wrong)
}

/// A container has the name of a host: no dots, and not long.
fn container_name(number: usize, function: &str) -> String {
    let name = format!("{STEP}{number}-{}", function.replace('.', "-"));
    name.chars().take(63).collect::<String>().trim_end_matches('-').to_owned()
}
