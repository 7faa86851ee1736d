//! The server is killed while ten volumes are copied: nothing is stored twice, and nothing is lost.

use lifeboat_e2e::{VOLUME_BACKUP_MOMENTS, VOLUME_RESTORE_MOMENTS, VolumeKillTest};

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
