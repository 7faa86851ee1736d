//! The kinds under their names on the command line: finding objects by name or label, with errors that list the
//! existing ones, and reading their fields. Used by all commands that work with objects of the cluster.

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use lifeboat_api::repositories::Snapshot;
use lifeboat_api::stash::{
    BackupBatch, BackupConfiguration, BackupSession, Repository, RestoreBatch, RestoreSession,
};
use lifeboat_api::velero::{
    Backup, BackupRepository, BackupStorageLocation, Restore, Schedule, VolumeSnapshotLocation,
};
use lifeboat_cluster::{Attempt, objects};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::CliError;

/// A kind under its name on the command line.
#[derive(Clone, Copy)]
pub(crate) struct Noun {
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    resource: fn() -> ApiResource,
}

pub(crate) const BACKUP: Noun =
    Noun { one: "backup", many: "backups", resource: objects::resource_of::<Backup> };
pub(crate) const RESTORE: Noun =
    Noun { one: "restore", many: "restores", resource: objects::resource_of::<Restore> };
pub(crate) const SCHEDULE: Noun =
    Noun { one: "schedule", many: "schedules", resource: objects::resource_of::<Schedule> };
pub(crate) const LOCATION: Noun = Noun {
    one: "backup location",
    many: "backup locations",
    resource: objects::resource_of::<BackupStorageLocation>,
};
pub(crate) const SNAPSHOT_LOCATION: Noun = Noun {
    one: "volume snapshot location",
    many: "volume snapshot locations",
    resource: objects::resource_of::<VolumeSnapshotLocation>,
};
pub(crate) const REPOSITORY: Noun = Noun {
    one: "repository of volume data",
    many: "repositories of volume data",
    resource: objects::resource_of::<BackupRepository>,
};

/// Kinds of Stash's API. Their names are those of the kinds, because users write them in manifests.
pub(crate) const BACKUP_CONFIGURATION: Noun = Noun {
    one: "BackupConfiguration",
    many: "BackupConfigurations",
    resource: objects::resource_of::<BackupConfiguration>,
};
pub(crate) const BACKUP_BATCH: Noun =
    Noun { one: "BackupBatch", many: "BackupBatches", resource: objects::resource_of::<BackupBatch> };
pub(crate) const BACKUP_SESSION: Noun =
    Noun { one: "BackupSession", many: "BackupSessions", resource: objects::resource_of::<BackupSession> };
pub(crate) const RESTORE_SESSION: Noun =
    Noun { one: "RestoreSession", many: "RestoreSessions", resource: objects::resource_of::<RestoreSession> };
pub(crate) const RESTORE_BATCH: Noun =
    Noun { one: "RestoreBatch", many: "RestoreBatches", resource: objects::resource_of::<RestoreBatch> };
pub(crate) const STASH_REPOSITORY: Noun =
    Noun { one: "Repository", many: "Repositories", resource: objects::resource_of::<Repository> };
pub(crate) const SNAPSHOT: Noun =
    Noun { one: "Snapshot", many: "Snapshots", resource: objects::resource_of::<Snapshot> };

/// How many existing names an error lists; more would not help to find a typing error.
const NAMED: usize = 10;

impl Noun {
    pub(crate) fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        objects::namespaced(client, namespace, &(self.resource)())
    }

    /// Reads the object by name; the error of a missing one lists the existing ones.
    pub(crate) async fn find(self, api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject, CliError> {
        let found = api.get_opt(name).await.attempt(format!("read {} {name}", self.one))?;
        if let Some(found) = found {
            return Ok(found);
        }
        Err(CliError::not_found(format!("there is no {} {name:?}", self.one))
            .help(self.names(api, name).await?))
    }

    /// A sentence with the existing names, for the error of a missing object.
    pub(crate) async fn names(self, api: &Api<DynamicObject>, wanted: &str) -> Result<String, CliError> {
        let names = self.listed(api, None).await?.iter().map(ResourceExt::name_any).collect();
        Ok(self.existing_names(wanted, names))
    }

    /// The objects with these labels, or all, sorted by name.
    pub(crate) async fn listed(
        self,
        api: &Api<DynamicObject>,
        selector: Option<&str>,
    ) -> Result<Vec<DynamicObject>, CliError> {
        let params = selector.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
        let mut found = api.list(&params).await.attempt(format!("list {}", self.many))?.items;
        found.sort_by_key(ResourceExt::name_any);
        Ok(found)
    }

    /// The named objects, or the selected ones. If a name does not exist, nothing is returned but the error.
    pub(crate) async fn chosen(
        self,
        api: &Api<DynamicObject>,
        names: &[String],
        selector: Option<&str>,
    ) -> Result<Vec<DynamicObject>, CliError> {
        if names.is_empty() {
            return self.listed(api, selector).await;
        }
        let mut found: Vec<DynamicObject> = Vec::new();
        for name in names {
            if !found.iter().any(|seen| seen.name_any() == *name) {
                found.push(self.find(api, name).await?);
            }
        }
        Ok(found)
    }

    /// The existing names, beginning with those most similar to `wanted`.
    fn existing_names(self, wanted: &str, mut names: Vec<String>) -> String {
        if names.is_empty() {
            return format!("there are no {}", self.many);
        }
        let alike = |name: &str| name.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
        names.sort_by_key(|name| (std::cmp::Reverse(alike(name)), name.clone()));
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("there are: {}{rest}", names.join(", "))
    }
}

/// Converts an object to its type.
pub(crate) fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, CliError> {
    objects::typed(object)
        .map_err(|error| CliError::failed(format!("cannot read {}", object.name_any()), error))
}

/// Converts a typed object to a dynamic one.
pub(crate) fn dynamic<K: Serialize>(object: &K) -> Result<DynamicObject, CliError> {
    let value = serde_json::to_value(object).and_then(serde_json::from_value);
    value.map_err(|error| CliError::failed("cannot make the object", error))
}

/// The text at this JSON pointer, or an empty string.
pub(crate) fn text(object: &DynamicObject, pointer: &str) -> String {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The number at this JSON pointer, or 0.
pub(crate) fn number(object: &DynamicObject, pointer: &str) -> i64 {
    object.data.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The phase; `New` for an object without one.
pub(crate) fn phase(object: &DynamicObject) -> String {
    let phase = text(object, "/status/phase");
    if phase.is_empty() { "New".to_owned() } else { phase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_there_are_begin_with_those_alike() {
        let names = ["daily-1", "weekly-1", "weekly-2"].map(str::to_owned).to_vec();
        assert_eq!(BACKUP.existing_names("weekly-3", names), "there are: weekly-1, weekly-2, daily-1");
        assert_eq!(RESTORE.existing_names("x", Vec::new()), "there are no restores");
        let many: Vec<_> = (0..15).map(|number| format!("b{number:02}")).collect();
        assert!(BACKUP.existing_names("b", many).ends_with("b09 and 5 more"));
    }
}
