//! What a session that has ended shows, and for how long.

use lifeboat_web::Metrics;

use super::*;

fn session(succeeded: bool) -> EndedSession {
    let files = FileCounts { total: 22, new: 11, modified: 5, unmodified: 6 };
    let numbers = HostNumbers { bytes: 7, uploaded: 3, milliseconds: 1500, files };
    let host = EndedHost {
        hostname: "app".into(),
        succeeded,
        seconds: Some(2.5),
        numbers: succeeded.then_some(numbers),
    };
    let labels = SessionLabels {
        invoker_kind: "BackupConfiguration".into(),
        invoker_name: "nightly".into(),
        namespace: "shop".into(),
        driver: "Restic".into(),
        repository: "r".into(),
    };
    let target = EndedTarget {
        kind: "Deployment".into(),
        group: "apps".into(),
        name: "web".into(),
        succeeded,
        hosts: vec![host],
    };
    EndedSession { labels, succeeded, seconds: 4.0, end: 1000, targets: vec![target] }
}

#[test]
fn a_session_is_shown_under_both_names_until_its_invoker_is_gone() {
    let metrics = Metrics::new("0");
    let sessions = metrics.register(SessionMetrics::register);
    sessions.ended(&session(true));
    let text = metrics.render();
    for line in [
        "stash_backup_session_success{",
        "stash_appscode_com_backupsession_success{",
        "stash_backup_target_count_total{",
        "stash_appscode_com_backupsession_target_success{",
        "stash_backup_host_data_size_bytes{",
        "stash_appscode_com_backupsession_host_backup_duration_seconds{",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(text.contains("hostname=\"app\"} 7"), "{text}");
    sessions.retain(|_, _, name| name != "nightly");
    assert!(!metrics.render().contains("nightly"), "{}", metrics.render());
}

#[test]
fn a_session_that_failed_before_it_had_members_is_no_success() {
    let metrics = Metrics::new("0");
    let sessions = metrics.register(SessionMetrics::register);
    sessions.failed(&session(true).labels);
    assert!(metrics.render().contains("repository=\"r\"} 0"), "{}", metrics.render());
    sessions.retain(|_, _, _| false);
    assert!(!metrics.render().contains("nightly"), "{}", metrics.render());
}

#[test]
fn a_failed_session_keeps_the_values_of_the_last_good_one() {
    let metrics = Metrics::new("0");
    let sessions = metrics.register(SessionMetrics::register);
    sessions.ended(&session(true));
    sessions.ended(&session(false));
    let text = metrics.render();
    assert!(text.contains("repository=\"r\"} 0"), "{text}");
    assert!(text.contains("repository=\"r\"} 1000"), "{text}");
    assert!(text.contains("hostname=\"app\"} 7"), "{text}");
    sessions.retain(|_, _, _| false);
    assert!(!metrics.render().contains("nightly"), "{}", metrics.render());
}

#[test]
fn the_files_of_a_host_are_compared_with_the_snapshots_before() {
    let mut numbers = HostNumbers::default();
    let files = Some(FileCounts { total: 4, new: 1, modified: 1, unmodified: 2 });
    let stored = Snapshot { files, ..Snapshot::default() };
    numbers.add(&stored, None);
    numbers.add(&stored, Some(&BackedUp { files: 9, ..BackedUp::default() }));
    // A mover of an earlier version counts all files only.
    numbers.add(&Snapshot::default(), Some(&BackedUp { files: 3, ..BackedUp::default() }));
    assert_eq!(numbers.files, FileCounts { total: 11, new: 2, modified: 2, unmodified: 4 });
}

#[test]
fn every_number_of_files_is_shown() {
    let metrics = Metrics::new("0");
    let sessions = metrics.register(SessionMetrics::register);
    sessions.ended(&session(true));
    let text = metrics.render();
    for (name, value) in [("total", 22), ("new", 11), ("modified", 5), ("unmodified", 6)] {
        for prefix in [OLDER, NEWER] {
            let begin = format!("{prefix}_host_files_{name}{{");
            let line = text.lines().find(|line| line.starts_with(&begin)).unwrap_or_default();
            assert!(line.ends_with(&format!("}} {value}")), "{begin} is {line:?}");
        }
    }
    sessions.retain(|_, _, _| false);
    assert!(!metrics.render().contains("nightly"), "{}", metrics.render());
}
