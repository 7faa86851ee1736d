//! The second API server, for tests of schemas: no nodes, no controllers, its own prefix in etcd.
use std::fs;
use std::time::Duration;

use anyhow::Result;

use super::layout::{self, BARE_API_SERVER};
use super::progress::{step, wait};
use super::state::State;
use super::{components, config, kubectl, supervisor};

pub(super) fn up(state: &State) -> Result<()> {
    let kubeconfig = layout::bare_kubeconfig();
    config::write_kubeconfig(&kubeconfig, "admin", BARE_API_SERVER.number)?;
    supervisor::start(&components::bare_api_server(state))?;
    step("second API server", || wait(Duration::from_mins(1), || kubectl::is_ready(state, &kubeconfig)))
}

/// Stops it. Applied objects stay in etcd until the box is stopped.
pub(super) fn down() -> Result<()> {
    let _ = fs::remove_file(layout::bare_kubeconfig());
    supervisor::forget(BARE_API_SERVER.component)
}
