//! The server's flags for restores.

use std::time::Duration;

use lifeboat_operator::RestoreSettings;
use lifeboat_plan::restore::priorities::Priorities;

use super::duration;

#[derive(clap::Args)]
pub(super) struct RestoreArgs {
    /// Types to restore first, in this order; after a "-", types to restore last
    #[arg(long, value_name = "TYPE,...,-,TYPE,...", default_value_t = Priorities::default(), hide_default_value = true)]
    restore_resource_priorities: Priorities,
    /// How long a restored item waits for its additional items, unless the plugin sets another time
    #[arg(long, default_value = "10m0s", value_parser = duration)]
    additional_items_ready_timeout: Duration,
    /// How long a restore waits for a namespace or an object that is being deleted
    #[arg(long, default_value = "10m0s", value_parser = duration)]
    terminating_resource_timeout: Duration,
}

impl RestoreArgs {
    pub(super) fn settings(self, resource_timeout: Duration, operation_timeout: Duration) -> RestoreSettings {
        RestoreSettings {
            priorities: self.restore_resource_priorities,
            ready_timeout: self.additional_items_ready_timeout,
            terminating_timeout: self.terminating_resource_timeout,
            resource_timeout,
            operation_timeout,
        }
    }
}
