//! `lifeboat stash download REPOSITORY`: restores snapshots to a directory of this machine: the newest of each path of a host, or those that
//! are named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use lifeboat_plan::stash::repository::{INCOMPLETE_TAG, SAFETY_TAG};
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::{Filter, FoundSnapshot, Selection, Selector};

use super::Tenant;
use super::repository::{self, RepositoryArgs, RepositoryToOpen};
use crate::commands::repository::select::clean;
use crate::commands::repository::session::Session;
use crate::commands::repository::{restore, run_in};
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Directory on this machine to restore to; created if missing
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    destination: PathBuf,
    /// Only snapshots of this host; needed if the repository has several
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Paths as they were backed up, each from its newest snapshot [default: all]
    #[arg(long, value_name = "PATH,…", value_delimiter = ',')]
    paths: Vec<String>,
    /// Ids or names of snapshots instead; each of several gets a directory of its own
    #[arg(long, value_name = "SNAPSHOT,…", value_delimiter = ',', conflicts_with = "paths")]
    snapshots: Vec<String>,
}

/// Why no snapshot is restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NothingChosen {
    #[error("the repository has no snapshots{}", of_host(host.as_deref()))]
    Empty { host: Option<String>, hosts: Vec<String> },
    #[error("the repository has snapshots of several hosts, and one directory cannot hold them all")]
    SeveralHosts { hosts: Vec<String> },
    #[error("no snapshot has the path '{path}'")]
    NoPath { path: String, paths: Vec<String> },
}

impl NothingChosen {
    fn help(&self) -> String {
        match self {
            Self::Empty { hosts, .. } if hosts.is_empty() => "it is empty".to_owned(),
            Self::Empty { hosts, .. } => format!("there are snapshots of: {}", hosts.join(", ")),
            Self::SeveralHosts { hosts } => format!("name one with --host: {}", hosts.join(", ")),
            Self::NoPath { paths, .. } => format!("there are: {}", paths.join(", ")),
        }
    }
}

fn of_host(host: Option<&str>) -> String {
    host.map(|host| format!(" of host '{host}'")).unwrap_or_default()
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let named = &args.repository;
    let RepositoryToOpen { session, .. } =
        repository::find(tenant, &named.repository, &named.access, "restore").await?;
    run_in(&session, Box::pin(restore_all(&session, args))).await
}

async fn restore_all(session: &Session, args: &Args) -> Result<(), CliError> {
    let chosen = chosen(session, args).await?;
    let apart = chosen.len() > 1 && !args.snapshots.is_empty();
    for (id, snapshot) in chosen {
        let target = if apart { args.destination.join(id.short()) } else { args.destination.clone() };
        session.say(format!(
            "{} of host {} at {}",
            snapshot.paths.join(", "),
            snapshot.hostname,
            units::moment(&snapshot.time)
        ));
        let selection = Selection { snapshot: Selector::Id(id), subfolder: None };
        restore::run(session, restore::Args::whole(selection, target)).await?;
    }
    Ok(())
}

async fn chosen(session: &Session, args: &Args) -> Result<Vec<FoundSnapshot>, CliError> {
    let repository = session.open().await?;
    let all = session.interruptible(async { Ok(repository.load_readable_snapshots().await?) }).await?;
    if args.snapshots.is_empty() {
        let paths: Vec<String> = args.paths.iter().map(|path| clean(path)).collect();
        return newest(&all.found, args.host.as_deref(), &paths)
            .map_err(|problem| CliError::not_found(problem.to_string()).help(problem.help()));
    }
    let filter = Filter { hosts: args.host.clone().into_iter().collect(), ..Filter::default() };
    let prefix = format!("{}-", args.repository.repository);
    let mut found: Vec<FoundSnapshot> = Vec::new();
    for name in &args.snapshots {
        let selector: Selector = name.strip_prefix(&prefix).unwrap_or(name).parse()?;
        let one = all.find(&selector, &filter)?;
        if !found.iter().any(|(id, _)| *id == one.0) {
            found.push(one.clone());
        }
    }
    Ok(found)
}

/// The newest complete snapshot of each path, or of the paths that are named; oldest first. Safety copies of restores do not count.
fn newest(
    all: &[FoundSnapshot],
    host: Option<&str>,
    paths: &[String],
) -> Result<Vec<FoundSnapshot>, NothingChosen> {
    let counts =
        |snapshot: &Snapshot| !snapshot.tags.iter().any(|tag| tag == SAFETY_TAG || tag == INCOMPLETE_TAG);
    let complete: Vec<&FoundSnapshot> = all.iter().filter(|(_, snapshot)| counts(snapshot)).collect();
    let hosts: BTreeSet<&str> = complete.iter().map(|(_, snapshot)| snapshot.hostname.as_str()).collect();
    let hosts = || hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>();
    if host.is_none() && hosts().len() > 1 {
        return Err(NothingChosen::SeveralHosts { hosts: hosts() });
    }
    let of_host = complete.iter().filter(|(_, snapshot)| host.is_none_or(|host| snapshot.hostname == host));
    let mut newest: BTreeMap<&[String], &FoundSnapshot> = BTreeMap::new();
    for found in of_host {
        let kept = newest.entry(found.1.paths.as_slice()).or_insert(found);
        if found.1.time > kept.1.time {
            *kept = found;
        }
    }
    if newest.is_empty() {
        return Err(NothingChosen::Empty { host: host.map(str::to_owned), hosts: hosts() });
    }
    let existing: BTreeSet<&String> = newest.keys().flat_map(|paths| paths.iter()).collect();
    if let Some(path) = paths.iter().find(|path| !existing.contains(path)) {
        let paths = existing.into_iter().cloned().collect();
        return Err(NothingChosen::NoPath { path: path.clone(), paths });
    }
    let is_wanted = |stored: &[String]| paths.is_empty() || stored.iter().any(|path| paths.contains(path));
    let mut chosen: Vec<FoundSnapshot> =
        newest.into_iter().filter(|(paths, _)| is_wanted(paths)).map(|(_, found)| found.clone()).collect();
    chosen.sort_by(|one, other| one.1.time.cmp(&other.1.time));
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::{back_up, session};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        let line = [&["download", "repo"], line].concat();
        Line::try_parse_from(line).map_err(|error| error.to_string()).unwrap().args
    }

    #[tokio::test]
    async fn files_are_restored_below_their_paths() {
        let session = session().await;
        let first = back_up(&session, "app", "/source/data", "old").await;
        let second = back_up(&session, "app", "/source/data", "new").await;
        back_up(&session, "app", "/logs", "log").await;
        let directory = tempfile::tempdir().unwrap();
        let destination = directory.path().join("out");
        let read = |path: &str| std::fs::read_to_string(destination.join(path)).unwrap();
        let at = format!("--destination={}", destination.display());
        restore_all(&session, &args(&[&at])).await.unwrap();
        assert_eq!((read("source/data/file").as_str(), read("logs/file").as_str()), ("new", "log"));
        let named = format!("--snapshots=repo-{},{}", first.short(), second);
        restore_all(&session, &args(&[&at, &named])).await.unwrap();
        assert_eq!(read(&format!("{}/source/data/file", first.short())), "old");
        assert_eq!(read(&format!("{}/source/data/file", second.short())), "new");
    }

    /// A snapshot whose id begins with a digit.
    fn snapshot(digit: char, minute: u8, host: &str, path: &str, tags: &[&str]) -> FoundSnapshot {
        let snapshot = json!({"time": format!("2026-11-18T00:{minute:02}:00Z"), "tree": "0".repeat(64), "paths": [path],
            "hostname": host, "tags": tags});
        let id = serde_json::from_value(json!(digit.to_string().repeat(64))).unwrap();
        (id, serde_json::from_value(snapshot).unwrap())
    }

    fn all() -> Vec<FoundSnapshot> {
        vec![
            snapshot('1', 1, "app", "/data", &[]),
            snapshot('2', 2, "app", "/data", &[]),
            snapshot('3', 3, "app", "/data", &[INCOMPLETE_TAG]),
            snapshot('4', 4, "app", "/data", &[SAFETY_TAG]),
            snapshot('5', 1, "app", "/logs", &[]),
            snapshot('6', 9, "db", "/data", &[]),
        ]
    }

    #[rstest]
    #[case::host(Some("app"), &[], &['5', '2'], "safety copies and incomplete snapshots are never the newest")]
    #[case::path(Some("app"), &["/logs"], &['5'], "the path that is named")]
    #[case::other_host(Some("db"), &["/data"], &['6'], "of that host")]
    fn the_newest_complete_snapshot_of_each_path_is_restored(
        #[case] host: Option<&str>,
        #[case] paths: &[&str],
        #[case] expected: &[char],
        #[case] reason: &str,
    ) {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        let found = newest(&all(), host, &paths).unwrap();
        let digits: Vec<char> = found.iter().filter_map(|(id, _)| id.to_string().chars().next()).collect();
        assert_eq!(digits, expected, "{reason}");
    }

    #[test]
    fn what_cannot_be_chosen_is_answered_with_what_there_is() {
        let help = |host: Option<&str>, paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
            newest(&all(), host, &paths).unwrap_err().help()
        };
        assert_eq!(help(None, &[]), "name one with --host: app, db");
        assert_eq!(help(Some("web"), &[]), "there are snapshots of: app, db");
        assert_eq!(help(Some("app"), &["/etc"]), "there are: /data, /logs");
        assert_eq!(newest(&[], None, &[]).unwrap_err().to_string(), "the repository has no snapshots");
    }
}
