//! Velero's bucket layout and backup archive. Archives are written as a stream, compressed on several cores, and read
//! in one validating pass into a spool, because an archive may come from an untrusted source.
//!
//! [`ObjectStore`] is the interface to storage that this crate needs; `lifeboat_store::Store` and object-store
//! plugins implement it. [`layout`] defines the keys of files, [`ArchiveWriter`] and [`Spool`] write and read the
//! archive, [`documents`] are the files beside it, [`RunLog`] is the log.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod documents;
pub mod layout;
mod log;
pub mod memory;
mod object_store;
mod rewrite;
mod spool;
mod upload;
mod writer;

pub use layout::{BackupFiles, NameError, RestoreFiles};
pub use log::{Level, LogCounts, RunLog};
pub use object_store::{Bounded, ByteStream, ObjectReading, ObjectStore, StoreError};
pub use rewrite::{RewriteError, Updates, rewrite};
pub use spool::{Item, Spool, SpoolError, SpoolLimits, Uid, Unreadable};
pub use writer::{ArchiveError, ArchiveSize, ArchiveWriter, WriterOptions};

/// The archive format that is written, and the newest that is read.
pub const FORMAT_VERSION: &str = "1.1.0";
