//! The types of the server: what discovery lists, and how a type keeps its status.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::ApiResource;
use serde_json::{Value, json};

use super::request::ObjectPath;

const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// A type that discovery lists. By default it is namespaced and has no status subresource.
#[derive(Clone, Debug)]
pub struct ServedType {
    group: String,
    version: String,
    plural: String,
    kind: String,
    namespaced: bool,
    has_status: bool,
    short_names: Vec<String>,
}

impl ServedType {
    /// `api_version` is `v1` or `apps/v1`.
    pub fn new(api_version: &str, plural: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced: true,
            has_status: false,
            short_names: Vec::new(),
        }
    }

    pub fn of(resource: &ApiResource) -> Self {
        Self::new(&resource.api_version, &resource.plural, &resource.kind)
    }

    #[must_use]
    pub fn cluster_scoped(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// Adds a status subresource: writes of the object do not change its status, writes of the status change nothing else.
    #[must_use]
    pub fn with_status(self) -> Self {
        Self { has_status: true, ..self }
    }

    #[must_use]
    pub fn short_name(mut self, name: &str) -> Self {
        self.short_names.push(name.to_owned());
        self
    }

    fn discovered(&self) -> Value {
        json!({
            "resource": self.plural,
            "singularResource": self.kind.to_lowercase(),
            "responseKind": {"group": self.group, "version": self.version, "kind": self.kind},
            "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
            "shortNames": self.short_names,
            "verbs": VERBS,
        })
    }
}

/// How the status of a type is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusKept {
    /// As a subresource, which writes of the object do not change.
    Apart,
    /// As a field like any other.
    Within,
    /// Discovery does not list the type: its status can be written in either way.
    Unknown,
}

/// All types.
#[derive(Default)]
pub(super) struct Types {
    listed: Vec<ServedType>,
    /// Groups that the cluster does not have.
    absent: BTreeSet<String>,
}

impl Types {
    pub(super) fn add(&mut self, served: ServedType) {
        self.absent.remove(&served.group);
        self.listed.push(served);
    }

    pub(super) fn remove_group(&mut self, group: &str) {
        self.listed.retain(|known| known.group != group);
        self.absent.insert(group.to_owned());
    }

    pub(super) fn is_absent(&self, group: &str) -> bool {
        self.absent.contains(group)
    }

    pub(super) fn status_of(&self, place: &ObjectPath) -> StatusKept {
        let same = |known: &&ServedType| known.group == place.group && known.plural == place.plural;
        match self.listed.iter().find(same) {
            Some(known) if known.has_status => StatusKept::Apart,
            Some(_) => StatusKept::Within,
            None => StatusKept::Unknown,
        }
    }

    /// The discovery document of the core group, or of all others. The first version of a group is the preferred one.
    pub(super) fn discovered(&self, core: bool) -> Value {
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for known in self.listed.iter().filter(|known| known.group.is_empty() == core) {
            let versions = groups.entry(&known.group).or_default();
            match versions.iter_mut().find(|version| version["version"] == *known.version) {
                Some(version) => version["resources"].as_array_mut().unwrap().push(known.discovered()),
                None => versions.push(json!({"version": known.version, "resources": [known.discovered()]})),
            }
        }
        let items = groups.into_iter().map(|(name, versions)| {
            let metadata = if core { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        });
        json!({"items": items.collect::<Vec<_>>()})
    }

    /// The document at `/apis/GROUP`; None if the cluster does not have the group.
    pub(super) fn group(&self, group: &str) -> Option<Value> {
        let known = self.listed.iter().find(|known| known.group == group)?;
        let version = json!({"groupVersion": format!("{group}/{}", known.version), "version": known.version});
        Some(json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "preferredVersion": version}))
    }
}

/// The document at `/version`.
pub(super) fn version() -> Value {
    json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
}
