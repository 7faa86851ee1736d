//! Watches: send the changes since a version, and all later changes.

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::request::ObjectPath;
use super::selectors::Selectors;

/// One change of an object.
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) path: String,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// The changes so far, and the open watches, which receive further changes.
#[derive(Default)]
pub(super) struct Watches {
    history: Vec<Change>,
    open: Vec<Watch>,
}

struct Watch {
    list: ObjectPath,
    selectors: Selectors,
    sender: UnboundedSender<Value>,
}

impl Watches {
    pub(super) fn report(&mut self, change: Change) {
        // Watches whose client has disconnected are removed.
        self.open.retain(|watch| watch.report(&change));
        self.history.push(change);
    }

    /// Opens a watch that sends these events first, and then all changes after a version.
    pub(super) fn open(
        &mut self,
        list: &ObjectPath,
        selectors: &Selectors,
        first: Vec<Value>,
        version: u64,
    ) -> UnboundedReceiver<Value> {
        let (sender, receiver) = unbounded_channel();
        let watch = Watch { list: list.clone(), selectors: selectors.clone(), sender };
        for event in first {
            let _ = watch.sender.send(event);
        }
        for change in self.history.iter().filter(|change| change.version > version) {
            watch.report(change);
        }
        self.open.push(watch);
        receiver
    }

    pub(super) fn close(&mut self) {
        self.open.clear();
    }
}

impl Watch {
    /// Sends the change if the watch selects it; false if the client has disconnected.
    fn report(&self, change: &Change) -> bool {
        if !self.list.lists(&change.path) {
            return !self.sender.is_closed();
        }
        let selected =
            |object: &Option<Value>| object.as_ref().is_some_and(|object| self.selectors.select(object));
        let kind = match (selected(&change.before), selected(&change.after)) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return !self.sender.is_closed(),
        };
        let mut object = change.after.clone().or_else(|| change.before.clone()).unwrap_or_default();
        object["metadata"]["resourceVersion"] = json!(change.version.to_string());
        self.sender.send(event(kind, &object)).is_ok()
    }
}

pub(super) fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

/// The bookmark after the initial events of a watch.
pub(super) fn end_of_initial_events(list: &ObjectPath, version: u64) -> Value {
    let group = if list.group.is_empty() { String::new() } else { format!("{}/", list.group) };
    let metadata = json!({"resourceVersion": version.to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"}});
    let object = json!({"apiVersion": format!("{group}{}", list.version), "kind": "", "metadata": metadata});
    event("BOOKMARK", &object)
}
