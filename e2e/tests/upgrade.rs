//! Lifeboat is upgraded while it works: a Backup, a Restore and a mover that the old build began are finished by the new one.
//! `cargo xtask test upgrade` says where the old build is. The tests run one after the other, because each begins with the
//! custom resource definitions of the old build.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod installed;

use std::fs;

use lifeboat_e2e::{
    BACKUP_POINTS, HostServer, KillTest, OneVolume, Point, RESTORE_POINTS, Release, VOLUME_BACKUP_MOMENTS,
    VolumeKillTest, Way, get, wait_for,
};
use rstest::rstest;
use serde_json::Value;

/// When a mover ends that the old build started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// After the new build has found it running.
    Followed,
    /// While no server runs: the new build finds its result.
    Unattended,
}

/// The old build, and a pod with a volume.
fn start(way: Way) -> OneVolume {
    let server = HostServer::start_old("upgrade", &[]);
    OneVolume::on(server, way, &OneVolume::manifests(way, "box-csi", "ReadWriteOnce"))
}

/// Replaces the old build while its mover is held, and lets the mover end; fails if the mover is not the old build's.
fn upgrade(test: &mut OneVolume, mover: &Value, ends: Ends) {
    assert_eq!(image(mover), Release::Old.image());
    test.server.kill();
    match ends {
        Ends::Followed => {
            let before = test.server.cluster.seen().len();
            test.server.upgrade();
            wait_for("the new build to look for the mover's Job", 60, || {
                let seen = test.server.cluster.seen().split_off(before);
                if seen.iter().any(|line| line.contains("/jobs")) { Ok(()) } else { Err(seen.join("\n")) }
            });
            assert_eq!(current(test, mover)["status"]["phase"], "Running", "the mover still works");
            test.server.storage.open();
        }
        Ends::Unattended => {
            test.server.storage.open();
            wait_for("the end of the mover", 90, || {
                let pod = current(test, mover);
                if pod["status"]["phase"] == "Succeeded" { Ok(()) } else { Err(pod["status"].to_string()) }
            });
            test.server.upgrade();
        }
    }
}

/// The mover's pod as it is now.
fn current(test: &OneVolume, mover: &Value) -> Value {
    get(&["-n", &test.server.movers(), "pod", mover["metadata"]["name"].as_str().unwrap()])
}

fn image(pod: &Value) -> String {
    pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

/// How many Jobs both builds have made.
fn jobs(test: &OneVolume) -> usize {
    let made = |line: &&String| line.starts_with("POST ") && line.contains("/jobs");
    test.server.cluster.seen().iter().filter(made).count()
}

#[rstest]
#[case::files_followed(Way::Files, Ends::Followed)]
#[case::files_unattended(Way::Files, Ends::Unattended)]
#[case::moved_followed(Way::Moved, Ends::Followed)]
#[case::moved_unattended(Way::Moved, Ends::Unattended)]
fn a_backup_begun_by_the_old_build_is_finished_by_the_new_one(#[case] way: Way, #[case] ends: Ends) {
    let mut test = start(way);
    let mover = test.begin_and_hold("begun");
    let made = jobs(&test);
    upgrade(&mut test, &mover, ends);
    let (backup, copy) = test.ended("begun");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(copy["status"]["phase"], "Completed", "{copy}");
    assert_eq!(jobs(&test), made, "the new build adopts the mover and starts no other");
    test.assert_stored("begun");
    assert_eq!(test.snapshots().len(), 1, "{:?}", test.snapshots());
    test.assert_nothing_is_left();
    test.assert_no_lock();
    // From here on everything is the new build's. Without new bytes nothing would be written.
    fs::write(test.directory().join("new"), vec![7; 1 << 20]).unwrap();
    let mover = test.begin_and_hold("next");
    assert_eq!(image(&mover), Release::New.image());
    test.server.storage.open();
    let (backup, _) = test.ended("next");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_stored("next");
}

#[rstest]
#[case::files_followed(Way::Files, Ends::Followed)]
#[case::files_unattended(Way::Files, Ends::Unattended)]
#[case::moved_followed(Way::Moved, Ends::Followed)]
#[case::moved_unattended(Way::Moved, Ends::Unattended)]
fn a_restore_begun_by_the_old_build_is_finished_by_the_new_one(#[case] way: Way, #[case] ends: Ends) {
    let mut test = start(way);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    let mover = test.restore_and_hold("back", "kept");
    let made = jobs(&test);
    upgrade(&mut test, &mover, ends);
    let restore = test.server.ended("restore", "back");
    test.server.assert_phase(&restore, &["Completed"]);
    let filling = test.filling("back");
    assert_eq!(filling["status"]["phase"], "Completed", "{filling}");
    assert_eq!(jobs(&test), made, "the new build adopts the mover and starts no other");
    test.wait_until_running();
    before.assert_same(&test.listing(), "restored by both builds");
    test.assert_nothing_is_left();
    test.assert_no_lock();
    // What the old build stored is of use to the new one.
    test.assert_restore_succeeds("again", "kept", &before);
}

#[test]
fn of_ten_volumes_that_the_old_build_began_to_copy_the_new_one_stores_each_once() {
    VolumeKillTest::old("upgrade").kill_backup_at(VOLUME_BACKUP_MOMENTS[1]);
}

#[rstest]
#[case::hooks("after a pre hook began")]
#[case::stored("before the last file")]
fn a_backup_of_objects_goes_on_in_the_new_build(#[case] point: &str) {
    KillTest::old("upgrade").kill_backup(named(&BACKUP_POINTS, point));
}

#[rstest]
#[case::created("after a config map")]
#[case::done("before the results")]
fn a_restore_of_objects_goes_on_in_the_new_build(#[case] point: &str) {
    let mut test = KillTest::old("upgrade");
    let whole = test.backup();
    test.kill_restore(&whole, named(&RESTORE_POINTS, point));
}

fn named(points: &[Point], name: &str) -> Point {
    *points.iter().find(|point| point.name == name).unwrap()
}
