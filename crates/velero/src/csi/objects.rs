//! VolumeSnapshots and their contents, as the actions use them: re-exported from crate `transfer`.

pub(super) use lifeboat_plan::json::text;
pub(crate) use lifeboat_transfer::snapshots::{
    NotTaken, PollTimer, Snapshots, Taken, TimeLimit, Unusable, create, fine_if_gone, labelled,
};
