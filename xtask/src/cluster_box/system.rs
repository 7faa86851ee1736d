//! System calls of the box that exist only on Linux. On other systems they return an error: xtask must compile there,
//! if only to say that the box needs Linux (`preflight::machine`).
use std::path::Path;

use anyhow::Result;

use super::process::Process;

/// Kills a process. A pidfd is opened before the process is checked, so that no other process can be killed.
#[cfg(target_os = "linux")]
pub(super) fn kill(process: Process) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process.is_alive() {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Unmounts; a mount that is in use is detached.
#[cfg(target_os = "linux")]
pub(super) fn unmount(target: &Path) -> Result<()> {
    use rustix::mount::{UnmountFlags, unmount};
    Ok(unmount(target, UnmountFlags::empty()).or_else(|_| unmount(target, UnmountFlags::DETACH))?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_process: Process) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn unmount(target: &Path) -> Result<()> {
    anyhow::bail!("cannot unmount {} on this system", target.display())
}
