//! For tests: an API server in memory that speaks real HTTP. It keeps objects by their full path, such as
//! `/apis/velero.io/v1/namespaces/lifeboat/backups/nightly`; it lists by label and in pages, gives versions and UIDs,
//! refuses a change of another version, and keeps the reasons of events. Tests script what an ordinary object store does
//! not do with [`ApiServer::answer`] and the hooks.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // tests end by panicking

mod answers;
mod objects;

use std::sync::{Arc, Mutex, MutexGuard};

use kube::Client;
use lifeboat_cluster::testing::{Asked, client};
use lifeboat_web::Metrics;
use serde_json::Value;

use crate::{Core, locked};
use answers::answer;
use objects::Objects;

/// The answer to a request that a test gives itself; None leaves it to the server.
type Answer = Box<dyn Fn(&ApiServer, &Asked) -> Option<(u16, Value)> + Send>;
/// Called with the path of an object after it was created or changed: a controller of the cluster.
type Hook = Arc<dyn Fn(&ApiServer, &str) + Send + Sync>;

/// The server. Clones share it.
#[derive(Clone, Default)]
pub struct ApiServer {
    objects: Arc<Mutex<Objects>>,
    events: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
    on_write: Arc<Mutex<Option<Hook>>>,
}

impl ApiServer {
    /// A client of this server, which runs until the test's runtime ends.
    pub async fn client(&self) -> Client {
        let server = self.clone();
        client(move |asked| server.respond(&asked)).await
    }

    /// A core whose client asks this server; Lifeboat's namespace is `lifeboat`.
    pub async fn core(&self) -> Core {
        Core::new(self.client().await, Metrics::new("0"), "lifeboat", "me")
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        locked(&self.objects)
    }

    /// Puts an object at a path. Name, namespace, UID and version are filled in where it has none.
    pub fn put(&self, path: &str, object: Value) {
        self.objects().put(path, object);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.objects().get(path).cloned()
    }

    /// Merges into an object that is there.
    pub fn change(&self, path: &str, patch: &Value) {
        assert!(self.objects().merge(path, patch).is_some(), "there is no {path}");
    }

    pub fn remove(&self, path: &str) {
        self.objects().remove(path);
    }

    /// The paths of all objects that contain `part`.
    pub fn paths(&self, part: &str) -> Vec<String> {
        self.objects().paths().filter(|path| path.contains(part)).map(str::to_owned).collect()
    }

    /// The reasons of all events.
    pub fn events(&self) -> Vec<String> {
        locked(&self.events).clone()
    }

    /// Method and path of every request that was not a read, in their order.
    pub fn writes(&self) -> Vec<String> {
        locked(&self.requests).clone()
    }

    /// Adds an answer of the test's own; later ones are asked first.
    pub fn answer(&self, answer: impl Fn(&Self, &Asked) -> Option<(u16, Value)> + Send + 'static) {
        locked(&self.answers).insert(0, Box::new(answer));
    }

    /// `hook` gets the path of every object that is created or changed from now on.
    pub fn on_write(&self, hook: impl Fn(&Self, &str) + Send + Sync + 'static) {
        *locked(&self.on_write) = Some(Arc::new(hook));
    }

    fn respond(&self, asked: &Asked) -> (u16, Value) {
        if asked.method == "POST" && asked.path.ends_with("/events") {
            let reason = asked.body["reason"].as_str().unwrap_or_default().to_owned();
            locked(&self.events).push(reason);
            return (201, asked.body.clone());
        }
        if asked.method != "GET" {
            locked(&self.requests).push(format!("{} {}", asked.method, asked.path));
        }
        let own = locked(&self.answers).iter().find_map(|answer| answer(self, asked));
        if let Some(own) = own {
            return own;
        }
        let (response, written) = answer(&mut self.objects(), asked);
        let hook = locked(&self.on_write).clone();
        if let (Some(path), Some(hook)) = (written, hook) {
            hook(self, &path);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use kube::api::{DeleteParams, ListParams, PostParams};
    use lifeboat_cluster::objects;
    use lifeboat_cluster::testing::failure;
    use serde_json::json;

    use super::*;
    use crate::Written;

    const PATH: &str = "/apis/g/v1/namespaces/lifeboat/things/a";

    fn resource() -> kube::core::ApiResource {
        objects::resource("g", "v1", "Thing", "things")
    }

    #[tokio::test]
    async fn objects_are_made_listed_by_label_and_deleted() {
        let server = ApiServer::default();
        let api = objects::namespaced(&server.client().await, "lifeboat", &resource());
        for (name, label) in [("a", "x"), ("b", "y")] {
            let object = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": name, "labels": {"l": label}}});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        let listed = api.list(&ListParams::default().labels("l=y")).await.unwrap();
        assert_eq!(listed.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
        assert!(listed.items[0].uid().is_some());
        api.delete("a", &DeleteParams::default()).await.unwrap();
        assert_eq!(server.paths("/things/"), ["/apis/g/v1/namespaces/lifeboat/things/b"]);
    }

    #[tokio::test]
    async fn a_write_of_another_version_is_a_conflict_and_one_of_a_missing_object_is_gone() {
        let server = ApiServer::default();
        let core = server.core().await;
        server.put(PATH, json!({"apiVersion": "g/v1", "kind": "Thing"}));
        let api = objects::namespaced(&core.client, "lifeboat", &resource());
        let read = api.get("a").await.unwrap();
        server.change(PATH, &json!({"spec": {"other": true}}));
        let patch = || json!({"status": {"phase": "Done"}});
        assert!(core.write(&resource(), &read, patch(), "m").await.unwrap_err().is_conflict());
        let read = api.get("a").await.unwrap();
        assert!(matches!(core.write(&resource(), &read, patch(), "m").await.unwrap(), Written::Changed(_)));
        assert_eq!(server.get(PATH).unwrap()["status"]["phase"], "Done");
        server.remove(PATH);
        assert!(matches!(core.write(&resource(), &read, patch(), "m").await.unwrap(), Written::Gone));
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_says_so_and_one_that_cannot_be_written_gets_an_event() {
        let server = ApiServer::default();
        let core = server.core().await;
        server.put(PATH, json!({"apiVersion": "g/v1", "kind": "Thing"}));
        let api = objects::namespaced(&core.client, "lifeboat", &resource());
        let message = crate::unreadable::message("spec is missing", crate::unreadable::EDIT);
        let patch = || json!({"status": {"phase": "FailedValidation", "validationErrors": [message]}});
        let object = api.get("a").await.unwrap();
        crate::unreadable::report(&core, &resource(), &object, patch(), &message).await.unwrap();
        assert_eq!(server.get(PATH).unwrap()["status"]["phase"], "FailedValidation");
        server.answer(|_, asked| (asked.method == "PATCH").then(|| failure(422, "Invalid")));
        let object = api.get("a").await.unwrap();
        crate::unreadable::report(&core, &resource(), &object, patch(), &message).await.unwrap();
        assert_eq!(server.events(), ["ObjectNotValid"]);
    }

    #[tokio::test]
    async fn a_hook_acts_as_a_controller_of_the_cluster() {
        let server = ApiServer::default();
        let api = objects::namespaced(&server.client().await, "lifeboat", &resource());
        server.on_write(|server, path| {
            if server.get(path).unwrap()["status"].is_null() {
                server.change(path, &json!({"status": {"ready": true}}));
            }
        });
        let object = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "a"}});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        assert_eq!(server.get(PATH).unwrap()["status"]["ready"], true);
        assert_eq!(server.writes(), ["POST /apis/g/v1/namespaces/lifeboat/things"]);
    }
}
