//! Progress of `up` and `down`: one line per step with its seconds, on standard error. Lines are plain if standard
//! error is not a terminal.
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

/// Runs one step and prints what it does and how long it took.
pub(super) fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    show(what, std::io::stderr().is_terminal(), work)
}

/// Runs a step that runs beside others: it prints a complete line when it has ended.
pub(super) fn step_beside<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    show(what, false, work)
}

fn show<T>(what: &str, redraw: bool, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    if redraw {
        eprint!("  …  {what}");
        let _ = std::io::stderr().flush();
    } else {
        eprintln!("  ..  {what}");
    }
    let result = work();
    let mark = if result.is_ok() { "ok" } else { "failed" };
    let clear = if redraw { "\r\x1b[K" } else { "" };
    eprintln!("{clear}  {mark}  {what} ({})", seconds(began.elapsed()));
    result
}

/// Prints a remark between steps.
pub(super) fn note(text: &str) {
    eprintln!("  --  {text}");
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Repeats an attempt until it succeeds or the time is over; returns the last error.
pub(super) fn wait<T>(limit: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("not ready after {} s", limit.as_secs())));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(150)),
        }
    }
}
