//! Volumes of a backup, by the way in which their data is kept: files copied by movers, snapshots of CSI drivers, snapshots of
//! volume plugins. Each has its part of the pass, and what follows after it.

pub(super) mod copies;
pub(super) mod csi;
pub(super) mod native;
mod records;
