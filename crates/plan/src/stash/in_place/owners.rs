//! Controllers that set the scale of a workload, and would start a stopped workload again during a restore; and whether somebody set it
//! since a restore left the workload stopped.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use super::STANDSTILL;
use crate::json::text;
use crate::stash::hosts::TargetKind;

/// Something that sets the scale of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScaleOwner {
    /// The object that made the workload.
    Owner {
        kind: String,
        name: String,
    },
    /// A HorizontalPodAutoscaler.
    Autoscaler {
        name: String,
    },
    ArgoCd {
        application: Option<String>,
    },
    Flux {
        kind: &'static str,
        name: Option<String>,
    },
}

impl fmt::Display for ScaleOwner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { kind, name } => write!(formatter, "its owner {kind} {name}"),
            Self::Autoscaler { name } => write!(formatter, "HorizontalPodAutoscaler {name}"),
            Self::ArgoCd { application: Some(name) } => write!(formatter, "Argo CD (Application {name})"),
            Self::ArgoCd { application: None } => formatter.write_str("Argo CD"),
            Self::Flux { kind, name: Some(name) } => write!(formatter, "Flux ({kind} {name})"),
            Self::Flux { kind, name: None } => write!(formatter, "Flux ({kind})"),
        }
    }
}

/// All that set the scale of a workload. `autoscalers`: the HorizontalPodAutoscalers of its namespace.
pub fn scale_owners(kind: TargetKind, workload: &Value, autoscalers: &[Value]) -> Vec<ScaleOwner> {
    let mut owners: Vec<ScaleOwner> = owner(workload).into_iter().collect();
    owners.extend(
        autoscalers
            .iter()
            .filter(|scaler| scales(scaler, kind, workload))
            .map(|scaler| ScaleOwner::Autoscaler { name: text(scaler, "/metadata/name").to_owned() }),
    );
    owners.extend(argo_cd(workload));
    owners.extend(flux(workload));
    owners
}

/// The object that made the workload: the owner that controls it, else the first. Operators such as Strimzi write the scale of workloads
/// whose owner references have `controller: false`.
fn owner(workload: &Value) -> Option<ScaleOwner> {
    let owners = workload.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let controller = owners.iter().find(|owner| owner["controller"] == true);
    let owner = controller.or_else(|| owners.first())?;
    let of = |field: &str| text(owner, field).to_owned();
    Some(ScaleOwner::Owner { kind: of("/kind"), name: of("/name") })
}

fn scales(autoscaler: &Value, kind: TargetKind, workload: &Value) -> bool {
    let target = &autoscaler["spec"]["scaleTargetRef"];
    let group = |version: &str| version.rsplit_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    let claimed = text(target, "/apiVersion");
    text(target, "/kind") == kind.as_str()
        && text(target, "/name") == text(workload, "/metadata/name")
        && (claimed.is_empty()
            || group(claimed) == group(kind.api_version())
            || group(claimed) == "extensions")
}

/// Labels and annotations, by name.
fn marks(workload: &Value) -> impl Iterator<Item = (&str, &str)> {
    let maps = ["/metadata/labels", "/metadata/annotations"].into_iter();
    let maps = maps.filter_map(|at| workload.pointer(at).and_then(Value::as_object));
    maps.flatten().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
}

fn mark<'a>(workload: &'a Value, name: &str) -> Option<&'a str> {
    marks(workload).find(|(own, value)| *own == name && !value.is_empty()).map(|(_, value)| value)
}

const ARGO_CD: &str = "argocd.argoproj.io/";
const ARGO_CD_TRACKING: &str = "argocd.argoproj.io/tracking-id";
const ARGO_CD_INSTANCE: &str = "argocd.argoproj.io/instance";
/// The label by which Argo CD before version 3 tracks objects, and which others set as well.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// How the managers of fields begin that Argo CD applies: `argocd-controller`, `argocd-application-controller`.
const ARGO_CD_MANAGER: &str = "argocd-";

/// Argo CD marks an object by the annotation `tracking-id` (`<application>:<group>/<kind>:<namespace>/<name>`) or by a label;
/// its other annotations are in manifests that are written for it. By default, versions before 3 set only the label
/// `app.kubernetes.io/instance`, which is Helm's as well: there the managers of the object's fields tell.
fn argo_cd(workload: &Value) -> Option<ScaleOwner> {
    let is_marked = marks(workload).any(|(name, _)| name.starts_with(ARGO_CD));
    let is_applied = managers(workload).any(|manager| manager.starts_with(ARGO_CD_MANAGER));
    if !is_marked && !is_applied {
        return None;
    }
    let tracked = mark(workload, ARGO_CD_TRACKING).and_then(|id| id.split(':').next());
    let application = tracked.or_else(|| mark(workload, ARGO_CD_INSTANCE));
    let application = application.or_else(|| mark(workload, INSTANCE).filter(|_| is_applied));
    Some(ScaleOwner::ArgoCd { application: application.map(str::to_owned) })
}

/// The programs that set fields of an object.
fn managers(workload: &Value) -> impl Iterator<Item = &str> {
    let fields = workload.pointer("/metadata/managedFields").and_then(Value::as_array);
    fields.into_iter().flatten().map(|fields| text(fields, "/manager"))
}

/// Whether the scale of a workload was changed after the record of its standstill was last written onto it. A workload that stands still may
/// have been started and stopped by hand since: it ran, and a copy from before lacks what it wrote. The API server notes for every
/// manager, and apart for the subresource `scale`, which fields it set and when it last changed one of them. Without these notes the scale
/// counts as unchanged.
pub fn was_scaled_since(workload: &Value) -> bool {
    let recorded = newest(workload, |fields| {
        !fields["f:metadata"]["f:annotations"][format!("f:{STANDSTILL}")].is_null()
    });
    let scaled = newest(workload, |fields| !fields["f:spec"]["f:replicas"].is_null());
    recorded.zip(scaled).is_some_and(|(recorded, scaled)| scaled > recorded)
}

/// When a manager that owns certain fields last changed one of its fields.
fn newest(workload: &Value, owns: impl Fn(&Value) -> bool) -> Option<Timestamp> {
    let entries = workload.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owning = entries.into_iter().flatten().filter(|entry| owns(&entry["fieldsV1"]));
    owning.filter_map(|entry| text(entry, "/time").parse().ok()).max()
}

/// The kinds of Flux, each with the prefix of its labels.
const FLUX: [(&str, &str); 2] =
    [("Kustomization", "kustomize.toolkit.fluxcd.io/"), ("HelmRelease", "helm.toolkit.fluxcd.io/")];

/// Flux labels what it applies. `reconcile: disabled` makes it leave an object alone.
fn flux(workload: &Value) -> Option<ScaleOwner> {
    let (kind, prefix) =
        FLUX.into_iter().find(|(_, prefix)| marks(workload).any(|(name, _)| name.starts_with(prefix)))?;
    if mark(workload, &format!("{prefix}reconcile")) == Some("disabled") {
        return None;
    }
    let name = mark(workload, &format!("{prefix}name")).map(str::to_owned);
    Some(ScaleOwner::Flux { kind, name })
}
