//! The objects of the server, by their full path, with versions, UIDs, times and generations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::ObjectPath;
use super::watches::{Change, Watches};
use crate::Clock;

#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<String, Value>,
    version: u64,
    pub(super) clock: Clock,
    pub(super) watches: Watches,
}

impl Store {
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.objects.get(path)
    }

    /// The version of the last change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// The objects of a list with their paths: in one namespace, or in all.
    pub(super) fn below(&self, list: &ObjectPath) -> impl Iterator<Item = (&str, &Value)> {
        let begin = match &list.namespace {
            Some(_) => list.list(),
            None => list.list().trim_end_matches(&list.plural).to_owned(),
        };
        let end = begin.clone();
        let near = self.objects.range(begin..).take_while(move |(path, _)| path.starts_with(&end));
        near.filter(move |(path, _)| list.lists(path)).map(|(path, object)| (path.as_str(), object))
    }

    /// Stores an object of a test. Metadata that a real object would have is filled in.
    pub(super) fn put(&mut self, path: &str, mut object: Value) {
        let Some(place) = ObjectPath::parse(path) else {
            self.objects.insert(path.to_owned(), object);
            return;
        };
        let name = place.name.clone().unwrap_or_default();
        let mut filled = vec![
            ("name", json!(name)),
            ("uid", json!(format!("uid-{name}"))),
            ("creationTimestamp", self.now()),
            ("generation", json!(1)),
        ];
        filled.extend(place.namespace.map(|namespace| ("namespace", json!(namespace))));
        for (field, value) in filled {
            if object["metadata"][field].is_null() {
                object["metadata"][field] = value;
            }
        }
        self.insert(path, object);
    }

    /// Creates an object; UID, creation time and generation are set by the server, whatever the client sends.
    pub(super) fn create(&mut self, place: &ObjectPath, mut object: Value) -> Value {
        let name = place.name.as_deref().unwrap_or_default();
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("uid-{name}-{}", self.version + 1));
        metadata["creationTimestamp"] = self.now();
        metadata["generation"] = json!(1);
        metadata["name"] = json!(name);
        if let Some(namespace) = &place.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata.as_object_mut().unwrap().remove("deletionTimestamp");
        self.insert(&place.object(), object)
    }

    /// Replaces an existing object. A change of the spec increments the generation, and so does a change of the status if
    /// `status_counts` is true.
    pub(super) fn update(&mut self, path: &str, mut object: Value, status_counts: bool) -> Value {
        if let Some(before) = self.objects.get(path) {
            let known = before["metadata"]["generation"].as_i64().unwrap_or_default();
            if object["metadata"]["generation"] == before["metadata"]["generation"]
                && content(before, status_counts) != content(&object, status_counts)
            {
                object["metadata"]["generation"] = json!(known + 1);
            }
        }
        self.insert(path, object)
    }

    fn insert(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let before = self.objects.insert(path.to_owned(), object.clone());
        let after = Some(object.clone());
        self.watches.report(Change { version: self.version, path: path.to_owned(), before, after });
        object
    }

    pub(super) fn remove(&mut self, path: &str) -> Option<Value> {
        let gone = self.objects.remove(path)?;
        self.version += 1;
        let before = Some(gone.clone());
        self.watches.report(Change { version: self.version, path: path.to_owned(), before, after: None });
        Some(gone)
    }

    /// The current time in whole seconds, as in timestamps of objects.
    pub(super) fn now(&self) -> Value {
        let now = Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default();
        json!(now.to_string())
    }
}

/// The part of an object whose changes increment the generation.
fn content(object: &Value, status_counts: bool) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("metadata");
        if !status_counts {
            fields.remove("status");
        }
    }
    content
}
