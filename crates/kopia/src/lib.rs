//! A reader of kopia repositories. ARCHITECTURE.md describes how the modules work together; docs/kopia.md says what is read.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod blobs;
mod compress;
mod crypto;
mod ecc;
mod error;
mod format;
mod id;
mod index;
mod live;

pub use error::{Error, Result, Retry};
