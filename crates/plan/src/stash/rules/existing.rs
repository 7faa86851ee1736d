//! What a repository has: hosts, their paths and the newest snapshot of each, for messages about a restore that finds nothing.

use std::fmt;

use jiff::Timestamp;

use super::SnapshotFact;
use crate::stash::hosts::HostName;

/// The hosts, paths and newest complete snapshots of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Existing {
    pub hosts: Vec<ExistingHost>,
}

/// One host of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingHost {
    pub name: HostName,
    pub paths: Vec<ExistingPath>,
}

/// One path of a host and its newest complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingPath {
    pub path: String,
    /// The id as messages show it.
    pub snapshot: String,
    pub time: Timestamp,
}

impl Existing {
    pub fn of(snapshots: &[SnapshotFact]) -> Self {
        let _ = snapshots;
        unimplemented!()
    }
}

impl fmt::Display for Existing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        unimplemented!()
    }
}
