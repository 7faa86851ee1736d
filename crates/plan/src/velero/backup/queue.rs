//! The queue of backups: which ones wait and which start. Takes all backups that wait or run and the existing
//! namespaces; gives the changes to write. As upstream: a limited number at once, in the order of their creation, and
//! never two with a namespace in common.

use std::collections::BTreeSet;

use jiff::Timestamp;
use lifeboat_api::velero::BackupPhase;

use crate::velero::filter::NamespaceFilter;

/// The queue's view of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub name: String,
    pub phase: BackupPhase,
    pub position: i64,
    pub created: Option<Timestamp>,
    pub included_namespaces: Vec<String>,
    pub excluded_namespaces: Vec<String>,
}

/// One change to one backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Queued at this position; 1 is next.
    Queue {
        name: String,
        position: i64,
    },
    Start {
        name: String,
    },
}

/// The changes to write now.
pub fn changes(backups: &[Waiting], live: &[String], concurrent: usize) -> Vec<Change> {
    let running =
        |backup: &&Waiting| matches!(backup.phase, BackupPhase::InProgress | BackupPhase::ReadyToStart);
    let mut busy: Vec<BTreeSet<String>> =
        backups.iter().filter(running).map(|backup| namespaces(backup, live)).collect();
    let mut free = concurrent.max(1).saturating_sub(busy.len());
    let mut changes = Vec::new();
    let mut position = 0;
    for backup in in_order(backups) {
        let wanted = namespaces(backup, live);
        let blocked = busy.iter().any(|taken| !taken.is_disjoint(&wanted));
        // Backups behind this one must not overtake it for the same namespaces.
        busy.push(wanted);
        if free > 0 && !blocked {
            free -= 1;
            changes.push(Change::Start { name: backup.name.clone() });
            continue;
        }
        position += 1;
        if backup.phase != BackupPhase::Queued || backup.position != position {
            changes.push(Change::Queue { name: backup.name.clone(), position });
        }
    }
    changes
}

/// The waiting backups: those with a position first, then new ones by age.
fn in_order(backups: &[Waiting]) -> Vec<&Waiting> {
    let waits = |backup: &&Waiting| matches!(backup.phase, BackupPhase::New | BackupPhase::Queued);
    let mut waiting: Vec<_> = backups.iter().filter(waits).collect();
    waiting.sort_by_key(|backup| {
        let place = if backup.phase == BackupPhase::Queued { backup.position } else { i64::MAX };
        (place, backup.created, backup.name.clone())
    });
    waiting
}

/// The namespaces of a backup; none if its lists are invalid, which its validation reports.
fn namespaces(backup: &Waiting, live: &[String]) -> BTreeSet<String> {
    NamespaceFilter::new(&backup.included_namespaces, &backup.excluded_namespaces, live)
        .map(|filter| filter.chosen_among(live).into_iter().collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn backup(name: &str, phase: BackupPhase, position: i64, namespaces: &[&str]) -> Waiting {
        Waiting {
            name: name.into(),
            phase,
            position,
            created: Timestamp::from_second(i64::from(name.as_bytes()[0])).ok(),
            included_namespaces: namespaces.iter().map(|&name| name.into()).collect(),
            excluded_namespaces: Vec::new(),
        }
    }

    fn start(name: &str) -> Change {
        Change::Start { name: name.into() }
    }

    fn queue(name: &str, position: i64) -> Change {
        Change::Queue { name: name.into(), position }
    }

    use BackupPhase::{InProgress, New, Queued, ReadyToStart};

    #[rstest]
    #[case::alone(vec![backup("a", New, 0, &[])], 1, vec![start("a")])]
    #[case::oldest_first(vec![backup("b", New, 0, &["x"]), backup("a", New, 0, &["y"])], 1,
        vec![start("a"), queue("b", 1)])]
    #[case::one_runs(vec![backup("a", InProgress, 0, &["x"]), backup("b", New, 0, &["y"])], 1, vec![queue("b", 1)])]
    #[case::one_is_about_to_run(vec![backup("a", ReadyToStart, 0, &["x"]), backup("b", New, 0, &["y"])], 1,
        vec![queue("b", 1)])]
    #[case::two_at_once(vec![backup("a", InProgress, 0, &["x"]), backup("b", New, 0, &["y"])], 2, vec![start("b")])]
    #[case::same_namespace(vec![backup("a", InProgress, 0, &["x"]), backup("b", New, 0, &["x"])], 2,
        vec![queue("b", 1)])]
    #[case::whole_cluster_overlaps_all(vec![backup("a", InProgress, 0, &["x"]), backup("b", New, 0, &["*"])], 2,
        vec![queue("b", 1)])]
    #[case::nobody_overtakes_for_the_same_namespace(
        vec![backup("a", InProgress, 0, &["x"]), backup("b", Queued, 1, &["x", "y"]), backup("c", Queued, 2, &["y"])],
        3, vec![])]
    #[case::others_may_overtake(
        vec![backup("a", InProgress, 0, &["x"]), backup("b", Queued, 1, &["x"]), backup("c", Queued, 2, &["y"])],
        3, vec![start("c")])]
    #[case::places_close_up(vec![backup("b", Queued, 2, &["x"]), backup("c", Queued, 3, &["x"])], 1,
        vec![start("b"), queue("c", 1)])]
    #[case::zero_means_one(vec![backup("a", New, 0, &[])], 0, vec![start("a")])]
    #[case::ended_ones_do_not_count(vec![backup("a", BackupPhase::Completed, 0, &["x"]), backup("b", New, 0, &["x"])],
        1, vec![start("b")])]
    fn backups_wait_and_start(
        #[case] backups: Vec<Waiting>,
        #[case] concurrent: usize,
        #[case] expected: Vec<Change>,
    ) {
        assert_eq!(changes(&backups, &["x".to_owned(), "y".to_owned()], concurrent), expected);
    }
}
