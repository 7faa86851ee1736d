//! A dry run: what a restore would do, as a value. Reads the cluster and changes nothing; actions of plugins do not run.

use std::collections::BTreeMap;

use lifeboat_archive::Spool;
use lifeboat_cluster::write::{Target, Writer};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::restore::existing::{Existing, compare};
use lifeboat_plan::restore::sanitise;
use lifeboat_plan::restore::trust;
use lifeboat_plan::restore::validate::ValidRestore;
use lifeboat_plan::restore::volumes::{DataIn, VolumePlan, plan};
use serde::Serialize;
use serde_json::Value;

/// What would become of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", content = "why", rename_all = "camelCase")]
pub enum Would {
    Create,
    Update,
    Skip(String),
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedItem {
    /// `resource.group`.
    pub resource: String,
    /// As in the backup.
    pub item: String,
    /// Where it goes.
    pub namespace: Option<String>,
    #[serde(flatten)]
    pub would: Would,
}

/// A controller in the cluster that a restored pod would belong to, beside the pods that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fight {
    pub pod: String,
    pub controller: String,
}

/// The plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Planned {
    pub items: Vec<PlannedItem>,
    pub fights: Vec<Fight>,
}

/// What is asked of the backup and the cluster.
pub(crate) struct Question<'a> {
    pub(crate) spool: &'a Spool,
    pub(crate) valid: &'a ValidRestore,
    pub(crate) volumes: &'a BTreeMap<String, DataIn>,
    pub(crate) untrusted: Option<&'a str>,
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) writer: &'a Writer,
    /// Names of restore and backup, for the labels.
    pub(crate) names: (&'a str, &'a str),
}

/// Works out the plan.
pub(crate) async fn dry_run(question: Question<'_>) -> Planned {
    let mut planned = Planned::default();
    for item in question.spool.items() {
        let id = item.id();
        let labels = item.labels().iter().cloned().collect();
        let target = id.namespace.as_deref().map(|namespace| question.valid.target(namespace).to_owned());
        let would = match question.valid.filter.judge(&id, &labels) {
            Err(reason) => Would::Skip(reason.to_string()),
            Ok(()) => {
                judge(&question, &id, item.index(), item.api_version(), item.kind(), target.clone()).await
            }
        };
        if would == Would::Create && id.resource == GroupResource::new("", "pods") {
            planned.fights.extend(fights(&question, &id, target.as_deref(), &labels).await);
        }
        planned.items.push(PlannedItem {
            resource: id.resource.to_string(),
            item: id.path(),
            namespace: target,
            would,
        });
    }
    planned
}

async fn judge(
    question: &Question<'_>,
    id: &ItemId,
    place: usize,
    api_version: &str,
    kind: &str,
    namespace: Option<String>,
) -> Would {
    if let Some(location) = question.untrusted.filter(|_| trust::is_privileged(&id.resource)) {
        return Would::Skip(format!("location {location} is untrusted"));
    }
    let object =
        question.spool.get(place).await.ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let Some(mut object) = object else { return Would::Skip("it cannot be read".to_owned()) };
    if sanitise::is_completed(&id.resource, &object) {
        return Would::Skip("it is complete".to_owned());
    }
    if sanitise::is_mirror_pod(&id.resource, &object) {
        return Would::Skip("it is a mirror pod".to_owned());
    }
    if id.resource == GroupResource::new("", "persistentvolumes") {
        let data = question.volumes.get(&id.name).copied().unwrap_or(DataIn::Nothing);
        if let VolumePlan::Provision { missing } = plan(&object, data, question.valid.volumes) {
            return Would::Skip(missing.unwrap_or_else(|| "its claim gets a new volume".to_owned()));
        }
    }
    let mut name = id.name.clone();
    if id.resource == GroupResource::new("", "namespaces") {
        name = question.valid.target(&id.name).to_owned();
    }
    let target = Target {
        api_version: api_version.to_owned(),
        plural: id.resource.resource.clone(),
        kind: kind.to_owned(),
        namespace: namespace.clone(),
        name,
    };
    if sanitise::strip(&mut object).is_err() {
        return Would::Skip("it has no metadata".to_owned());
    }
    question.valid.modifiers.apply(&mut object, &id.resource);
    sanitise::mark(&mut object, namespace.as_deref(), question.names.0, question.names.1);
    match question.writer.get(&target).await {
        Ok(None) => Would::Create,
        Err(error) => Would::Skip(format!("the cluster cannot be asked: {}", error.chain())),
        Ok(Some(_)) if target.kind == "Namespace" => Would::Skip("it is there".to_owned()),
        Ok(Some(found)) => match compare(found, &object, question.valid.existing.as_ref()) {
            Existing::Same => Would::Skip("it is there and the same".to_owned()),
            Existing::Different { .. } => Would::Skip("it is there and different".to_owned()),
            Existing::Labels { .. } | Existing::Merge { .. } => Would::Update,
        },
    }
}

/// Controllers of pods in the cluster, and where their selectors are.
const CONTROLLERS: [(&str, &str); 4] =
    [("apps", "replicasets"), ("apps", "statefulsets"), ("apps", "daemonsets"), ("batch", "jobs")];

/// The controllers in the target namespace whose selectors match a pod that is not there.
async fn fights(
    question: &Question<'_>,
    pod: &ItemId,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Vec<Fight> {
    let Some(namespace) = namespace else { return Vec::new() };
    let mut found = Vec::new();
    for (group, plural) in CONTROLLERS {
        let Some(known) = question.catalogue.get(&GroupResource::new(group, plural)) else { continue };
        for controller in question.writer.list(known, Some(namespace), "").await.unwrap_or_default() {
            let selector = controller.pointer("/spec/selector").cloned().unwrap_or_default();
            let selector = serde_json::from_value(selector).ok();
            let selector = selector.and_then(|spec| lifeboat_plan::selector::Selector::new(&spec).ok());
            let matches = selector.is_some_and(|one| !one.is_everything() && one.matches(labels));
            let wanted = controller.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0);
            if matches && wanted {
                let name = controller.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                found.push(Fight {
                    pod: format!("{namespace}/{}", pod.name),
                    controller: format!("{} {namespace}/{name}", known.kind),
                });
            }
        }
    }
    found
}
