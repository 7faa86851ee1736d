//! The server is killed while volumes are copied, snapshotted or moved: nothing is stored twice, and nothing is lost.

use lifeboat_e2e::{
    Fault, Moment, OneVolume, VOLUME_BACKUP_MOMENTS, VOLUME_RESTORE_MOMENTS, VolumeKillTest, Way, kubectl,
};

#[test]
fn a_server_killed_at_each_moment_of_a_backup_of_volumes_goes_on_and_stores_nothing_twice() {
    let mut test = VolumeKillTest::new("kills");
    for moment in VOLUME_BACKUP_MOMENTS {
        test.kill_backup_at(moment);
    }
}

#[test]
fn a_server_killed_at_each_moment_of_a_restore_of_volumes_goes_on_and_loses_nothing() {
    let mut test = VolumeKillTest::new("kills");
    let backup = test.kill_backup_at(VOLUME_BACKUP_MOMENTS[1]);
    for moment in VOLUME_RESTORE_MOMENTS {
        test.kill_restore_at(&backup, moment);
    }
}

/// The snapshot is created; its content is retained; the objects are deleted.
const SNAPSHOT_MOMENTS: [Moment; 3] = [
    ("POST", "/volumesnapshots", true),
    ("PATCH", "/volumesnapshotcontents/", true),
    ("DELETE", "/volumesnapshots/", false),
];

/// The upload is created; its mover is created; its helper objects are deleted.
const UPLOAD_MOMENTS: [Moment; 3] =
    [("POST", "/datauploads", true), ("POST", "/jobs", true), ("DELETE", "/persistentvolumeclaims/", false)];

/// The download is created; its mover is created; the restored volume is bound to its claim.
const DOWNLOAD_MOMENTS: [Moment; 3] = [
    ("POST", "/datadownloads", true),
    ("POST", "/jobs", true),
    ("DELETE", "/persistentvolumeclaims/", false),
];

fn start(way: Way) -> OneVolume {
    OneVolume::of(way, "box-csi", "ReadWriteOnce", &[])
}

/// Kills the server at this moment of the started backup or restore, and restarts it.
fn killed_at((method, part, done): Moment, test: &mut OneVolume, begin: impl FnOnce(&OneVolume)) {
    let fault = if done { Fault::HoldAnswer } else { Fault::Hold };
    test.server.cluster.close(method, part, fault, 1);
    begin(test);
    test.server.cluster.wait_until_reached(90);
    test.server.kill_and_restart();
}

#[test]
fn a_server_killed_at_each_moment_of_a_snapshot_goes_on_and_leaves_none() {
    let mut test = start(Way::Snapshot);
    for (number, moment) in SNAPSHOT_MOMENTS.into_iter().enumerate() {
        let (name, back) = (format!("backup-{number}"), format!("back-{number}"));
        let before = test.listing();
        killed_at(moment, &mut test, |test| test.begin(&name));
        let backup = test.server.ended("backup", &name);
        test.server.assert_phase(&backup, &["Completed"]);
        assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 1, "{moment:?}: {backup}");
        test.assert_nothing_is_left();
        test.assert_restore_succeeds(&back, &name, &before);
        // Snapshots that a restore needs stay beside its claim.
        test.app.kubectl().args(["delete", "volumesnapshots", "--all", "--timeout=60s"]).ok();
        let restore = ["delete", "volumesnapshotcontents", "-l", &format!("velero.io/restore-name={back}")];
        kubectl().args(restore).arg("--timeout=60s").ok();
    }
}

#[test]
fn a_server_killed_at_each_moment_of_moving_data_goes_on_and_stores_it_once() {
    let mut test = start(Way::Moved);
    for (number, moment) in UPLOAD_MOMENTS.into_iter().enumerate() {
        let name = format!("backup-{number}");
        killed_at(moment, &mut test, |test| test.begin(&name));
        let backup = test.server.ended("backup", &name);
        test.server.assert_phase(&backup, &["Completed"]);
        test.assert_stored(&name);
        assert_eq!(test.snapshots().len(), number + 1, "{moment:?}: {:?}", test.snapshots());
        test.assert_nothing_is_left();
        test.assert_no_lock();
    }
}

#[test]
fn a_server_killed_at_each_moment_of_bringing_data_back_goes_on_and_loses_nothing() {
    let mut test = start(Way::Moved);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    for (number, moment) in DOWNLOAD_MOMENTS.into_iter().enumerate() {
        let name = format!("restore-{number}");
        test.lose_app();
        killed_at(moment, &mut test, |test| {
            test.server.lifeboat().args(["restore", "create", &name, "--from-backup", "kept"]).ok();
        });
        let restore = test.server.ended("restore", &name);
        test.server.assert_phase(&restore, &["Completed"]);
        test.wait_until_running();
        before.assert_same(&test.listing(), &format!("{moment:?}"));
        test.assert_nothing_is_left();
        test.assert_no_lock();
    }
}
