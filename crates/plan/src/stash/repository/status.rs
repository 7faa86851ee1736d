//! The status of a Repository: takes the old status and the observations, gives the new status. Fields without an
//! observation stay.

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_api::stash::{RepositoryStatus, TypedObjectRef};

use super::SnapshotFacts;
use crate::stash::state::conditions::Observation;

/// What was observed of a repository.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The generation of the object that was inspected.
    pub generation: Option<i64>,
    pub conditions: Vec<Observation>,
    /// None if the repository was not opened.
    pub content: Option<Content>,
    /// None if the users of the repository are unknown.
    pub references: Option<Vec<TypedObjectRef>>,
}

/// The content of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Snapshots, without the safety copies of restores.
    pub snapshots: u64,
    /// The size of its packs, if they were counted.
    pub bytes: Option<u64>,
    /// When the oldest and the newest complete backup were started.
    pub oldest: Option<Timestamp>,
    pub newest: Option<Timestamp>,
}

impl Content {
    pub fn of(snapshots: &[SnapshotFacts], bytes: Option<u64>) -> Self {
        let complete =
            || snapshots.iter().filter(|snapshot| snapshot.is_complete()).map(|snapshot| snapshot.time);
        Self {
            snapshots: snapshots.iter().filter(|snapshot| snapshot.is_backup()).count() as u64,
            bytes,
            oldest: complete().min(),
            newest: complete().max(),
        }
    }
}

/// The new status.
pub fn status(old: &RepositoryStatus, observed: &Observed, now: Timestamp) -> RepositoryStatus {
    let mut status = old.clone();
    status.observed_generation = observed.generation.or(status.observed_generation);
    for condition in &observed.conditions {
        condition.set_in(&mut status.conditions, now);
    }
    if let Some(content) = &observed.content {
        status.snapshot_count = i64::try_from(content.snapshots).ok();
        if let Some(bytes) = content.bytes {
            status.total_size = Some(size(bytes));
        }
        // The first backup stays the first when its snapshot is forgotten, and the last stays the last.
        let first =
            status.first_backup_time.take().map(|time| time.0).into_iter().chain(content.oldest).min();
        let last = status.last_backup_time.take().map(|time| time.0).into_iter().chain(content.newest).max();
        status.first_backup_time = first.map(Time);
        status.last_backup_time = last.map(Time);
    }
    if let Some(references) = &observed.references {
        status.references.clone_from(references);
    }
    status
}

/// A number of bytes as upstream writes it, which is restic's form.
pub fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
    let shown = units.iter().find(|(power, _)| bytes > 1 << power).map(|(power, unit)| {
        let whole = (1_u64 << power) as f64;
        format!("{:.3} {unit}", bytes as f64 / whole)
    });
    shown.unwrap_or_else(|| format!("{bytes} B"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::samples::snapshot;
    use super::*;
    use crate::stash::state::conditions::ConditionType;

    #[rstest]
    #[case(0, "0 B")]
    #[case(1024, "1024 B")]
    #[case(1536, "1.500 KiB")]
    #[case(1_325_400_064, "1.234 GiB")]
    #[case(3 << 40, "3.000 TiB")]
    fn a_size_is_written_as_restic_does(#[case] bytes: u64, #[case] expected: &str) {
        assert_eq!(size(bytes), expected);
    }

    #[test]
    fn safety_copies_do_not_count_and_incomplete_snapshots_are_no_successful_backup() {
        let snapshots = [
            snapshot("a", "2026-11-01T00:00:00Z", "app", &[]),
            snapshot("b", "2026-11-02T00:00:00Z", "app", &["lifeboat-incomplete"]),
            snapshot("c", "2026-11-03T00:00:00Z", "app", &["lifeboat-safety"]),
        ];
        let content = Content::of(&snapshots, Some(10));
        let first = "2026-11-01T00:00:00Z".parse().ok();
        assert_eq!(content, Content { snapshots: 2, bytes: Some(10), oldest: first, newest: first });
    }

    #[test]
    fn what_was_not_observed_stays() {
        let now = Timestamp::UNIX_EPOCH;
        let time = |text: &str| Some(Time(text.parse().unwrap()));
        let old = RepositoryStatus {
            integrity: Some(true),
            total_size: Some("1.000 GiB".into()),
            first_backup_time: time("2026-10-01T00:00:00Z"),
            ..RepositoryStatus::default()
        };
        let snapshots = [snapshot("a", "2026-11-01T00:00:00Z", "app", &[])];
        let observed = Observed {
            generation: Some(3),
            conditions: vec![ConditionType::BackendSecretFound.yes("")],
            content: Some(Content::of(&snapshots, None)),
            references: None,
        };
        let new = status(&old, &observed, now);
        assert_eq!((new.integrity, new.total_size.as_deref()), (Some(true), Some("1.000 GiB")));
        assert_eq!(
            (new.first_backup_time.clone(), new.last_backup_time.clone()),
            (time("2026-10-01T00:00:00Z"), time("2026-11-01T00:00:00Z"))
        );
        assert_eq!((new.snapshot_count, new.observed_generation), (Some(1), Some(3)));
        assert!(ConditionType::BackendSecretFound.is_true(&new.conditions));
        assert_eq!(status(&new, &Observed::default(), now), new);
    }
}
