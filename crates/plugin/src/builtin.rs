//! The actions that every installation has, under upstream's names.

pub mod backup;
pub mod restore;
