//! Jobs with one pod each, and the Secrets that they read: creates, finds, watches and deletes them. Objects are JSON,
//! which crate `plan` makes and evaluates. Called by the server for movers.

mod dry_run;
mod logs;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use lifeboat_plan::transfer::movers::verdict::Warning;
use serde_json::{Value, json};

use crate::connect::WATCH_SECONDS;
use crate::objects::{namespaced, resource_of, to_json};
use crate::{ApiError, Attempt, MANAGER};

/// How many characters of an event's message are returned.
const MESSAGE_LENGTH: usize = 400;

/// Single Jobs of one namespace.
#[derive(Clone)]
pub struct Jobs {
    client: Client,
    namespace: String,
}

impl Jobs {
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self { client: client.clone(), namespace: namespace.to_owned() }
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        namespaced(&self.client, &self.namespace, &resource_of::<K>())
    }

    fn qualified(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }

    /// Reads the Job; None if it does not exist.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let found =
            self.api::<Job>().get_opt(name).await.attempt(format!("read Job {}", self.qualified(name)))?;
        Ok(found.as_ref().map(to_json))
    }

    /// Creates the Job; if one of that name exists, that one is returned.
    pub async fn create(&self, job: &Value) -> Result<Value, ApiError> {
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        match create::<Job>(&self.api::<Job>(), job).await {
            Ok(made) => Ok(to_json(&made)),
            Err(error) if is_there(&error) => {
                let found = self.api::<Job>().get(name).await;
                found.attempt(format!("read Job {}", self.qualified(name))).map(|job| to_json(&job))
            }
            Err(error) => Err(error).attempt(format!("create Job {}", self.qualified(name))),
        }
    }

    /// Deletes the Job and, in the background, its pod. It need not exist.
    pub async fn delete(&self, name: &str) -> Result<(), ApiError> {
        let deleted = self.api::<Job>().delete(name, &DeleteParams::background()).await.map(drop);
        fine_if_gone(deleted).attempt(format!("delete Job {}", self.qualified(name)))
    }

    /// The newest pod of a Job.
    pub async fn pod(&self, job: &str) -> Result<Option<Value>, ApiError> {
        let asked = ListParams::default().labels(&of_job(job));
        let found = self.api::<Pod>().list(&asked).await;
        let mut found = found.attempt(format!("list the pods of Job {}", self.qualified(job)))?.items;
        found.sort_by_key(|pod| pod.creation_timestamp().map(|time| time.0));
        Ok(found.last().map(to_json))
    }

    /// A stream with an item for every change of the Job's pods.
    pub fn pod_changes(
        &self,
        job: &str,
    ) -> impl futures::Stream<Item = Result<watcher::Event<Pod>, watcher::Error>> + Send + use<> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        watcher::watcher(api, watcher::Config::default().labels(&of_job(job)).timeout(WATCH_SECONDS))
    }

    /// Deletes this pod with a grace period in seconds, in which its program receives TERM. The pod need not exist any
    /// more.
    pub async fn end_pod(&self, pod: &Value, grace: u32) -> Result<(), ApiError> {
        let text = |field: &str| pod["metadata"][field].as_str().map(str::to_owned);
        let name = text("name").unwrap_or_default();
        let same = Preconditions { uid: text("uid"), resource_version: None };
        let asked = DeleteParams::default().grace_period(grace).preconditions(same);
        let deleted = self.api::<Pod>().delete(&name, &asked).await.map(drop);
        fine_if_gone(deleted).attempt(format!("delete Pod {}", self.qualified(&name)))
    }

    /// Reads a node; None if it does not exist.
    pub async fn node(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let nodes: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource_of::<Node>());
        Ok(nodes.get_opt(name).await.attempt(format!("read Node {name}"))?.as_ref().map(to_json))
    }

    /// The newest warning about the object with this UID.
    pub async fn warning(&self, about: &str) -> Result<Option<Warning>, ApiError> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let asked = ListParams::default().fields(&format!("involvedObject.uid={about},type=Warning"));
        let found = events.list(&asked).await.attempt(format!("list Events in {}", self.namespace))?;
        let newest = found.items.into_iter().max_by_key(time_of);
        Ok(newest.map(|event| Warning {
            reason: event.reason.unwrap_or_default(),
            message: event.message.unwrap_or_default().chars().take(MESSAGE_LENGTH).collect(),
        }))
    }

    /// Creates the Secret, or replaces the content of the existing one.
    pub async fn put_secret(&self, secret: &Value) -> Result<(), ApiError> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let (api, attempt) = (self.api::<Secret>(), format!("write Secret {}", self.qualified(name)));
        match create::<Secret>(&api, secret).await {
            Err(error) if is_there(&error) => {
                let changes = Patch::Merge(json!({"data": secret["data"]}));
                api.patch(name, &PatchParams::default(), &changes).await.attempt(attempt).map(drop)
            }
            other => other.attempt(attempt).map(drop),
        }
    }

    /// Creates the Secret unless it exists.
    pub async fn ensure_secret(&self, secret: &Value) -> Result<(), ApiError> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        match create::<Secret>(&self.api::<Secret>(), secret).await {
            Err(error) if is_there(&error) => Ok(()),
            other => other.attempt(format!("write Secret {}", self.qualified(name))).map(drop),
        }
    }

    /// Sets the owners of the Secret; it is deleted with them.
    pub async fn own_secret(&self, name: &str, owners: &Value) -> Result<(), ApiError> {
        let changes = Patch::Merge(json!({"metadata": {"ownerReferences": owners}}));
        let written = self.api::<Secret>().patch(name, &PatchParams::default(), &changes).await;
        written.attempt(format!("write the owner of Secret {}", self.qualified(name))).map(drop)
    }

    /// Deletes the Secret; a missing one is not an error.
    pub async fn delete_secret(&self, name: &str) -> Result<(), ApiError> {
        let deleted = self.api::<Secret>().delete(name, &DeleteParams::default()).await.map(drop);
        fine_if_gone(deleted).attempt(format!("delete Secret {}", self.qualified(name)))
    }
}

/// The Jobs with these labels, in one namespace or in all.
pub async fn list(client: &Client, namespace: Option<&str>, selector: &str) -> Result<Vec<Value>, ApiError> {
    let asked = ListParams::default().labels(selector);
    let found = api_in::<Job>(client, namespace).list(&asked).await;
    Ok(found.attempt(format!("list Jobs in {}", place(namespace)))?.iter().map(to_json).collect())
}

/// A Secret whose content was not read.
#[derive(Clone, Debug)]
pub struct FoundSecret {
    pub namespace: String,
    pub name: String,
    pub created: Option<Timestamp>,
    /// Its metadata, as in an object.
    pub object: Value,
}

/// The Secrets with these labels, in one namespace or in all; their content is not read.
pub async fn secrets(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<FoundSecret>, ApiError> {
    let asked = ListParams::default().labels(selector);
    let found = api_in::<Secret>(client, namespace).list_metadata(&asked).await;
    let found = found.attempt(format!("list Secrets in {}", place(namespace)))?;
    let read = |secret: &PartialObjectMeta<DynamicObject>| FoundSecret {
        namespace: secret.namespace().unwrap_or_default(),
        name: secret.name_any(),
        created: secret.creation_timestamp().map(|time| time.0),
        object: json!({"metadata": secret.metadata}),
    };
    Ok(found.iter().map(read).collect())
}

fn api_in<K: Resource<DynamicType = ()>>(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = resource_of::<K>();
    match namespace {
        Some(namespace) => namespaced(client, namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn place(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"))
}

fn of_job(name: &str) -> String {
    format!("batch.kubernetes.io/job-name={name}")
}

async fn create<K: Resource<DynamicType = ()>>(
    api: &Api<DynamicObject>,
    object: &Value,
) -> Result<DynamicObject, kube::Error> {
    create_with::<K>(api, object, false).await
}

async fn create_with<K: Resource<DynamicType = ()>>(
    api: &Api<DynamicObject>,
    object: &Value,
    dry_run: bool,
) -> Result<DynamicObject, kube::Error> {
    let mut made = DynamicObject::new("", &resource_of::<K>());
    made.metadata = serde_json::from_value(object["metadata"].clone()).map_err(kube::Error::SerdeError)?;
    made.data = object.clone();
    if let Some(rest) = made.data.as_object_mut() {
        for own in ["apiVersion", "kind", "metadata"] {
            rest.remove(own);
        }
    }
    api.create(&PostParams { field_manager: Some(MANAGER.into()), dry_run }, &made).await
}

fn is_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

fn fine_if_gone(deleted: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        // Conflict: another pod has that name now (another UID), so the requested one is gone.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        other => other,
    }
}

fn time_of(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(first).or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::{Asked, client, failure};

    /// Jobs on an API server with these answers, and the requests it received.
    async fn jobs<F>(answer: F) -> (Jobs, Arc<Mutex<Vec<Asked>>>)
    where
        F: Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
    {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        let client = client(move |request| {
            let answer = answer(&request);
            kept.lock().unwrap().push(request);
            answer
        });
        (Jobs::new(&client.await, "movers"), asked)
    }

    #[tokio::test]
    async fn a_job_that_is_there_already_is_given_instead_of_a_second_one() {
        let (jobs, _) = jobs(|asked| match asked.method.as_str() {
            "POST" => failure(409, "AlreadyExists"),
            _ => (200, json!({"metadata": {"name": "j", "uid": "old"}})),
        })
        .await;
        let made = jobs.create(&json!({"metadata": {"name": "j"}, "spec": {}})).await.unwrap();
        assert_eq!(made["metadata"]["uid"], "old");
    }

    #[tokio::test]
    async fn a_job_is_created_as_it_was_given() {
        let (jobs, asked) = jobs(|asked| (201, asked.body.clone())).await;
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "movers"},
            "spec": {"unknownField": 1}});
        jobs.create(&job).await.unwrap();
        let asked = asked.lock().unwrap();
        assert_eq!((asked[0].path.as_str(), &asked[0].body), ("/apis/batch/v1/namespaces/movers/jobs", &job));
    }

    #[tokio::test]
    async fn what_is_gone_needs_no_deletion_and_a_pod_is_deleted_by_its_uid() {
        let (jobs, asked) = jobs(|_| failure(404, "NotFound")).await;
        jobs.delete("j").await.unwrap();
        jobs.delete_secret("s").await.unwrap();
        jobs.end_pod(&json!({"metadata": {"name": "p", "uid": "u"}}), 30).await.unwrap();
        let asked = asked.lock().unwrap();
        assert_eq!(asked[0].body["propagationPolicy"], "Background");
        assert_eq!(asked[2].body["preconditions"]["uid"], "u");
        assert_eq!(asked[2].body["gracePeriodSeconds"], 30);
    }

    #[tokio::test]
    async fn the_newest_warning_is_returned() {
        let (jobs, asked) = jobs(|_| {
            let event = |reason: &str, at: &str| {
                json!({"metadata": {"name": reason}, "involvedObject": {}, "reason": reason,
                "message": "m", "lastTimestamp": at})
            };
            let items = [event("New", "2026-01-02T00:00:00Z"), event("Old", "2026-01-01T00:00:00Z")];
            (200, json!({"metadata": {}, "items": items}))
        })
        .await;
        assert_eq!(jobs.warning("u").await.unwrap().unwrap().reason, "New");
        let query = &asked.lock().unwrap()[0].query;
        assert!(query.contains("involvedObject.uid") && query.contains("Warning"), "{query}");
    }

    #[tokio::test]
    async fn a_secret_that_was_left_gets_the_new_content() {
        let (jobs, asked) = jobs(|asked| match asked.method.as_str() {
            "POST" => failure(409, "AlreadyExists"),
            _ => (200, json!({"metadata": {"name": "s"}})),
        })
        .await;
        let secret = json!({"metadata": {"name": "s"}, "data": {"a": "Yg=="}});
        jobs.put_secret(&secret).await.unwrap();
        assert_eq!(asked.lock().unwrap()[1].body, json!({"data": {"a": "Yg=="}}));
        jobs.ensure_secret(&secret).await.unwrap();
        assert_eq!(asked.lock().unwrap().len(), 3, "one that is there is left alone");
    }
}
