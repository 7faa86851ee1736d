//! The safe writing of a restore, for a reader of another format: everything is opened below the target, through no
//! symbolic link, and metadata is set in the order that preserves it.

pub use super::file::open::{create, identity_of, open_again, open_existing};
pub use super::file::write::{write_all, write_sparse};
pub use super::metadata::{MetadataTarget, chmod_entry};
pub use super::target::{LONGEST_PATH, Target};
pub use super::visit::directories::look_at;
pub use crate::source::stat::Stat;
