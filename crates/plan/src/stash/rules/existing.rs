//! The content of a repository: hosts, their paths and the newest snapshot of each path. Shown in the message of a
//! restore that finds no data.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::newest::{paths_of, supersedes};
use super::{SAFETY_TAG, SnapshotFact};
use crate::stash::hosts::HostName;
use crate::stash::targets::CleanPath;

/// How many hosts, and how many paths of each, a message lists.
const HOSTS: usize = 8;
const PATHS: usize = 4;

/// The hosts, paths and newest snapshots of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Existing {
    /// By name.
    pub hosts: Vec<ExistingHost>,
}

/// One host of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingHost {
    pub name: HostName,
    /// By path.
    pub paths: Vec<ExistingPath>,
}

/// One path of a host and its newest complete snapshot, or an incomplete one if there is no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingPath {
    pub path: CleanPath,
    /// The id as messages show it.
    pub snapshot: String,
    pub time: Timestamp,
    pub complete: bool,
}

impl Existing {
    /// Safety copies do not count.
    pub fn of(snapshots: &[SnapshotFact]) -> Self {
        let mut found: BTreeMap<&HostName, BTreeMap<CleanPath, &SnapshotFact>> = BTreeMap::new();
        for snapshot in snapshots.iter().filter(|snapshot| !snapshot.has_tag(SAFETY_TAG)) {
            let paths = found.entry(&snapshot.host).or_default();
            for path in paths_of(snapshot) {
                let best = paths.entry(path).or_insert(snapshot);
                let rank = |one: &SnapshotFact| u8::from(one.counts_as_latest());
                if rank(snapshot) > rank(best) || (rank(snapshot) == rank(best) && supersedes(snapshot, best))
                {
                    *best = snapshot;
                }
            }
        }
        let hosts = found.into_iter().map(|(name, paths)| ExistingHost {
            name: name.clone(),
            paths: paths.into_iter().map(|(path, snapshot)| ExistingPath::of(path, snapshot)).collect(),
        });
        Self { hosts: hosts.collect() }
    }
}

impl ExistingPath {
    fn of(path: CleanPath, snapshot: &SnapshotFact) -> Self {
        let complete = snapshot.counts_as_latest();
        Self { path, snapshot: snapshot.short().to_owned(), time: snapshot.time, complete }
    }
}

impl fmt::Display for Existing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hosts.is_empty() {
            return formatter.write_str("The repository has no snapshots");
        }
        write!(formatter, "The repository has {}", shortened(&self.hosts, HOSTS, "; ", "hosts"))
    }
}

impl fmt::Display for ExistingHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "host {}: {}", self.name, shortened(&self.paths, PATHS, ", ", "paths"))
    }
}

impl fmt::Display for ExistingPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, snapshot, time, complete } = self;
        let remark = if *complete { "" } else { ", incomplete" };
        write!(formatter, "{path} (snapshot {snapshot} of {time}{remark})")
    }
}

fn shortened<T: ToString>(things: &[T], most: usize, between: &str, name: &str) -> String {
    let mut shown: Vec<String> = things.iter().take(most).map(T::to_string).collect();
    if things.len() > most {
        shown.push(format!("and {} more {name}", things.len() - most));
    }
    shown.join(between)
}
