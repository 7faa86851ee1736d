//! The server is killed at every named moment of a backup and of a restore.

use lifeboat_e2e::{BACKUP_POINTS, KillTest, RESTORE_POINTS};

#[test]
fn a_backup_survives_a_kill_at_every_point() {
    let mut test = KillTest::new("soakback");
    test.enlarge();
    for point in BACKUP_POINTS {
        let name = test.kill_backup(point);
        println!("killed {}: backup {name} ended {}", point.name, test.phase("backup", &name));
    }
}

#[test]
fn a_restore_survives_a_kill_at_every_point() {
    let mut test = KillTest::new("soakrest");
    let whole = test.backup();
    for point in RESTORE_POINTS {
        let name = test.kill_restore(&whole, point);
        println!("killed {}: restore {name} ended {}", point.name, test.phase("restore", &name));
    }
}

#[test]
fn leadership_moves_at_every_point_of_a_restore() {
    let mut test = KillTest::new("soakmove");
    let whole = test.backup();
    for point in RESTORE_POINTS {
        test.change_leader_in_restore(&whole, point);
        println!("leadership moved {}", point.name);
    }
}
