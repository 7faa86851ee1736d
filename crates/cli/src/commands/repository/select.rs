//! Which snapshots a command is about: ids, prefixes, `latest`, and filters by host, path and tag, as restic has them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshots::{Filter, Found, Selection, Selector, TagList};

use super::settings::Settings;
use crate::error::CliError;

/// The filters of a command that takes one snapshot: they count for `latest`.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct FilterArgs {
    /// Only snapshots of this host; can be repeated; "" for any (default: $RESTIC_HOST)
    #[arg(short = 'H', long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) others: TagAndPathArgs,
}

/// The filters without a short form of --host, where -H means something else.
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

/// An absolute path without what does not change it: `/srv//data/` is `/srv/data`.
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

/// Reads `SNAPSHOT:FOLDER`; the folder need not be text.
pub(crate) fn selection() -> impl TypedValueParser<Value = Selection> {
    OsStringValueParser::new().try_map(|text: OsString| Selection::parse(&text))
}

/// One snapshot, and the folder of it that was named after a colon.
pub(crate) async fn one(
    repository: &Repository,
    selection: &Selection,
    filter: &Filter,
) -> Result<(Found, Option<PathBuf>), CliError> {
    let found = match &selection.snapshot {
        // A snapshot that is named whole can be read although others are damaged.
        Selector::Id(id) => (*id, repository.load_snapshot(*id).await?),
        selector => repository.load_readable_snapshots().await?.find(selector, filter)?.clone(),
    };
    Ok((found, selection.subfolder.clone()))
}

/// Those that are named, or all that the filter lets through; oldest first.
pub(crate) async fn many(
    repository: &Repository,
    selectors: &[Selector],
    filter: &Filter,
) -> Result<Vec<Found>, CliError> {
    let all = repository.load_readable_snapshots().await?;
    Ok(all.find_all(selectors, filter)?.into_iter().cloned().collect())
}

/// As `many`, for a command that looks for damage: without names all that are damaged are among them, because nobody
/// knows whether the filter would let them through.
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

/// As `many`, for a command that can repair or remove snapshots that are damaged.
pub(crate) async fn many_or_damaged(
    repository: &Repository,
    selectors: &[Selector],
    filter: &Filter,
) -> Result<Vec<SnapshotId>, CliError> {
    Ok(repository.load_readable_snapshots().await?.named(selectors, filter)?)
}

/// The same, but what names no snapshot is told and left out, as restic does it in commands that look or add: scripts
/// name snapshots that a forget may have removed meanwhile.
pub(crate) async fn known(
    repository: &Repository,
    names: &[String],
    filter: &Filter,
) -> Result<Vec<Found>, CliError> {
    if names.is_empty() {
        return many(repository, &[], filter).await;
    }
    let all = repository.load_readable_snapshots().await?;
    let mut found: Vec<Found> = Vec::new();
    for name in names {
        let chosen = name.parse::<Selector>().and_then(|selector| all.find(&selector, filter).cloned());
        match chosen {
            Ok(one) if found.iter().any(|(id, _)| *id == one.0) => {}
            Ok(one) => found.push(one),
            Err(error) => tell!("ignoring '{name}': {error}"),
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
