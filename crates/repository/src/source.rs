//! The source of a backup: the file system as it is. `targets` says what the snapshot's tree looks like, `walk`
//! opens directories and files by handles, `metadata` makes their nodes, `patterns` and `exclude` say what is left
//! out, `scan` counts ahead for the progress display. The backup pipeline calls all of them; restore uses the
//! patterns and the accounts.

pub mod accounts;
pub mod change;
pub mod metadata;
pub mod stat;
mod xattr;
mod zone;
