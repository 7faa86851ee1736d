//! Volumes, repeatedly: the server is killed at random moments while ten volumes are backed up and restored, and
//! databases with continuous writes are restored consistently with every method.

use std::time::Duration;

use lifeboat_e2e::tree::Random;
use lifeboat_e2e::{Databases, HostServer, VolumeKillTest};

/// Kills in each of the two directions.
const KILLS: usize = 20;
/// The approximate duration of a backup or restore of ten volumes in milliseconds; kills are within it.
const LASTS: u64 = 20_000;
/// Round trips of the databases, with each method.
const ROUNDS: usize = 10;

#[test]
fn volumes_survive_kills_at_random_moments() {
    let seed = std::env::var("LIFEBOAT_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let mut test = VolumeKillTest::new("soakvol");
    for round in 0..KILLS {
        let (first, second) = (random.next() % LASTS, random.next() % LASTS);
        let backup = test.kill_backup_after(Duration::from_millis(first));
        println!("seed {seed}, round {round}: killed {first} ms into the backup");
        test.kill_restore_after(&backup, Duration::from_millis(second));
        println!("seed {seed}, round {round}: killed {second} ms into the restore");
    }
}

#[test]
fn databases_under_writes_come_back_consistent_every_time() {
    let server = HostServer::start("soakdb", &[]);
    let databases = Databases::start("bank");
    let ways: [(&str, &[&str]); 3] = [
        ("files", &["--default-volumes-to-fs-backup"]),
        ("snapshots", &[]),
        ("moved", &["--snapshot-move-data"]),
    ];
    for round in 0..ROUNDS {
        for (way, flags) in ways {
            databases.round_trip(&server, &format!("{way}-{round}"), flags);
            println!("round {round}: databases came back consistent by {way}");
        }
    }
}
