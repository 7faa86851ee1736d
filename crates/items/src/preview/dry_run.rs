//! The effects of a dry run: the cluster is read, and objects that would be created are only remembered, so that
//! later steps find them. Nothing here can write: a [`DryRun`] has a reader, and no writer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use kube::core::Status;
use lifeboat_cluster::lookup::Reader;
use lifeboat_cluster::write::{Answer, Target};
use lifeboat_cluster::{ApiError, Cause};
use lifeboat_plan::catalogue::{GroupResource, ResourceType};
use lifeboat_plan::items::modifiers;
use lifeboat_plan::selector::Selector;
use serde_json::{Value, json};

use crate::effects::{Awaited, Effects, Waited};
use lifeboat_control::locked;

/// `apiVersion` without its version, plural, namespace, name.
type ObjectKey = (String, String, Option<String>, String);

/// Reads the cluster and remembers what a restore would have changed.
pub struct DryRun {
    cluster: Arc<dyn Reader>,
    /// The type and the namespace of the objects that are remembered whole.
    kept: Option<(GroupResource, String)>,
    imagined: Mutex<BTreeMap<ObjectKey, Imagined>>,
    /// Existing objects that a create request found: the next read of each is answered from here.
    met: Mutex<BTreeMap<ObjectKey, Value>>,
    notes: Mutex<Vec<String>>,
}

/// An object whose state would differ from the cluster's.
#[derive(Clone)]
enum Imagined {
    /// It would have been created or changed: its metadata, or the whole object if its content is read later.
    Created(Value),
    /// The restore would have waited until it was deleted.
    Gone,
}

impl DryRun {
    pub fn new(cluster: Arc<dyn Reader>) -> Self {
        Self {
            cluster,
            kept: None,
            imagined: Mutex::default(),
            met: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    /// Remembers objects of this type in this namespace whole, not only their metadata: actions read the settings that the
    /// restore itself has created.
    #[must_use]
    pub fn keeping(mut self, resource: GroupResource, namespace: &str) -> Self {
        self.kept = Some((resource, namespace.to_owned()));
        self
    }

    fn is_kept(&self, (group, plural, home, _): &ObjectKey) -> bool {
        self.kept.as_ref().is_some_and(|(resource, namespace)| {
            resource.group == *group && resource.resource == *plural && home.as_ref() == Some(namespace)
        })
    }

    /// What a restore would wait for, for people.
    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.notes))
    }

    fn imagined(&self, key: &ObjectKey) -> Option<Imagined> {
        locked(&self.imagined).get(key).cloned()
    }

    async fn read_cluster(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        match self.cluster.get(target).await {
            // The dry run has its user's permissions, and a user who may not read a namespace may still work in it.
            Err(error) if error.code() == Some(403) && target.kind == "Namespace" => {
                Ok(Some(json!({"metadata": {"name": target.name}})))
            }
            found => found,
        }
    }
}

#[async_trait]
impl Reader for DryRun {
    async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        let key = key(target);
        match self.imagined(&key) {
            Some(Imagined::Created(object)) => return Ok(Some(object)),
            Some(Imagined::Gone) => return Ok(None),
            None => {}
        }
        let met = locked(&self.met).remove(&key);
        match met {
            Some(found) => Ok(Some(found)),
            None => self.read_cluster(target).await,
        }
    }

    async fn list(
        &self,
        known: &ResourceType,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let mut found = self.cluster.list(known, namespace, selector).await?;
        let Ok(selector) = Selector::parse(selector) else { return Ok(found) };
        let imagined = locked(&self.imagined);
        found.retain(|object| !imagined.contains_key(&listed_key(known, object)));
        let of_type = imagined.iter().filter(|((group, plural, home, _), _)| {
            *group == known.id.group
                && *plural == known.id.resource
                && namespace.is_none_or(|namespace| home.as_deref() == Some(namespace))
        });
        let created = of_type.filter_map(|(_, one)| match one {
            Imagined::Created(object) => Some(object),
            Imagined::Gone => None,
        });
        found.extend(created.filter(|object| selector.matches(&labels(object))).cloned());
        Ok(found)
    }
}

#[async_trait]
impl Effects for DryRun {
    async fn create(&self, target: &Target, object: &Value, _: Answer) -> Result<Value, ApiError> {
        let key = key(target);
        match self.imagined(&key) {
            Some(Imagined::Created(_)) => return Err(already_exists(target)),
            Some(Imagined::Gone) => {}
            None => {
                if let Some(found) = self.read_cluster(target).await? {
                    locked(&self.met).insert(key, found);
                    return Err(already_exists(target));
                }
            }
        }
        let remembered = if self.is_kept(&key) {
            object.clone()
        } else {
            let labels = object.pointer("/metadata/labels").cloned().unwrap_or_default();
            json!({"metadata": {"name": target.name, "namespace": target.namespace, "labels": labels}})
        };
        locked(&self.imagined).insert(key, Imagined::Created(remembered));
        Ok(object.clone())
    }

    async fn merge(&self, target: &Target, part: Option<&str>, patch: &Value) -> Result<(), ApiError> {
        let key = key(target);
        if part.is_none()
            && self.is_kept(&key)
            && let Ok(Some(mut object)) = self.get(target).await
        {
            modifiers::merge(&mut object, patch);
            locked(&self.imagined).insert(key, Imagined::Created(object));
        }
        Ok(())
    }

    async fn wait(&self, awaited: Awaited<'_>, _: Duration) -> Waited {
        let Awaited::Gone(target) = awaited else { return Waited::Assume };
        let name = if target.kind == "Namespace" {
            format!("namespace {}", target.name)
        } else {
            target.to_string()
        };
        locked(&self.notes).push(format!(
            "{name} is being deleted: the restore would wait for it to go, at most as long as the server's --terminating-resource-timeout"
        ));
        locked(&self.imagined).insert(key(target), Imagined::Gone);
        Waited::LookAgain
    }
}

fn key(target: &Target) -> ObjectKey {
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    (group.to_owned(), target.plural.clone(), target.namespace.clone(), target.name.clone())
}

/// The key of an object in a list, whose elements have no type of their own.
fn listed_key(known: &ResourceType, object: &Value) -> ObjectKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = text("/metadata/name").unwrap_or_default();
    (known.id.group.clone(), known.id.resource.clone(), text("/metadata/namespace"), name)
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn already_exists(target: &Target) -> ApiError {
    let status = Status::failure(&format!("{target} already exists"), "AlreadyExists").with_code(409);
    ApiError { attempt: format!("create {target}"), source: Cause::Api(status.boxed()) }
}
