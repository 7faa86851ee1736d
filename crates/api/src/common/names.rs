//! Labels that objects of every API have, with Velero's names where Velero itself reads them.

/// Label, with value "true": the object is excluded from backups.
pub const EXCLUDE_FROM_BACKUP: &str = "velero.io/exclude-from-backup";
