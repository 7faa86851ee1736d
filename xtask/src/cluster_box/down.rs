//! `down`: undoes what the state file lists, in the order of dependencies: processes, mounts, loop devices, interfaces,
//! packet filter, control groups, kernel settings, files. Works on a box in any condition.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::cgroup::Hierarchies;
use super::layout::STATE;
use super::lock::Lock;
use super::process::{self, Process};
use super::progress::{note, step};
use super::state::{self, Found, State};
use super::{firewall, leftovers, mounts, network, preflight, supervisor};

pub(super) fn down() -> Result<()> {
    preflight::machine()?;
    let _lock = Lock::acquire("box", "another clone starts or stops the box")?;
    match state::find()? {
        Found::Nothing => {
            note("there is no box on this machine");
            return Ok(());
        }
        Found::Running(state) | Found::Stale(state, _) => clean(&state)?,
    }
    note("the box is down");
    Ok(())
}

/// Removes everything of a box. It can be repeated, so the next `down` finishes an interrupted one.
pub(super) fn clean(state: &State) -> Result<()> {
    let this_boot = state.boot_id == process::boot_id();
    let dir = Path::new(STATE);
    if this_boot {
        step("end its processes", || end_processes(&state.id))?;
    }
    step("remove its mounts and loop devices", || {
        leftovers::remove(&state.created_paths)?;
        // Block volumes first, because they keep the file system of their files in use; then the devices that the
        // unmounting freed.
        mounts::detach_loops_below(dir)?;
        mounts::unmount_below(dir)?;
        mounts::detach_loops_below(dir)
    })?;
    if this_boot {
        step("remove its network", || {
            network::remove_bridges()?;
            firewall::close(&state.firewall)?;
            network::restore_settings(&state.sysctls)
        })?;
        step("remove its control groups", || Hierarchies::detect()?.remove(&state.controllers))?;
    }
    step("remove its files", || fs::remove_dir_all(dir).with_context(|| format!("cannot remove {STATE}")))
}

/// Ends the supervisor first, because it would restart processes; then the recorded processes; then all others that
/// carry the box's id or are in its control groups (shims and containers outlive their containerd).
fn end_processes(id: &str) -> Result<()> {
    let _ = supervisor::shutdown();
    let recorded = || -> BTreeSet<Process> {
        state::recorded().into_iter().map(|each| each.process).filter(|each| each.is_alive()).collect()
    };
    process::end_all(recorded)?;
    process::end_all(|| process::belonging_to(id)).map(drop)
}
