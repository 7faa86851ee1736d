//! Driver VolumeSnapshotter: takes VolumeSnapshots of claims ([`taking`]), deletes those that the policy does not
//! keep ([`retention`]), and creates claims from them ([`filling`]). No mover runs: the storage system moves the
//! data. Called by the work of backups and restores; all decisions are in `plan::stash::snapshotter`.

pub(in crate::sessions) mod filling;
pub(in crate::sessions) mod retention;
pub(in crate::sessions) mod taking;

use std::time::Duration;

/// The pauses between two polls of an object: short at first, because many drivers take a snapshot within a second.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The pause after this one.
fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(LONGEST_PAUSE)
}
