//! Volumes of a backup, by the way in which their data is kept: files copied by movers, CSI snapshots, plugin
//! snapshots. Each has its part of the pass, and steps that follow after it.

pub(super) mod copies;
pub(super) mod csi;
pub(super) mod native;
pub(super) mod places;
mod quiesced;
mod records;
