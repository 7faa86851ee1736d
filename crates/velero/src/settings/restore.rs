//! Settings of restores.

use std::time::Duration;

use lifeboat_plan::items::priorities::Priorities;

#[derive(Clone, Debug)]
pub struct RestoreSettings {
    /// Which types are restored first and last.
    pub priorities: Priorities,
    /// How long additional items may take to be ready if the action sets no limit.
    pub ready_timeout: Duration,
    /// How long a namespace or an object that is being deleted may take to be gone.
    pub terminating_timeout: Duration,
    /// How long a CustomResourceDefinition may take to be established.
    pub resource_timeout: Duration,
    /// How long operations and hooks may take if a Restore sets no timeout.
    pub operation_timeout: Duration,
}

impl Default for RestoreSettings {
    fn default() -> Self {
        Self {
            priorities: Priorities::default(),
            ready_timeout: Duration::from_mins(10),
            terminating_timeout: Duration::from_mins(10),
            resource_timeout: Duration::from_mins(10),
            operation_timeout: Duration::from_hours(4),
        }
    }
}
