//! What a preview says about an item, and what a restore did with it.

use std::collections::BTreeSet;

use lifeboat_items::preview::{PlannedItem, Would};
use serde_json::Value;

use super::super::super::RestoredItems;
use super::super::generated::Backup;
use super::super::world::Api;

/// What became of an item, in a preview or in a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Created,
    Updated,
    Untouched,
    Failed,
}

impl Fate {
    /// What a preview says.
    pub(super) fn planned(would: &Would) -> Self {
        match would {
            Would::Create => Self::Created,
            Would::Update => Self::Updated,
            Would::Skip(_) | Would::NotSelected(_) => Self::Untouched,
            Would::Fail(_) => Self::Failed,
        }
    }

    /// Whether the restore may send this request for an item with this fate. The status and the owners of fields of a new
    /// object are written after it was created.
    fn allows(self, method: &str) -> bool {
        match method {
            "POST" => self == Self::Created,
            "PATCH" => matches!(self, Self::Created | Self::Updated),
            _ => false,
        }
    }
}

/// Where the object of an item is in the cluster.
struct Place {
    /// `/apis/apps/`, `/api/v1/`.
    group: String,
    /// The ends of its paths: `/namespaces/shop/deployments/web`.
    ends: Vec<String>,
}

impl Place {
    fn of(planned: &PlannedItem, backup: &Backup) -> Self {
        let (resource, group) = planned.resource.split_once('.').unwrap_or((&planned.resource, ""));
        let group = if group.is_empty() { "/api/v1/".to_owned() } else { format!("/apis/{group}/") };
        let name = planned.item.rsplit('/').next().unwrap_or_default();
        if planned.resource == "namespaces" {
            let name = planned.namespace.as_deref().unwrap_or(name);
            return Self { group, ends: vec![format!("/namespaces/{name}")] };
        }
        let names = backup.names_in_cluster(&planned.resource, name);
        let ends = names.iter().map(|name| match &planned.namespace {
            Some(home) => format!("/namespaces/{home}/{resource}/{name}"),
            None => format!("/{resource}/{name}"),
        });
        Self { group, ends: ends.collect() }
    }

    fn is(&self, path: &str) -> bool {
        path.starts_with(&self.group) && self.ends.iter().any(|end| path.ends_with(end))
    }
}

/// A request that changed something.
#[derive(Debug)]
struct Write {
    method: String,
    /// The path of the object, also if only its status was written.
    path: String,
}

impl Write {
    fn parse(asked: &str) -> Self {
        let (method, path) = asked.split_once(' ').unwrap_or_default();
        let path = path.strip_suffix("/status").unwrap_or(path);
        Self { method: method.to_owned(), path: path.to_owned() }
    }

    /// Whether it is what the restore writes about itself: its journal, and the downloads of moved data.
    fn is_bookkeeping(&self) -> bool {
        [
            "/api/v1/namespaces/lifeboat/configmaps/lifeboat-restore-journal-",
            "/apis/velero.io/v2alpha1/namespaces/lifeboat/datadownloads/",
        ]
        .iter()
        .any(|own| self.path.starts_with(own))
    }
}

/// What a restore did, by its resource list, its errors and what the API server was asked.
pub(super) struct Done {
    pub(super) list: BTreeSet<String>,
    pub(super) errors: String,
    writes: Vec<Write>,
}

impl Done {
    pub(super) fn new(ended: &RestoredItems, api: &Api) -> Self {
        let list = ended.list.types().flat_map(|(kind, items)| {
            items.iter().map(move |item| format!("{kind} {item}")).collect::<Vec<_>>()
        });
        let errors: Vec<String> = ended.results.errors.all().map(|(_, text)| text.to_string()).collect();
        let writes = api.asked.lock().unwrap().iter().map(|asked| Write::parse(asked)).collect();
        Self { list: list.collect(), errors: errors.join("\n"), writes }
    }

    /// Whether an error names the item. That additional items were not ready in time is no error of the item, which was
    /// then attempted, and no preview can know it.
    fn has_error(&self, resource_id: &str) -> bool {
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
        let of_items =
            self.errors.lines().filter(|line| !line.contains("which was then restored all the same"));
        let names =
            |line: &str| line.match_indices(resource_id).any(|(at, _)| ends(&line[at + resource_id.len()..]));
        of_items.into_iter().any(names)
    }

    pub(super) fn fate(&self, planned: &PlannedItem, backup: &Backup) -> Fate {
        let name = planned.item.rsplit('/').next().unwrap_or_default();
        let (item, types) = if planned.resource == "namespaces" {
            let name = planned.namespace.clone().unwrap_or_else(|| name.to_owned());
            (name, BTreeSet::from(["v1/Namespace".to_owned()]))
        } else {
            let item =
                planned.namespace.as_ref().map_or_else(|| name.to_owned(), |home| format!("{home}/{name}"));
            (item, backup.types_of(&planned.resource))
        };
        let listed =
            |word: &str| types.iter().any(|kind| self.list.contains(&format!("{kind} {item}({word})")));
        let place = Place::of(planned, backup);
        let patched = || self.writes.iter().any(|write| write.method == "PATCH" && place.is(&write.path));
        if listed("created") {
            Fate::Created
        } else if listed("updated") || patched() {
            Fate::Updated
        } else if listed("failed") && self.has_error(&format!("{}/{item}", planned.resource)) {
            Fate::Failed
        } else {
            Fate::Untouched
        }
    }

    /// The writes of the restore that the preview does not announce: each must be of an item that it says would be created
    /// or updated.
    pub(super) fn unannounced(&self, planned: &[PlannedItem], backup: &Backup) -> Vec<String> {
        let places: Vec<(Fate, Place)> =
            planned.iter().map(|item| (Fate::planned(&item.would), Place::of(item, backup))).collect();
        let is_announced = |write: &Write| {
            places.iter().any(|(fate, place)| fate.allows(&write.method) && place.is(&write.path))
        };
        let unannounced = self.writes.iter().filter(|write| !write.is_bookkeeping() && !is_announced(write));
        unannounced.map(|write| format!("{} {}", write.method, write.path)).collect()
    }
}

/// The controllers that were in the cluster before and would adopt a pod that is created: `pod controller`, each as
/// `namespace/name`. Computed here from the objects, as a preview computes it from its run.
pub(super) fn fights(
    planned: &[PlannedItem],
    backup: &Backup,
    there: &[(String, Value)],
) -> BTreeSet<String> {
    let created = planned.iter().filter(|item| item.resource == "pods" && item.would == Would::Create);
    let mut found = BTreeSet::new();
    for pod in created {
        let (home, name) = pod.item.split_once('/').unwrap();
        let is_pod = |one: &&Value| {
            let metadata = &one["metadata"];
            one["kind"] == "Pod" && metadata["namespace"] == home && metadata["name"] == name
        };
        let object = backup.objects.iter().find(is_pod).unwrap();
        let target = pod.namespace.as_deref().unwrap();
        let adopting = there.iter().filter(|(_, one)| {
            let is_pending = one["metadata"].get("deletionTimestamp").is_some();
            one["metadata"]["namespace"] == target && !is_pending && adopts(one, object)
        });
        found.extend(adopting.map(|(_, one)| {
            let controller = one["metadata"]["name"].as_str().unwrap();
            format!("{target}/{name} {} {target}/{controller}", one["kind"].as_str().unwrap())
        }));
    }
    found
}

fn adopts(controller: &Value, pod: &Value) -> bool {
    let spec = &controller["spec"];
    let selector = match controller["kind"].as_str().unwrap() {
        "ReplicationController" => &spec["selector"],
        "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => &spec["selector"]["matchLabels"],
        _ => return false,
    };
    let labels = &pod["metadata"]["labels"];
    let asked = selector.as_object().filter(|asked| !asked.is_empty() && spec["replicas"] != 0);
    asked.is_some_and(|asked| asked.iter().all(|(key, value)| labels[key] == *value))
}
