//! The invoker of a command that names it by flags, as upstream has them.

use super::names::{Kind, ObjectName};
use crate::args::object_name;

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct InvokerArgs {
    /// Name of the BackupConfiguration
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    backupconfig: Option<String>,
    /// Name of the BackupBatch
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    backupbatch: Option<String>,
}

impl InvokerArgs {
    pub(super) fn name(&self) -> ObjectName {
        match (&self.backupconfig, &self.backupbatch) {
            (Some(name), _) => ObjectName::new(Kind::BackupConfiguration, name),
            // clap insists on one of the two.
            (None, name) => ObjectName::new(Kind::BackupBatch, name.as_deref().unwrap_or_default()),
        }
    }

    #[cfg(test)]
    pub(super) fn of(name: &ObjectName) -> Self {
        let is_batch = name.kind == Kind::BackupBatch;
        let given = Some(name.name.clone());
        Self { backupconfig: given.clone().filter(|_| !is_batch), backupbatch: given.filter(|_| is_batch) }
    }
}
