//! Selecting snapshots as restic does: by id, prefix of an id, `latest`, and filters by host, path and tag.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{Filter, FoundSnapshot, Selection, Selector, TagList};

use super::settings::Settings;
use crate::error::CliError;

/// The filters of a command that takes one snapshot; they apply to `latest`.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct FilterArgs {
    /// Only snapshots of this host; can be repeated; "" for any (default: $RESTIC_HOST)
    #[arg(short = 'H', long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) others: TagAndPathArgs,
}

/// The filters without --host, for commands in which -H has another meaning.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct TagAndPathArgs {
    /// Only snapshots with all of these tags; if repeated, one of the lists must match
    #[arg(long = "tag", value_name = "TAG[,TAG…]")]
    pub(crate) tags: Vec<TagList>,
    /// Only snapshots with this absolute path; if repeated, all must match
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
}

impl FilterArgs {
    pub(crate) fn resolve(&self, settings: &Settings) -> Filter {
        filter(&self.hosts, &self.others, settings)
    }
}

pub(crate) fn filter(hosts: &[String], others: &TagAndPathArgs, settings: &Settings) -> Filter {
    let hosts = match hosts {
        [] => settings.variable("RESTIC_HOST").map(str::to_owned).into_iter().collect(),
        [any] if any.is_empty() => Vec::new(),
        given => given.to_vec(),
    };
    let paths = others.paths.iter().map(|path| clean(path)).collect();
    Filter { hosts, tags: others.tags.iter().cloned().collect(), paths, not_after: None }
}

/// Normalizes an absolute path: `/srv//data/` becomes `/srv/data`.
pub(crate) fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Parses `SNAPSHOT:FOLDER`; the folder need not be UTF-8.
pub(crate) fn selection() -> impl TypedValueParser<Value = Selection> {
    OsStringValueParser::new().try_map(|text: OsString| Selection::parse(&text))
}

/// The selected snapshot, and the folder named after the colon.
pub(crate) async fn one(
    repository: &Repository,
    selection: &Selection,
    filter: &Filter,
) -> Result<(FoundSnapshot, Option<PathBuf>), CliError> {
    let found = match &selection.snapshot {
        // A full id is loaded directly, because the list of snapshots may contain damaged ones.
        Selector::Id(id) => (*id, repository.load_snapshot(*id).await?),
        selector => repository.load_readable_snapshots().await?.find(selector, filter)?.clone(),
    };
    Ok((found, selection.subfolder.clone()))
}

/// The named snapshots, or all that match the filter; oldest first.
pub(crate) async fn many(
    repository: &Repository,
    selectors: &[Selector],
    filter: &Filter,
) -> Result<Vec<FoundSnapshot>, CliError> {
    let all = repository.load_readable_snapshots().await?;
    Ok(all.find_all(selectors, filter)?.into_iter().cloned().collect())
}

/// Like `many`, for commands that look for damage. Without names the result includes all damaged snapshots, because a
/// filter cannot be applied to them.
pub(crate) async fn many_and_damaged(
    repository: &Repository,
    selectors: &[Selector],
    filter: &Filter,
) -> Result<Vec<SnapshotId>, CliError> {
    let all = repository.load_readable_snapshots().await?;
    if !selectors.is_empty() {
        return Ok(all.named(selectors, filter)?);
    }
    let whole = all.find_all(&[], filter)?.into_iter().map(|(id, _)| *id);
    Ok(whole.chain(all.damaged.iter().map(|damaged| damaged.id)).collect())
}

/// Like `many`, for commands that can repair or remove damaged snapshots.
pub(crate) async fn many_or_damaged(
    repository: &Repository,
    selectors: &[Selector],
    filter: &Filter,
) -> Result<Vec<SnapshotId>, CliError> {
    Ok(repository.load_readable_snapshots().await?.named(selectors, filter)?)
}

/// Like `many`, but a name without a snapshot is reported and skipped. restic does this in commands that read or add:
/// scripts may name snapshots that were forgotten in the meantime.
pub(crate) async fn known(
    repository: &Repository,
    names: &[String],
    filter: &Filter,
) -> Result<Vec<FoundSnapshot>, CliError> {
    if names.is_empty() {
        return many(repository, &[], filter).await;
    }
    let all = repository.load_readable_snapshots().await?;
    let mut found: Vec<FoundSnapshot> = Vec::new();
    for name in names {
        let chosen = name.parse::<Selector>().and_then(|selector| all.find(&selector, filter).cloned());
        match chosen {
            Ok(one) if found.iter().any(|(id, _)| *id == one.0) => {}
            Ok(one) => found.push(one),
            Err(error) => message!("ignoring '{name}': {error}"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_filters_are_spelt_as_snapshots_spell_them() {
        assert_eq!(clean("/srv//data/./x/../"), "/srv/data");
        assert_eq!(clean("/"), "/");
    }
}
