//! Bounds of the lists and strings that validation rules iterate over.
//!
//! The API server multiplies these to estimate the cost of a rule, so they are as large as users need and no larger.
//! A RestoreBatch restores what a BackupBatch backed up: both accept the same number of members.

/// Members of a batch.
pub(super) const MEMBERS: usize = 64;
/// Restore rules of one target.
pub(super) const RULES: usize = 48;
/// Hosts named by one restore rule.
pub(super) const HOSTS: usize = 48;
/// [`RULES`] for each member of a batch.
pub(super) const MEMBER_RULES: usize = 16;
/// [`HOSTS`] for each member of a batch.
pub(super) const MEMBER_HOSTS: usize = 16;
/// Any other list that a rule iterates over.
pub(super) const LIST: usize = 128;
/// Names of objects, hosts and volumes.
pub(super) const NAME: usize = 253;
/// Schedules and durations.
pub(super) const TIME: usize = 256;
/// Paths in a file system.
pub(super) const PATH: usize = 4096;
/// Resources that a selector of the cluster's objects names, as many as one admission policy can check.
pub(super) const RESOURCES: usize = 16;
/// Databases of other namespaces, as many as one admission policy can check.
pub(super) const OTHER_DATABASES: usize = 8;
/// A directory in a backend that a user chooses.
pub(super) const PREFIX: usize = 512;
