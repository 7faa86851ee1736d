//! File trees for tests of backups: `everything` makes one with every kind of metadata, `change` makes and changes one
//! at random, `Listing` reads a tree as it is on disk, and its differences to another one are told one by one.
#![allow(clippy::unnecessary_debug_formatting)] // names with line breaks and invalid UTF-8 must be seen as they are

mod everything;
mod listing;
mod random;

pub use everything::everything;
pub use listing::{Content, Entry, Listing};
pub use random::{Random, change};
