//! Sets the CPU priority of the mover. The kernel derives the disk priority from it.

use std::io;

use rustix::process::{Pid, setpriority_process};

use super::reporter::Reporter;
use crate::report::Level;

/// A priority that cannot be set, such as a higher one without the capability, is only reported.
pub(super) fn set(reporter: &Reporter, nice: Option<i32>) {
    let Some(nice) = nice else { return };
    if let Err(error) = set_all(nice) {
        reporter.message(Level::Warning, &format!("cannot set the CPU priority (nice) to {nice}: {error}"));
    }
}

/// In Linux a priority belongs to a thread. Threads that are started later inherit it.
fn set_all(nice: i32) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/task")? {
        let thread = entry?.file_name();
        if let Some(thread) = thread.to_str().and_then(|number| Pid::from_raw(number.parse().ok()?)) {
            setpriority_process(Some(thread), nice)?;
        }
    }
    Ok(())
}
