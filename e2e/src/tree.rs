//! File trees for tests of backups: `everything` creates one with every kind of metadata, `change` creates and changes
//! one at random, `Listing` reads a tree from disk and lists its differences to another one.
#![allow(clippy::unnecessary_debug_formatting)] // names with line breaks and invalid UTF-8 must be seen as they are

mod everything;
mod listing;
mod random;

pub use everything::everything;
pub use listing::{Content, Entry, Listing};
pub use random::{Random, change};
