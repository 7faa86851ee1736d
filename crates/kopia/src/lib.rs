//! A reader of kopia repositories. ARCHITECTURE.md describes how the modules work together; docs/kopia.md says what is read.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod blobs;
pub mod check;
mod compress;
mod crypto;
mod ecc;
mod error;
mod format;
mod id;
mod index;
mod live;
mod manifest;
mod object;
mod repository;
pub mod restore;
mod snapshot;
mod tree;
mod walk;

pub use compress::COMPRESSIONS;
pub use crypto::{CIPHERS, HASHES, KEY_DERIVATIONS};
pub use ecc::ALGORITHM as ERROR_CORRECTION;
pub use error::{Error, Result, Retry};
pub use format::Made;
pub use id::{ContentId, ObjectId};
pub use manifest::{find, snapshots};
pub use repository::{Options, Repository};
pub use snapshot::{Filter, Snapshot, Source};
pub use tree::Entry;
pub use walk::{Listed, list};
