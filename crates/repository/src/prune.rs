//! Freeing space that no snapshot needs: `plan` decides, the operation carries it out.

mod entry_set;
pub mod plan;

pub use entry_set::EntrySet;
