//! Forgetting snapshots: the policy decides, the operation deletes.

pub mod policy;
