//! Follows the transfer objects of one backup or restore, such as PodVolumeBackups, until they have ended. A watch
//! shows changes at once; a periodic list finds what a broken watch missed. Used by the pass of a backup and by
//! restores.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_control::locked;
use lifeboat_plan::velero::pod_volumes::has_ended;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout_at};

use crate::dynamic;

/// How often the objects are listed beside the watch.
const PACE: Duration = Duration::from_secs(30);

/// The followed objects; shared by the tasks that wait for them and the task that runs [`Self::run`].
pub(crate) struct FollowedTransfers {
    pub(crate) api: Api<DynamicObject>,
    /// The message for an object that is deleted before its end: it has failed.
    deleted: &'static str,
    pub(crate) pace: Duration,
    /// By name, as they were last seen.
    seen: Mutex<BTreeMap<String, Value>>,
    changed: Notify,
}

/// A list of the watch that is being received.
#[derive(Default)]
struct Listing {
    /// Objects that were open before the list was requested: one that is missing in it is gone.
    open: Vec<String>,
    found: Vec<DynamicObject>,
}

impl FollowedTransfers {
    pub(crate) fn new(api: Api<DynamicObject>, deleted: &'static str) -> Self {
        Self { api, deleted, pace: PACE, seen: Mutex::default(), changed: Notify::new() }
    }

    /// Follows an object from now on. `null` if nothing is known about it yet.
    pub(crate) fn add(&self, name: &str, object: Value) {
        locked(&self.seen).insert(name.to_owned(), object);
        self.changed.notify_waiters();
    }

    /// Changes the state of an object as it was last seen.
    pub(crate) fn update(&self, name: &str, change: impl FnOnce(&mut Value)) {
        if let Some(object) = locked(&self.seen).get_mut(name) {
            change(object);
        }
    }

    /// All objects, as they were last seen.
    pub(crate) fn objects(&self) -> BTreeMap<String, Value> {
        locked(&self.seen).clone()
    }

    /// The names of the objects that match.
    pub(crate) fn names(&self, fits: impl Fn(&Value) -> bool) -> Vec<String> {
        locked(&self.seen).iter().filter(|(_, one)| fits(one)).map(|(name, _)| name.clone()).collect()
    }

    /// The names of the objects that have not ended.
    pub(crate) fn open(&self) -> Vec<String> {
        self.names(|object| !has_ended(object))
    }

    /// Waits until all of these have ended, or `until`. `on_end` gets each one as soon as its end is seen.
    pub(crate) async fn ended(&self, names: &[String], until: Instant, mut on_end: impl FnMut(&str, &Value)) {
        let mut open: BTreeSet<&String> = names.iter().collect();
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let known = |name: &String| locked(&self.seen).get(name).cloned();
            open.retain(|name| match known(name) {
                Some(object) if has_ended(&object) => {
                    on_end(name, &object);
                    false
                }
                other => other.is_some(),
            });
            if open.is_empty() || timeout_at(until, changed).await.is_err() {
                return;
            }
        }
    }

    /// Keeps the state of the objects up to date, until dropped. While all have ended, no requests are sent.
    pub(crate) async fn run(&self, selector: &str) -> Infallible {
        loop {
            self.any_open().await;
            self.follow(selector).await;
        }
    }

    async fn any_open(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.open().is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Follows the objects until all have ended.
    async fn follow(&self, selector: &str) {
        let config = dynamic::watching().labels(selector);
        let mut events = watcher(self.api.clone(), config).default_backoff().boxed();
        let mut looks = interval_at(Instant::now() + self.pace, self.pace);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut listing = Listing::default();
        while !self.open().is_empty() {
            tokio::select! {
                Some(event) = events.next() => self.take(event, &mut listing),
                _ = looks.tick() => self.poll(selector).await,
            }
            self.changed.notify_waiters();
        }
    }

    fn take(&self, event: Result<Event<DynamicObject>, watcher::Error>, listing: &mut Listing) {
        match event {
            Ok(Event::Init) => *listing = Listing { open: self.open(), found: Vec::new() },
            Ok(Event::InitApply(object)) => listing.found.push(object),
            Ok(Event::InitDone) => self.take_list(listing),
            Ok(Event::Apply(object)) => self.show(&object),
            Ok(Event::Delete(object)) => self.miss(&object.name_any()),
            // The next list finds what the watch misses.
            Err(error) => tracing::debug!(%error, "the watch of transfers failed; trying again"),
        }
    }

    async fn poll(&self, selector: &str) {
        let open = self.open();
        match self.api.list(&ListParams::default().labels(selector)).await.attempt("list transfers") {
            Ok(listed) => self.take_list(&Listing { open, found: listed.items }),
            Err(error) => tracing::debug!(error = error.chain(), "cannot list transfers"),
        }
    }

    fn take_list(&self, listing: &Listing) {
        for object in &listing.found {
            self.show(object);
        }
        let found: BTreeSet<String> = listing.found.iter().map(ResourceExt::name_any).collect();
        for name in listing.open.iter().filter(|name| !found.contains(*name)) {
            self.miss(name);
        }
    }

    /// Stores what was seen of an object. An end is final, because a watch may show older state than the last list.
    fn show(&self, object: &DynamicObject) {
        let shown = objects::to_json(object);
        self.update(&object.name_any(), |known| {
            if has_ended(&shown) || !has_ended(known) {
                *known = shown;
            }
        });
    }

    /// Marks an object that is gone as failed, unless it had ended.
    fn miss(&self, name: &str) {
        let message = self.deleted;
        self.update(name, |known| {
            if !has_ended(known) {
                tracing::warn!(object = name, "{message}");
                known["status"] = json!({"phase": "Failed", "message": message});
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::velero::PodVolumeBackup;
    use lifeboat_cluster::testing::failure;
    use lifeboat_control::testing::{ApiServer, Requests, Verb};

    use super::*;

    const PATH: &str = "/apis/velero.io/v1/namespaces/lifeboat/podvolumebackups/one";
    const SELECTOR: &str = "velero.io/backup-uid=u";

    fn object(phase: &str) -> Value {
        json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "status": {"phase": phase},
            "metadata": {"name": "one", "namespace": "lifeboat", "resourceVersion": "9",
                "labels": {"velero.io/backup-uid": "u"}}})
    }

    /// Follows the object `one` of the server to its end. Returns its phase and message.
    async fn followed(server: &ApiServer, pace: Duration) -> (String, String) {
        let resource = objects::resource_of::<PodVolumeBackup>();
        let api = objects::namespaced(&server.client().await, "lifeboat", &resource);
        let followed = FollowedTransfers { pace, ..FollowedTransfers::new(api, "it was deleted") };
        followed.add("one", Value::Null);
        let (mut end, names) = (Value::Null, ["one".to_owned()]);
        let until = Instant::now() + Duration::from_secs(30);
        tokio::select! {
            () = followed.ended(&names, until, |_, object| end = object.clone()) => {}
            never = followed.run(SELECTOR) => match never {},
        }
        let text = |field: &str| end["status"][field].as_str().unwrap_or_default().to_owned();
        (text("phase"), text("message"))
    }

    /// A server with a new object, to which something happens as soon as it is watched.
    fn server(happens: fn(&ApiServer)) -> ApiServer {
        let server = ApiServer::default();
        server.put(PATH, object("New"));
        server.after(move |server, asked, _| {
            if Requests::new(Verb::Watch, "*").includes(asked) {
                happens(server);
            }
        });
        server
    }

    #[tokio::test]
    async fn the_end_of_a_transfer_is_seen_by_the_watch() {
        let server = server(|server| server.change(PATH, &json!({"status": {"phase": "Completed"}})));
        let ended = followed(&server, Duration::from_hours(1)).await;
        assert_eq!(ended, ("Completed".to_owned(), String::new()));
    }

    #[tokio::test]
    async fn a_transfer_that_is_deleted_has_failed() {
        let server = server(|server| {
            server.remove(PATH);
        });
        let ended = followed(&server, Duration::from_hours(1)).await;
        assert_eq!(ended, ("Failed".to_owned(), "it was deleted".to_owned()));
    }

    #[tokio::test]
    async fn a_transfer_that_was_gone_before_the_watch_began_has_failed() {
        let ended = followed(&ApiServer::default(), Duration::from_hours(1)).await;
        assert_eq!(ended, ("Failed".to_owned(), "it was deleted".to_owned()));
    }

    #[tokio::test]
    async fn a_look_finds_what_a_broken_watch_missed() {
        let server = ApiServer::default();
        server.put(PATH, object("New"));
        server.answer(|server, asked| {
            asked.query.contains("watch=").then(|| {
                server.change(PATH, &json!({"status": {"phase": "Completed"}}));
                failure(500, "NoWatch")
            })
        });
        let ended = followed(&server, Duration::from_millis(5)).await;
        assert_eq!(ended, ("Completed".to_owned(), String::new()));
    }
}
