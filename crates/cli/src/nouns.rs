//! Kinds in the words of the command line: finding their objects by name or label, with errors that say which there are,
//! and reading their fields. Used by everything that works with objects of the cluster.

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use lifeboat_api::velero::{
    Backup, BackupRepository, BackupStorageLocation, Restore, Schedule, VolumeSnapshotLocation,
};
use lifeboat_cluster::{Attempt, objects};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::CliError;

/// A kind in the words of the command line.
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

/// More names than this do not help to find a slip of the keyboard.
const NAMED: usize = 10;

impl Noun {
    pub(crate) fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        objects::namespaced(client, namespace, &(self.resource)())
    }

    /// The object by name, or an error that says which there are.
    pub(crate) async fn find(self, api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject, CliError> {
        let found = api.get_opt(name).await.attempt(format!("read {} {name}", self.one))?;
        if let Some(found) = found {
            return Ok(found);
        }
        let names = self.listed(api, None).await?.iter().map(ResourceExt::name_any).collect();
        Err(CliError::not_found(format!("there is no {} {name:?}", self.one))
            .help(self.there_are(name, names)))
    }

    /// The objects with these labels, or all, by name.
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

    /// Those named, or those selected; a name that does not exist is an error before anything has happened.
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

    /// Which there are, those that begin like `wanted` first.
    fn there_are(self, wanted: &str, mut names: Vec<String>) -> String {
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

/// The typed form of an object.
pub(crate) fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, CliError> {
    objects::typed(object)
        .map_err(|error| CliError::failed(format!("cannot read {}", object.name_any()), error))
}

/// The same object without its type.
pub(crate) fn dynamic<K: Serialize>(object: &K) -> Result<DynamicObject, CliError> {
    let value = serde_json::to_value(object).and_then(serde_json::from_value);
    value.map_err(|error| CliError::failed("cannot make the object", error))
}

/// The text at this place of an object, or nothing.
pub(crate) fn text(object: &DynamicObject, pointer: &str) -> String {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The number at this place of an object, or 0.
pub(crate) fn number(object: &DynamicObject, pointer: &str) -> i64 {
    object.data.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The phase; an object without one is new.
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
        assert_eq!(BACKUP.there_are("weekly-3", names), "there are: weekly-1, weekly-2, daily-1");
        assert_eq!(RESTORE.there_are("x", Vec::new()), "there are no restores");
        let many: Vec<_> = (0..15).map(|number| format!("b{number:02}")).collect();
        assert!(BACKUP.there_are("b", many).ends_with("b09 and 5 more"));
    }
}
