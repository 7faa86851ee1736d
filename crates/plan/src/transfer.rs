//! Decisions about moving the data of volumes, whichever API asks for it: the mover's Job, its rights and its turn, whether
//! another attempt follows, where a node has a volume, how a CSI snapshot stands, what a mover is given in its own namespace,
//! and how a filled volume is handed to its claim.

pub mod attempts;
pub mod consumer;
pub mod directory;
pub mod exposed;
pub mod handover;
pub mod movers;
pub mod provisioning;
pub mod snapshots;

use crate::json::text;
