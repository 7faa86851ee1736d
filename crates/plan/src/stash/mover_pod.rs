//! The pod of a mover in a tenant's namespace: takes the pod whose data is moved, runtimeSettings, the Namespace and
//! the answer to a dry run; gives the settings of the mover's pod. Called by crate `stash` twice: without an answer,
//! for the pod of the dry run, and with the answer. If the answer changes the pod, the dry run is repeated
//! ([`settled`]).
//!
//! If the namespace admits it, a mover runs as root with the fewest capabilities, because it can then read files of
//! all owners; otherwise it runs as the user of the target pod. runtimeSettings override everything that is decided
//! here.

mod runtime;
mod user;

use std::collections::BTreeMap;

use lifeboat_api::stash::RuntimeSettings;
use serde_json::{Map, Value, json};

use crate::transfer::movers::{DryRun, MoverPlace, PodOverrides, PodSecurity, PodSettings, TargetPod};
use user::{explicit_user, user_of};

/// Annotation of a Namespace, with [`RESTRICTED`] as its value: movers run as the user of the target pod.
pub const MOVERS: &str = "lifeboat.io/movers";
pub const RESTRICTED: &str = "restricted";
/// The label of Kubernetes with the Pod Security level that a namespace enforces.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce";
/// The service account of pods that name none; it exists in every namespace.
const SERVICE_ACCOUNT: &str = "default";
/// The limit if a quota requires one.
const CPU_LIMIT: &str = "2";

/// Keep the proxies of service meshes out of a mover's pod: they would not end with it.
const NO_SIDECARS: [(&str, &str); 4] = [
    ("sidecar.istio.io/inject", "false"),
    ("linkerd.io/inject", "disabled"),
    ("kuma.io/sidecar-injection", "disabled"),
    ("consul.hashicorp.com/connect-inject", "false"),
];
/// Newer versions of these meshes read labels.
const NO_SIDECAR_LABELS: [(&str, &str); 2] =
    [("sidecar.istio.io/inject", "false"), ("kuma.io/sidecar-injection", "disabled")];

/// What decides about the pod.
#[derive(Clone, Copy, Debug)]
pub struct MoverPod<'a> {
    /// The settings of all movers.
    pub base: &'a PodSettings,
    pub place: &'a MoverPlace,
    /// The pod whose data is moved; None if there is none: for a claim that no pod uses, an inspection of a
    /// repository, or a call.
    pub target: Option<&'a Value>,
    /// The container of that pod which uses the data; by default the first that mounts the claims, else its first.
    pub container: Option<&'a str>,
    pub runtime: Option<&'a RuntimeSettings>,
    /// The Namespace object.
    pub namespace: &'a Value,
}

impl MoverPod<'_> {
    /// The container whose user and labels are used. A service mesh may have added a proxy before the containers of
    /// the application.
    fn container(&self) -> Option<&str> {
        self.container.or_else(|| user::of_claims(self.target?, self.place))
    }
}

/// Why no mover can run in a tenant's namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoverPodError {
    #[error(
        "{reason}, and the user of the target pod is not known: set runtimeSettings.pod.securityContext.runAsUser to the \
         user who owns the files"
    )]
    UnknownUser { reason: String },
    #[error(
        "{reason}, and the target pod runs as root: set runtimeSettings.pod.securityContext.runAsUser to a user who can \
         read the files"
    )]
    RootUser { reason: String },
    #[error(
        "runtimeSettings.pod.serviceAccountAnnotations: Lifeboat makes no service account for a mover; annotate one of the \
         namespace and name it in runtimeSettings.pod.serviceAccountName"
    )]
    ServiceAccountAnnotations,
    #[error(
        "namespace {namespace} does not admit the pod of the mover ({message}); set what it lacks in runtimeSettings, or change the \
         namespace's policy"
    )]
    NotAdmitted { namespace: String, message: String },
    #[error(
        "namespace {namespace} never admits a pod with the resources of the mover ({message}): set runtimeSettings.container.resources"
    )]
    Resources { namespace: String, message: String },
    #[error(
        "the volume can only be reached through a directory of its node, by a mover in Lifeboat's own namespace, and that mover cannot \
         open the repository: {reason}; use a Repository whose Secret has the keys of its storage, or a claim with access mode \
         ReadWriteOnce or ReadWriteMany"
    )]
    RepositoryElsewhere { reason: String },
}

/// The settings of the mover's pod. Without an answer of the API server they are those of the pod for a dry run.
pub fn settings(pod: &MoverPod<'_>, answer: Option<&DryRun>) -> Result<PodSettings, MoverPodError> {
    let runtime_pod = pod.runtime.and_then(|runtime| runtime.pod.as_ref());
    if runtime_pod
        .is_some_and(|pod| pod.service_account_annotations.as_ref().is_some_and(|map| !map.is_empty()))
    {
        return Err(MoverPodError::ServiceAccountAnnotations);
    }
    let account = runtime_pod.and_then(|pod| pod.service_account_name.clone());
    let (security, target) = rights(pod, answer)?;
    Ok(PodSettings {
        cpu_limit: answer.and_then(cpu_limit),
        nice: pod.runtime.and_then(runtime::nice),
        service_account: Some(account.unwrap_or_else(|| SERVICE_ACCOUNT.to_owned())),
        security,
        target,
        overrides: overrides(pod),
        ..pod.base.clone()
    })
}

/// Changes settings according to the answer to the dry run of a pod with these settings. A pod that was changed after
/// the first answer may be refused because of a quota. The error says why the Job would never get a pod.
pub fn settled(
    pod: &MoverPod<'_>,
    settings: PodSettings,
    answer: &DryRun,
) -> Result<PodSettings, MoverPodError> {
    let namespace = || pod.namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if let DryRun::Refused(message) = answer
        && answer.refuses_permissions()
    {
        return Err(MoverPodError::NotAdmitted { namespace: namespace(), message: message.clone() });
    }
    if let Some(message) = answer.never_admits_resources() {
        return Err(MoverPodError::Resources { namespace: namespace(), message: message.to_owned() });
    }
    let cpu_limit = settings.cpu_limit.clone().or_else(|| cpu_limit(answer));
    Ok(PodSettings { cpu_limit, ..settings })
}

fn cpu_limit(answer: &DryRun) -> Option<String> {
    answer.requires_cpu_limit().then(|| CPU_LIMIT.to_owned())
}

/// With which user the mover runs: root under level `baseline`, the target pod's under level `restricted`.
fn rights(
    pod: &MoverPod<'_>,
    answer: Option<&DryRun>,
) -> Result<(PodSecurity, Option<TargetPod>), MoverPodError> {
    let of_target = user_of(pod.target, pod.container());
    match explicit_user(pod.runtime, &of_target) {
        Some(explicit) if explicit.user == Some(0) => return Ok((PodSecurity::Baseline, None)),
        Some(explicit) => return Ok((PodSecurity::Restricted, Some(explicit))),
        None => {}
    }
    let Some(reason) = no_root(pod.namespace, answer) else { return Ok((PodSecurity::Baseline, None)) };
    match of_target.user {
        _ if !needs_user(pod) => Ok((PodSecurity::Restricted, None)),
        None => Err(MoverPodError::UnknownUser { reason }),
        Some(0) => Err(MoverPodError::RootUser { reason }),
        Some(_) => Ok((PodSecurity::Restricted, Some(of_target))),
    }
}

/// Why the mover does not run as root; None if it does.
fn no_root(namespace: &Value, answer: Option<&DryRun>) -> Option<String> {
    let metadata = &namespace["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    if metadata["annotations"][MOVERS] == RESTRICTED {
        return Some(format!("annotation {MOVERS} of namespace {name} asks for movers without root"));
    }
    match answer {
        Some(DryRun::Refused(message)) if answer.is_some_and(DryRun::refuses_permissions) => {
            Some(format!("namespace {name} does not admit a mover as root ({message})"))
        }
        Some(DryRun::DryRunsRefused) if metadata["labels"][ENFORCED] == RESTRICTED => {
            Some(format!("namespace {name} enforces Pod Security level restricted"))
        }
        _ => None,
    }
}

/// Whether the mover reads or writes files, so that its user matters.
fn needs_user(pod: &MoverPod<'_>) -> bool {
    let has_volumes = match pod.place {
        MoverPlace::Volumes { volumes, .. } => !volumes.is_empty(),
        MoverPlace::NodeDirectory { .. } | MoverPlace::Claim { .. } => true,
        MoverPlace::Anywhere => false,
    };
    has_volumes || pod.base.repository_volume.is_some()
}

fn overrides(pod: &MoverPod<'_>) -> PodOverrides {
    let base = &pod.base.overrides;
    let with = |own: &BTreeMap<String, String>, pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        own.clone().into_iter().chain(pairs).collect()
    };
    let mut overrides = PodOverrides {
        labels: with(&base.labels, &NO_SIDECAR_LABELS),
        annotations: with(&base.annotations, &NO_SIDECARS),
        spec: Map::from_iter([("tolerations".to_owned(), tolerations(pod.target))]),
        security: base.security.clone().into_iter().chain(selinux(pod.target, pod.container())).collect(),
        ..base.clone()
    };
    if let Some(runtime) = pod.runtime {
        runtime::apply(runtime, &mut overrides);
    }
    overrides
}

/// The mover may run on the nodes on which the target pod may run.
fn tolerations(target: Option<&Value>) -> Value {
    let tolerations = target.map(|target| &target["spec"]["tolerations"]);
    tolerations.filter(|tolerations| tolerations.is_array()).cloned().unwrap_or_else(|| json!([]))
}

/// The labels with which the target's files can be accessed.
fn selinux(target: Option<&Value>, container: Option<&str>) -> Map<String, Value> {
    const OPTIONS: &str = "seLinuxOptions";
    let of_pod = target.map(|target| &target["spec"]["securityContext"][OPTIONS]);
    let of_container = target.map(|target| &user::container(target, container)["securityContext"][OPTIONS]);
    let options =
        of_container.filter(|options| options.is_object()).or(of_pod.filter(|options| options.is_object()));
    options.map(|options| Map::from_iter([(OPTIONS.to_owned(), options.clone())])).unwrap_or_default()
}

#[cfg(test)]
mod tests;
