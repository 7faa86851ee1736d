//! The built-in actions, with the names that stock Velero uses.

pub mod backup;
pub mod restore;
