//! The server is killed at moments of a backup and of a restore, and leadership moves during both.

use lifeboat_e2e::{BACKUP_POINTS, KillTest, Point, RESTORE_POINTS};

fn named(points: &[Point], name: &str) -> Point {
    *points.iter().find(|point| point.name == name).unwrap()
}

#[test]
fn a_backup_survives_kills_of_its_server() {
    let mut test = KillTest::new("killback");
    test.enlarge();
    for name in ["after a pre hook began", "before a part of the archive", "before the last file"] {
        test.kill_backup(named(&BACKUP_POINTS, name));
    }
}

#[test]
fn a_restore_survives_kills_of_its_server() {
    let mut test = KillTest::new("killrest");
    let whole = test.backup();
    for name in ["before the archive", "after a config map", "before the results"] {
        test.kill_restore(&whole, named(&RESTORE_POINTS, name));
    }
}

#[test]
fn leadership_moves_in_a_backup_and_in_a_restore() {
    let mut test = KillTest::new("moved");
    test.change_leader_in_backup(named(&BACKUP_POINTS, "after a pre hook began"));
    let whole = test.backup();
    test.change_leader_in_restore(&whole, named(&RESTORE_POINTS, "after a config map"));
}
