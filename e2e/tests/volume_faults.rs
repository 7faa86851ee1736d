//! What goes wrong with volumes, on the box: every fault ends with a reason and nothing left behind, and the next run succeeds.
//!
//! Where each fault is tested (F copied files, S snapshot, M moved data):
//!
//! | fault | tests |
//! | --- | --- |
//! | mover killed, evicted, out of memory | `faults::a_mover_that_is_…`, `faults::a_mover_without_enough_memory_says_so`, `restores::a_mover_that_is_killed_…` (F), `movements::a_mover_of_…` (M) |
//! | image missing | `faults::an_image_that_is_missing_is_named` |
//! | deadline reached | `faults::a_mover_that_takes_too_long_is_ended` (F), `movements::an_upload_that_takes_too_long_is_ended` (M), `restores::…too_long…` (F, M) |
//! | node lost, kubelet or machine gone | `nodes.rs`, which runs alone |
//! | storage away | `faults::storage_that_is_away_for_a_while_delays_the_mover_only` |
//! | credentials rotated | `a_key_that_is_taken_away_…` of `faults` (F), `movements` (M), `restores` (F, M) |
//! | scratch full | `scratch::a_mover_without_room_…` |
//! | target full, smaller volume | `targets::a_volume_that_…`; devices: `lifeboat-mover`, `tests::devices` |
//! | pod deleted, rescheduled | `sources::a_pod_that_goes_…`, `sources::a_pod_that_moves_…`, `restores::a_pod_that_goes_…` |
//! | volume detached | `sources::a_mount_that_goes_…` |
//! | unreadable files, files growing for ever | `sources::files_that_cannot_be_read_…`, `sources::a_file_that_grows_…` |
//! | snapshot never ready, class missing | `volumes.rs`: `snapshots::a_snapshot_that_cannot_be_taken_…` (S), `movements::data_of_a_snapshot_that_is_never_ready_…` (M) |
//! | snapshot on another node | `targets::a_snapshot_that_is_on_another_node_…` (S), `targets::…is_moved_from_there` (M) |
//! | claim that cannot bind | `targets::a_claim_that_gets_no_volume_…` (S, M) |
//! | ReadWriteOncePod | `sources::a_volume_for_one_pod_only_…` (F, S, M) |
//! | repository locked by someone else, dead or lost owners | `locks::…`; staleness: `lifeboat-repository`, `lock::tests` |
//! | password wrong or lost | `locks::a_wrong_password_…` (F), `movements::a_lost_password_…` (M), `volumes.rs`: `pod_volumes::without_the_password_…` |
//! | cancelled, deleted meanwhile | `movements::…is_cancelled_…`, `faults::a_backup_that_is_deleted_…` (F), `movements::a_backup_that_is_deleted_…` (M) |
//! | server killed | `volumes.rs`: `kills::…` (F, S, M and restores) |
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod faults;
mod locks;
mod movements;
mod restores;
mod scratch;
mod sources;
mod targets;
