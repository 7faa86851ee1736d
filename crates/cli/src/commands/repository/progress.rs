//! Shows the progress of an operation: a bar on a terminal, restic's status messages with JSON, nothing otherwise.
//! Reads the operation's counters at intervals.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lifeboat_repository::progress::{Progress, Reading};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::output;
use super::session::Session;

/// How often status messages are printed by default.
const JSON_INTERVAL: Duration = Duration::from_secs(1);
const BAR_INTERVAL: Duration = Duration::from_millis(100);

/// Makes a status message from the counters and the time since the start.
pub(crate) type Message = fn(&Reading, Duration) -> Value;

/// Shows progress until it is stopped or dropped.
pub(crate) struct Shown {
    bar: Option<ProgressBar>,
    task: Option<JoinHandle<()>>,
}

impl Shown {
    /// Starts to show `progress`; without `message` no JSON messages are printed.
    pub(crate) fn start(session: &Session, progress: &Arc<Progress>, message: Option<Message>) -> Self {
        let settings = &session.settings;
        let every =
            |usual| settings.frames.map_or(usual, |frames| Duration::from_secs_f64(1.0 / frames.max(0.01)));
        if session.is_json() {
            let Some(message) = message.filter(|_| !settings.quiet) else {
                return Self { bar: None, task: None };
            };
            return Self {
                bar: None,
                task: Some(tokio::spawn(print(Arc::clone(progress), message, every(JSON_INTERVAL)))),
            };
        }
        if !settings.is_for_people() || !std::io::stderr().is_terminal() {
            return Self { bar: None, task: None };
        }
        let bar = output::bars().add(ProgressBar::new(0));
        let task = tokio::spawn(draw(Arc::clone(progress), bar.clone(), every(BAR_INTERVAL)));
        Self { bar: Some(bar), task: Some(task) }
    }

    /// Whether progress is shown at all; if not, the operation need not scan ahead for totals.
    pub(crate) fn is_wanted(session: &Session) -> bool {
        let settings = &session.settings;
        !settings.quiet
            && (session.is_json() || (settings.is_for_people() && std::io::stderr().is_terminal()))
    }

    /// Stops and clears the line, before results are printed.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

async fn print(progress: Arc<Progress>, message: Message, interval: Duration) {
    let start = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        if output::line_of_json(&message(&progress.read(), start.elapsed())).is_err() {
            return;
        }
    }
}

async fn draw(progress: Arc<Progress>, bar: ProgressBar, interval: Duration) {
    let start = Instant::now();
    let mut ticks = tokio::time::interval(interval);
    let mut counted_in_bytes = None;
    loop {
        ticks.tick().await;
        let reading = progress.read();
        let in_bytes = reading.bytes_total > 0 || reading.bytes_done > 0;
        if counted_in_bytes != Some(in_bytes) {
            counted_in_bytes = Some(in_bytes);
            bar.set_style(style(in_bytes));
        }
        let (done, total) = if in_bytes {
            (reading.bytes_done, reading.bytes_total)
        } else {
            (reading.files_done, reading.files_total)
        };
        bar.set_length(total.max(done));
        bar.set_position(done);
        bar.set_prefix(reading.step);
        bar.set_message(bar_message(&reading, start.elapsed()));
    }
}

fn style(in_bytes: bool) -> ProgressStyle {
    let template = if in_bytes {
        "{prefix} [{elapsed}] {percent:>3}% {bytes}/{total_bytes} {binary_bytes_per_sec} rest {eta} {wide_msg}"
    } else {
        "{prefix} [{elapsed}] {percent:>3}% {pos}/{len} rest {eta} {wide_msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn bar_message(reading: &Reading, _elapsed: Duration) -> String {
    let total = if reading.total_known { "" } else { "+" };
    let files = if reading.files_total > 0 {
        format!("{}/{}{total} files ", reading.files_done, reading.files_total)
    } else {
        String::new()
    };
    let errors = if reading.errors > 0 { format!("{} errors ", reading.errors) } else { String::new() };
    format!("{files}{errors}{}", reading.current)
}

/// restic's status message of a backup. Like restic, it leaves out fields that are zero.
pub(crate) fn backup_status(reading: &Reading, elapsed: Duration) -> Value {
    let mut message = json!({"message_type": "status", "percent_done": share(reading)});
    let remaining = remaining(reading, elapsed);
    for (name, number) in [
        ("seconds_elapsed", elapsed.as_secs()),
        ("seconds_remaining", remaining),
        ("total_files", reading.files_total),
        ("files_done", reading.files_done),
        ("total_bytes", reading.bytes_total),
        ("bytes_done", reading.bytes_done),
        ("error_count", reading.errors),
    ] {
        if number > 0 {
            message[name] = number.into();
        }
    }
    if !reading.current.is_empty() {
        message["current_files"] = json!([reading.current]);
    }
    message
}

/// restic's status message of a restore.
pub(crate) fn restore_status(reading: &Reading, elapsed: Duration) -> Value {
    let mut message = json!({"message_type": "status", "percent_done": share(reading)});
    for (name, number) in [
        ("seconds_elapsed", elapsed.as_secs()),
        ("total_files", reading.files_total),
        ("files_restored", reading.files_done),
        ("total_bytes", reading.bytes_total),
        ("bytes_restored", reading.bytes_done),
    ] {
        if number > 0 {
            message[name] = number.into();
        }
    }
    message
}

#[allow(clippy::cast_precision_loss, reason = "a share for people")]
fn share(reading: &Reading) -> f64 {
    if reading.bytes_total == 0 { 0.0 } else { reading.bytes_done as f64 / reading.bytes_total as f64 }
}

/// Seconds until the end at the rate so far; 0 while the rate is unknown.
fn remaining(reading: &Reading, elapsed: Duration) -> u64 {
    let left = reading.bytes_total.saturating_sub(reading.bytes_done);
    if !reading.total_known || reading.bytes_done == 0 {
        return 0;
    }
    u64::try_from(u128::from(left) * elapsed.as_millis() / u128::from(reading.bytes_done) / 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_restics_and_leaves_out_what_is_zero() {
        let mut reading = Reading {
            bytes_total: 200,
            bytes_done: 50,
            files_total: 3,
            total_known: true,
            ..Reading::default()
        };
        let message = backup_status(&reading, Duration::from_secs(10));
        assert_eq!(
            message,
            json!({"message_type": "status", "percent_done": 0.25, "seconds_elapsed": 10, "seconds_remaining": 30,
                "total_files": 3, "total_bytes": 200, "bytes_done": 50})
        );
        reading.current = "/a".into();
        assert_eq!(backup_status(&reading, Duration::ZERO)["current_files"], json!(["/a"]));
    }
}
