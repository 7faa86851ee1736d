//! What is shown under which names.

use super::*;

#[test]
fn a_location_shows_under_upstreams_name_until_it_is_gone() {
    let metrics = Metrics::new("0.1.0");
    let velero = VeleroMetrics::register(&metrics);
    velero.set_location("default", true);
    let line = "velero_backup_location_status_gauge{backup_location_name=\"default\"} 1";
    assert!(metrics.render().contains(line), "{}", metrics.render());
    velero.retain_locations(&BTreeSet::from(["other".to_owned()]));
    assert!(!metrics.render().contains("backup_location_name"));
}

#[test]
fn what_only_a_leader_knows_ends_with_its_term() {
    let metrics = Metrics::new("0.1.0");
    let velero = VeleroMetrics::register(&metrics);
    velero.set_location("default", true);
    velero.set_password(true, false);
    let text = metrics.render();
    assert!(text.contains("\nlifeboat_repository_password_exported 1\n"), "{text}");
    velero.end_term();
    let text = metrics.render();
    let samples = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    assert!(
        samples.iter().all(|line| !line.contains("password") && !line.contains("location")),
        "{samples:?}"
    );
}

#[test]
fn backups_and_restores_are_counted_under_veleros_names() {
    let metrics = Metrics::new("0.1.0");
    let velero = VeleroMetrics::register(&metrics);
    velero.init_schedule("");
    velero.backup_started("nightly");
    let end = BackupEnd {
        ending: Ending::Completed,
        duration: std::time::Duration::from_secs(70),
        items: 12,
        errors: 0,
        warnings: 1,
        archive_bytes: Some(1000),
        ended_at: 1_800_000_000,
    };
    velero.backup_ended("nightly", &end);
    velero.restore_started("nightly");
    velero.restore_ended("nightly", Ending::Failed);
    velero.deletion_started("");
    velero.deletion_ended("", true);
    velero.set_backup_total(7);
    velero.volume_snapshots("", 2, 1);
    velero.csi_snapshots("", "b", 1, 1);
    let text = metrics.render();
    for line in [
        "velero_backup_attempt_total{schedule=\"nightly\"} 1",
        "velero_backup_success_total{schedule=\"nightly\"} 1",
        "velero_backup_success_total{schedule=\"\"} 0",
        "velero_csi_snapshot_attempt_total{schedule=\"\",backupName=\"\"} 0",
        "velero_backup_warning_total{schedule=\"nightly\"} 1",
        "velero_backup_last_status{schedule=\"nightly\"} 1.0",
        "velero_backup_last_successful_timestamp{schedule=\"nightly\"} 1800000000.0",
        "velero_backup_tarball_size_bytes{schedule=\"nightly\"} 1000.0",
        "velero_backup_items_total{schedule=\"nightly\"} 12.0",
        "velero_backup_items_errors{schedule=\"nightly\"} 0.0",
        "velero_backup_duration_seconds_bucket{le=\"300.0\",schedule=\"nightly\"} 1",
        "velero_backup_total 7",
        "velero_backup_deletion_attempt_total{schedule=\"\"} 1",
        "velero_backup_deletion_success_total{schedule=\"\"} 1",
        "velero_restore_attempt_total{schedule=\"nightly\"} 1",
        "velero_restore_failed_total{schedule=\"nightly\"} 1",
        "velero_volume_snapshot_failure_total{schedule=\"\"} 1",
        "velero_csi_snapshot_success_total{schedule=\"\",backupName=\"b\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
