//! For tests: an API server in memory that is reached over real HTTP. Every test of this workspace that needs objects of
//! a cluster uses it.
//!
//! It keeps objects by their full path, such as `/apis/velero.io/v1/namespaces/lifeboat/backups/nightly`, and serves:
//! - get, list (in pages, by label and field), create (also by `generateName`), replace, delete with preconditions;
//!   JSON merge patch, JSON patch, strategic merge patch, and apply as far as a merge goes;
//! - resource versions: every change has one, a write with an old one is a conflict, a write without a change adds none;
//! - UIDs, creation times ([`ApiServer::set_clock`]) and generations; finalizers, which hold a deleted object;
//! - the status subresource of types that were registered with it ([`ServedType::with_status`]): a write of the object
//!   does not change its status, a write of the status changes nothing else. In a type that was registered without it, the
//!   status is a field; the status of a type that was not registered can be written in both ways;
//! - watches, from a version on or with initial events and their bookmark; logs of pods ([`ApiServer::set_log`]);
//! - discovery of the types that a test registers ([`ApiServer::serve`]), and 404 for groups that it removes
//!   ([`ApiServer::without`]). Objects of types that were not registered are served too, but discovery does not list them;
//! - events: their reasons are kept ([`ApiServer::events`]), the objects are not.
//!
//! It does not implement: schemas and defaults, field managers, deletion of dependents, grace periods, limits on names and
//! sizes, other subresources, `deletecollection`, dry runs of anything but creations, expired resource versions.
//!
//! A test changes the behaviour of the server in one of these ways:
//! - [`ApiServer::fail`] makes the next, the nth or every request that [`Requests`] selects fail, with a code:
//!   `server.fail(Requests::new(Verb::List, "/api/v1/pods"), When::Nth(2), 503)`;
//! - [`ApiServer::answer`] gets every request first, and may answer it or change objects before the server answers;
//! - [`ApiServer::on_write`] acts as a controller of the cluster: it is called for every object that was created, changed
//!   or deleted;
//! - [`ApiServer::after`] gets every request with the code of its answer;
//! - [`ApiServer::put`], [`ApiServer::change`], [`ApiServer::edit`] and [`ApiServer::remove`] change objects without a
//!   request; watches report these changes.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // tests end by panicking

mod answers;
mod discovery;
mod failures;
mod patches;
mod request;
mod selectors;
mod store;
#[cfg(test)]
mod tests;
mod watches;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use kube::Client;
use lifeboat_cluster::testing::{Asked, Reply, client_of, merge};
use lifeboat_web::Metrics;
use serde_json::Value;

use crate::{Clock, Core, locked};
use discovery::Types;
use failures::Failures;
use request::Request;
use store::Store;

pub use discovery::ServedType;
pub use failures::{Requests, When};
pub use request::Verb;

/// How a request changed an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Created,
    Changed,
    Deleted,
}

/// A request that was carried out and changed an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub kind: WriteKind,
    /// The path of the object.
    pub path: String,
    /// The part of the object that was written, such as `status`.
    pub subresource: Option<String>,
}

type Answer = Arc<dyn Fn(&ApiServer, &Asked) -> Option<(u16, Value)> + Send + Sync>;
type WriteHook = Arc<dyn Fn(&ApiServer, &Write) + Send + Sync>;
type RequestHook = Arc<dyn Fn(&ApiServer, &Asked, u16) + Send + Sync>;

/// The server. Clones share it.
#[derive(Clone, Default)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    hooks: Arc<Mutex<Hooks>>,
}

#[derive(Default)]
struct State {
    store: Store,
    types: Types,
    failures: Failures,
    /// Logs of pods, by the pod's path.
    logs: BTreeMap<String, String>,
    requests: Vec<Asked>,
    written: Vec<Write>,
    events: Vec<String>,
}

#[derive(Default)]
struct Hooks {
    answers: Vec<Answer>,
    on_write: Vec<WriteHook>,
    after: Vec<RequestHook>,
}

impl ApiServer {
    /// A client of this server, which runs until the test's runtime ends.
    pub async fn client(&self) -> Client {
        let server = self.clone();
        client_of(move |asked| server.respond(&asked)).await
    }

    /// A core whose client uses this server; Lifeboat's namespace is `lifeboat`.
    pub async fn core(&self) -> Core {
        Core::new(self.client().await, Metrics::new("0"), "lifeboat", "me")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Stores an object at a path. Name, namespace, UID (`uid-NAME`), creation time and generation are filled in if they
    /// are missing. At a path that is not an object's, such as `/apis/GROUP`, the value is served unchanged.
    pub fn put(&self, path: &str, object: Value) {
        self.state().store.put(path, object);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.state().store.get(path).cloned()
    }

    /// Merges `with` into an existing object.
    pub fn change(&self, path: &str, with: &Value) {
        self.edit(path, |object| merge(object, with));
    }

    /// Changes an existing object. `change` must not call the server.
    pub fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let object = state.store.get(path).cloned();
        assert!(object.is_some(), "there is no {path}");
        let mut object = object.unwrap_or_default();
        change(&mut object);
        state.store.update(path, object, false);
    }

    /// Removes an object, even if it has finalizers. None if it does not exist.
    pub fn remove(&self, path: &str) -> Option<Value> {
        self.state().store.remove(path)
    }

    /// The paths of all objects that contain `part`.
    pub fn paths(&self, part: &str) -> Vec<String> {
        self.state().store.paths().filter(|path| path.contains(part)).map(str::to_owned).collect()
    }

    /// Sets the log of the pod at a path.
    pub fn set_log(&self, pod: &str, text: &str) {
        self.state().logs.insert(pod.to_owned(), text.to_owned());
    }

    /// Sets the clock for creation times; by default the system's clock is used.
    pub fn set_clock(&self, clock: Clock) {
        self.state().store.clock = clock;
    }

    /// Adds types to discovery. The first version of a group is the preferred one.
    pub fn serve(&self, types: impl IntoIterator<Item = ServedType>) {
        let mut state = self.state();
        types.into_iter().for_each(|served| state.types.add(served));
    }

    /// Removes this group from the cluster, until [`Self::serve`] adds one of its types.
    pub fn without(&self, group: &str) {
        self.state().types.remove_group(group);
    }

    /// Makes requests fail with a code.
    pub fn fail(&self, requests: Requests, when: When, code: u16) {
        self.state().failures.add(requests, when, code);
    }

    /// Removes all rules of [`Self::fail`].
    pub fn heal(&self) {
        self.state().failures.clear();
    }

    /// Ends all watches; clients open them again.
    pub fn end_watches(&self) {
        self.state().store.watches.close();
    }

    /// Adds a function that may answer requests in place of the server; None leaves the request to the server. Functions
    /// that were added later are called first.
    pub fn answer(&self, answer: impl Fn(&Self, &Asked) -> Option<(u16, Value)> + Send + Sync + 'static) {
        locked(&self.hooks).answers.insert(0, Arc::new(answer));
    }

    /// `hook` is called after every request that created, changed or deleted an object, before its answer is sent.
    pub fn on_write(&self, hook: impl Fn(&Self, &Write) + Send + Sync + 'static) {
        locked(&self.hooks).on_write.push(Arc::new(hook));
    }

    /// `hook` is called after every request, before its answer is sent, with the code of the answer.
    pub fn after(&self, hook: impl Fn(&Self, &Asked, u16) + Send + Sync + 'static) {
        locked(&self.hooks).after.push(Arc::new(hook));
    }

    /// Carries out a request as if a client had sent it. For functions of [`Self::answer`] that drop the server's response.
    pub fn carry_out(&self, asked: &Asked) -> (u16, Value) {
        match self.perform(asked) {
            Reply::Whole(code, body) => (code, body),
            Reply::Lines(_) => (200, Value::Null),
        }
    }

    /// The reasons of all events, and of those that were reported again.
    pub fn events(&self) -> Vec<String> {
        self.state().events.clone()
    }

    /// The requests received so far that `which` selects, in order.
    pub fn requests(&self, which: &Requests) -> Vec<Asked> {
        self.state().requests.iter().filter(|asked| which.includes(asked)).cloned().collect()
    }

    /// Method and path of every request that was not a read and not about an event, in order.
    pub fn writes(&self) -> Vec<String> {
        let state = self.state();
        let writes = state.requests.iter().filter(|asked| asked.method != "GET" && !is_event(asked));
        writes.map(|asked| format!("{} {}", asked.method, asked.path)).collect()
    }

    /// Every change of an object by a request, in order.
    pub fn written(&self) -> Vec<Write> {
        self.state().written.clone()
    }

    /// The paths of all objects that requests created, in order.
    pub fn created(&self) -> Vec<String> {
        let written = self.written().into_iter();
        written.filter(|write| write.kind == WriteKind::Created).map(|write| write.path).collect()
    }

    fn respond(&self, asked: &Asked) -> Reply {
        self.state().requests.push(asked.clone());
        let reply = self.reply(asked);
        let code = match &reply {
            Reply::Whole(code, _) => *code,
            Reply::Lines(_) => 200,
        };
        let hooks = locked(&self.hooks).after.clone();
        for hook in hooks {
            hook(self, asked, code);
        }
        reply
    }

    fn reply(&self, asked: &Asked) -> Reply {
        if asked.method != "GET" && is_event(asked) {
            let reason = asked.body["reason"].as_str().unwrap_or_default().to_owned();
            self.state().events.push(reason);
            return Reply::Whole(201, asked.body.clone());
        }
        // Hooks may call the server: no lock is held while they run.
        let answers = locked(&self.hooks).answers.clone();
        if let Some((code, body)) = answers.iter().find_map(|answer| answer(self, asked)) {
            return Reply::Whole(code, body);
        }
        self.perform(asked)
    }

    /// Carries out the request, unless a rule of [`Self::fail`] applies to it.
    fn perform(&self, asked: &Asked) -> Reply {
        let (reply, write) = {
            let mut state = self.state();
            if let Some((code, body)) = state.failures.of(asked) {
                return Reply::Whole(code, body);
            }
            let (reply, write) = answers::answer(&mut state, &Request::new(asked));
            state.written.extend(write.clone());
            (reply, write)
        };
        if let Some(write) = write {
            let hooks = locked(&self.hooks).on_write.clone();
            for hook in hooks {
                hook(self, &write);
            }
        }
        reply
    }
}

fn is_event(asked: &Asked) -> bool {
    request::ObjectPath::parse(&asked.path).is_some_and(|place| place.plural == "events")
}
