//! Decisions about moving the data of volumes, for any API: the mover's Job, its permissions and its place in the
//! queue, whether another attempt follows, the directory of a volume on a node, the state of a CSI snapshot, the
//! objects that a mover gets in its own namespace, the handover of a filled volume to its claim, and the tokens of the
//! gateway.

pub mod attempts;
pub mod consumer;
pub mod directory;
pub mod exposed;
pub mod gateway;
pub mod handover;
pub mod limits;
pub mod movers;
pub mod provisioning;
pub mod repository_notes;
pub mod snapshots;

use crate::json::text;
