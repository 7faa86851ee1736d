//! The pod of a mover: takes a [`MoverJob`], gives the template of its Job. Called by `job`.

use serde_json::{Value, json};

use super::job::{CONTAINER, GRACE_SECONDS, SERVICE_ACCOUNT, name};
use super::rights::{self, Rights};
use super::{
    DATA, DEVICE, FIRST, MoverJob, MoverPlace, NotAllowed, PodSecurity, REPOSITORY, SCRATCH, data, device,
};

/// The size limit of the scratch volume: indexes of large repositories.
const SCRATCH_LIMIT: &str = "20Gi";
/// The init container that copies the mover's program for a pod with another image, and the directory of the copy.
pub(super) const PROGRAM: &str = "program";
const PROGRAM_DIRECTORY: &str = "/mover/program";

/// The template; the error says why the namespace would reject the pod.
pub(super) fn template(wanted: &MoverJob, labels: &Value, annotations: &Value) -> Result<Value, NotAllowed> {
    let (settings, overrides) = (&wanted.pod, &wanted.pod.overrides);
    let has_repository = settings.repository_volume.is_some();
    let rights = rights::of(&wanted.place, has_repository, settings.target.as_ref(), settings.security)?;
    let with = |own: &Value, more: Value| {
        let mut all = more;
        merge(&mut all, own.as_object().into_iter().flatten());
        all
    };
    Ok(json!({
        "metadata": {
            "labels": with(labels, json!(overrides.labels)),
            "annotations": with(annotations, json!(overrides.annotations)),
        },
        "spec": spec(wanted, &rights),
    }))
}

fn spec(wanted: &MoverJob, rights: &Rights) -> Value {
    let (settings, overrides) = (&wanted.pod, &wanted.pod.overrides);
    let mut security = rights.pod();
    merge(&mut security, &overrides.security);
    let mut pod = json!({
        "serviceAccountName": settings.service_account.as_deref().unwrap_or(SERVICE_ACCOUNT),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        // The deadline is set on the pod, because the deadline of a Job deletes the pod together with its result.
        "activeDeadlineSeconds": wanted.deadline_seconds.clamp(1, i32::MAX.unsigned_abs().into()),
        "securityContext": security,
        "containers": [main_container(wanted, rights)],
        "volumes": volumes(wanted, rights),
    });
    if let Some(class) = &settings.priority_class {
        pod["priorityClassName"] = json!(class);
    }
    let init_containers = init_containers(wanted, rights);
    if !init_containers.is_empty() {
        pod["initContainers"] = json!(init_containers);
    }
    if wanted.place.node().is_some() {
        // Taints are tolerated, because the data is on this node.
        pod["tolerations"] = json!([{"operator": "Exists"}]);
    }
    merge(&mut pod, &overrides.spec);
    if let Some(node) = wanted.place.node() {
        // Not `nodeName`, so that the scheduler checks the node's free resources.
        pod["affinity"] = pinned(pod["affinity"].take(), node);
    }
    pod
}

/// The affinity, limited to this node. One term of an affinity has to match, so the node is added to each term.
fn pinned(affinity: Value, node: &str) -> Value {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut affinity = if affinity.is_object() { affinity } else { json!({}) };
    let terms = &affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
    let mut terms =
        terms.as_array().filter(|terms| !terms.is_empty()).cloned().unwrap_or_else(|| vec![json!({})]);
    for term in &mut terms {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        match term["matchFields"].as_array_mut() {
            Some(fields) => fields.push(field),
            None => term["matchFields"] = json!([field]),
        }
    }
    affinity["nodeAffinity"][REQUIRED] = json!({"nodeSelectorTerms": terms});
    affinity
}

/// The container whose end is that of the pod. Where others follow the mover, it only ends after them.
fn main_container(wanted: &MoverJob, rights: &Rights) -> Value {
    let mut container = container(wanted, rights);
    if !wanted.pod.overrides.after.is_empty() {
        container["args"] = json!(["mover", "--done"]);
    }
    container
}

fn container(wanted: &MoverJob, rights: &Rights) -> Value {
    let (settings, overrides) = (&wanted.pod, &wanted.pod.overrides);
    let (mounts, devices) = mounts(wanted);
    let mut limits = json!({"memory": settings.memory_limit});
    if let Some(cpu) = &settings.cpu_limit {
        limits["cpu"] = json!(cpu);
    }
    let mut env = overrides.env.clone();
    env.push(
        json!({"name": settings.pod_uid_variable, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}),
    );
    let mut container = json!({
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["mover"],
        "env": env,
        "terminationMessagePolicy": "File",
        "resources": {
            "requests": {"cpu": settings.cpu_request, "memory": settings.memory_request},
            "limits": limits,
        },
        "securityContext": container_security(wanted, rights),
        "volumeMounts": mounts,
    });
    if !devices.is_empty() {
        container["volumeDevices"] = json!(devices);
    }
    if let Some(image) = &settings.tool_image {
        container["image"] = json!(image);
        container["command"] = json!([format!("{PROGRAM_DIRECTORY}/lifeboat")]);
        if let Some(env) = container["env"].as_array_mut() {
            // An image with tools need not have certificate authorities, nor a writable directory for temporary files.
            env.push(
                json!({"name": "SSL_CERT_FILE", "value": format!("{PROGRAM_DIRECTORY}/ca-certificates.crt")}),
            );
            env.push(json!({"name": "TMPDIR", "value": SCRATCH}));
        }
    }
    merge(&mut container, &overrides.container);
    container
}

fn container_security(wanted: &MoverJob, rights: &Rights) -> Value {
    let mut security = rights.container();
    merge(&mut security, &wanted.pod.overrides.container_security);
    security
}

fn init_containers(wanted: &MoverJob, rights: &Rights) -> Vec<Value> {
    let settings = &wanted.pod;
    let program = settings.tool_image.is_some().then(|| {
        json!({
            "name": PROGRAM,
            "image": settings.image,
            "imagePullPolicy": "IfNotPresent",
            "args": ["mover", "--copy-to", PROGRAM_DIRECTORY],
            // A quota counts the largest container, so this one costs nothing.
            "resources": container(wanted, rights)["resources"],
            "securityContext": container_security(wanted, rights),
            "volumeMounts": [{"name": PROGRAM, "mountPath": PROGRAM_DIRECTORY}],
        })
    });
    let overrides = &settings.overrides;
    let before = overrides.init_containers.iter().map(|step| completed(wanted, rights, step));
    let mover = (!overrides.after.is_empty()).then(|| {
        let mut mover = container(wanted, rights);
        mover["name"] = json!(FIRST);
        mover
    });
    let after = overrides.after.iter().map(|step| completed(wanted, rights, step));
    program.into_iter().chain(before).chain(mover).chain(after).collect()
}

/// A container of another image, with what a quota or a restricted namespace asks of every container.
fn completed(wanted: &MoverJob, rights: &Rights, step: &Value) -> Value {
    let mut step = step.clone();
    if step["resources"].is_null() {
        step["resources"] = container(wanted, rights)["resources"].take();
    }
    if wanted.pod.security == PodSecurity::Restricted {
        let mut security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        merge(&mut security, step["securityContext"].as_object().into_iter().flatten());
        step["securityContext"] = security;
    }
    step
}

/// The mounts of the container, and its devices.
fn mounts(wanted: &MoverJob) -> (Vec<Value>, Vec<Value>) {
    let settings = &wanted.pod;
    let mut mounts = vec![
        json!({"name": "task", "mountPath": settings.task_directory, "readOnly": true}),
        json!({"name": "scratch", "mountPath": SCRATCH}),
    ];
    let mut devices = Vec::new();
    match &wanted.place {
        MoverPlace::NodeDirectory { writable, .. } => mounts.push(json!({
            "name": "data", "mountPath": DATA, "readOnly": !writable,
            // Mounts that the kubelet adds later below it become visible.
            "mountPropagation": "HostToContainer",
        })),
        MoverPlace::Claim { block: false, writable, .. } => {
            mounts.push(json!({"name": "data", "mountPath": DATA, "readOnly": !writable}));
        }
        MoverPlace::Claim { block: true, .. } => devices.push(json!({"name": "data", "devicePath": DEVICE})),
        MoverPlace::Volumes { volumes, .. } => {
            for (number, volume) in volumes.iter().enumerate() {
                let name = format!("data-{number}");
                if volume.block {
                    devices.push(json!({"name": name, "devicePath": device(number)}));
                } else {
                    mounts
                        .push(json!({"name": name, "mountPath": data(number), "readOnly": !volume.writable}));
                }
            }
        }
        MoverPlace::Anywhere => {}
    }
    if settings.repository_volume.is_some() {
        mounts.push(json!({"name": "repository", "mountPath": REPOSITORY}));
    }
    if settings.tool_image.is_some() {
        mounts.push(json!({"name": PROGRAM, "mountPath": PROGRAM_DIRECTORY, "readOnly": true}));
    }
    mounts.extend(settings.overrides.mounts.iter().cloned());
    (mounts, devices)
}

fn volumes(wanted: &MoverJob, rights: &Rights) -> Vec<Value> {
    let settings = &wanted.pod;
    let mut volumes = vec![
        json!({"name": "task", "secret": {"secretName": name(&wanted.task), "defaultMode": rights.secret_mode()}}),
        json!({"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}),
    ];
    // A claim itself is never marked read-only: some drivers attach it differently then.
    match &wanted.place {
        // `Directory`: a missing directory must fail and not be created empty.
        MoverPlace::NodeDirectory { directory, .. } => {
            volumes.push(json!({"name": "data", "hostPath": {"path": directory, "type": "Directory"}}));
        }
        MoverPlace::Claim { claim, .. } => {
            volumes.push(json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}));
        }
        MoverPlace::Volumes { volumes: claims, .. } => {
            volumes.extend(claims.iter().enumerate().map(|(number, volume)| {
                let source = json!({"claimName": volume.claim});
                json!({"name": format!("data-{number}"), "persistentVolumeClaim": source})
            }));
        }
        MoverPlace::Anywhere => {}
    }
    if let Some(source) = &settings.repository_volume {
        let mut volume = source.clone();
        volume["name"] = json!("repository");
        volumes.push(volume);
    }
    if settings.tool_image.is_some() {
        volumes.push(json!({"name": PROGRAM, "emptyDir": {}}));
    }
    volumes.extend(settings.overrides.volumes.iter().cloned());
    volumes
}

/// Sets the fields of an object.
fn merge<'a>(object: &mut Value, fields: impl IntoIterator<Item = (&'a String, &'a Value)>) {
    if let Some(object) = object.as_object_mut() {
        object.extend(fields.into_iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
