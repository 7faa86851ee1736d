//! `NAME-results.gz`: warnings and errors, by the scope that they belong to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The warnings and errors of a backup or a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    pub errors: MessageList,
    pub warnings: MessageList,
}

/// Messages, grouped by what they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageList {
    /// About the server, the location, the archive.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub velero: Vec<String>,
    /// About cluster-scoped items.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub cluster: Vec<String>,
    /// About the items of each namespace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub namespaces: BTreeMap<String, Vec<String>>,
}

impl MessageList {
    /// Adds a message about an item: in a namespace, or cluster-scoped.
    pub fn add(&mut self, namespace: Option<&str>, message: impl Into<String>) {
        match namespace {
            Some(namespace) => self.namespaces.entry(namespace.to_owned()).or_default().push(message.into()),
            None => self.cluster.push(message.into()),
        }
    }

    pub fn count(&self) -> usize {
        self.velero.len() + self.cluster.len() + self.namespaces.values().map(Vec::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// All messages, each with its namespace.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let general = self.velero.iter().chain(&self.cluster).map(|message| (None, message.as_str()));
        general.chain(self.namespaces.iter().flat_map(|(namespace, messages)| {
            messages.iter().map(|message| (Some(namespace.as_str()), message.as_str()))
        }))
    }

    /// Appends the messages of another list.
    pub fn merge(&mut self, other: MessageList) {
        self.velero.extend(other.velero);
        self.cluster.extend(other.cluster);
        for (namespace, messages) in other.namespaces {
            self.namespaces.entry(namespace).or_default().extend(messages);
        }
    }
}

fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
