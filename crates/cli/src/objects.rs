//! What the commands on backups, restores and schedules share: finding objects by name or label, and errors that say which
//! there are.

pub(crate) mod ask;
pub(crate) mod cancel;
pub(crate) mod flags;
pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod logs;
pub(crate) mod remove;
pub(crate) mod results;
pub(crate) mod show;
pub(crate) mod volumes;

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

/// Which objects a command is for.
#[derive(clap::Args)]
pub(crate) struct Selection {
    /// Names
    #[arg(required_unless_present_any = ["all", "selector"])]
    pub(crate) names: Vec<String>,
    /// All objects
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// All objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    pub(crate) selector: Option<String>,
}

/// Why an object of the user's was not made; where its name is taken, what to do. `noun` is the command: `backup`.
pub(crate) fn refusal(error: lifeboat_cluster::ApiError, noun: &str, name: &str) -> CliError {
    let exists = error.is_conflict();
    let error = CliError::from(error);
    if exists {
        return error
            .help(format!("choose another name, or delete it first with `lifeboat {noun} delete {name}`"));
    }
    error
}

#[cfg(test)]
pub(crate) mod tests;
