//! Converts the output of plugins to log lines: limited in length and number, with level and fields if the plugin
//! writes hclog's JSON (as Velero's framework and our SDK do). The session's [`LogSink`] receives the lines.

mod lines;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

use lines::{Allowance, Lines};

/// How many of the last lines are kept for the error of a program that ends at once.
const LAST_LINES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

/// One line that a plugin logged.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The file name of the program.
    pub program: String,
    pub level: LogLevel,
    pub message: String,
    pub fields: BTreeMap<String, Value>,
}

/// Receives the log lines of plugins: a backup's log or the server's log. Must not block.
pub trait LogSink: Send + Sync {
    fn line(&self, line: LogLine);
}

/// The server's own log.
pub struct ServerLog;

impl LogSink for ServerLog {
    fn line(&self, line: LogLine) {
        let LogLine { program, level, message, fields } = line;
        let fields = serde_json::to_string(&fields).unwrap_or_default();
        match level {
            LogLevel::Debug => tracing::debug!(plugin = program, fields, "{message}"),
            LogLevel::Info => tracing::info!(plugin = program, fields, "{message}"),
            LogLevel::Warning => tracing::warn!(plugin = program, fields, "{message}"),
            LogLevel::Error => tracing::error!(plugin = program, fields, "{message}"),
        }
    }
}

/// The output of one process from all of its channels.
pub(super) struct Intake {
    program: String,
    sink: Arc<dyn LogSink>,
    state: Mutex<State>,
}

struct State {
    allowance: Allowance,
    last: VecDeque<String>,
}

impl Intake {
    pub(super) fn new(program: String, sink: Arc<dyn LogSink>) -> Arc<Self> {
        let state = State { allowance: Allowance::new(Instant::now()), last: VecDeque::new() };
        Arc::new(Self { program, sink, state: Mutex::new(state) })
    }

    /// The last lines, for errors.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }

    /// Reads until the end, whatever the amount.
    pub(super) async fn drain(self: Arc<Self>, mut from: impl AsyncRead + Unpin) {
        let mut lines = Lines::default();
        let mut buffer = vec![0_u8; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            self.take(&mut lines, &buffer[..count]);
        }
        self.end(&mut lines);
    }

    pub(super) fn take(&self, lines: &mut Lines, bytes: &[u8]) {
        lines.push(bytes, &mut |line| self.line(line));
    }

    pub(super) fn end(&self, lines: &mut Lines) {
        lines.finish(&mut |line| self.line(line));
    }

    fn line(&self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let (admitted, left_out) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.last.len() == LAST_LINES {
                state.last.pop_front();
            }
            state.last.push_back(super::error::shortened(text));
            state.allowance.admit(Instant::now())
        };
        if left_out > 0 {
            self.note(format!("{left_out} lines were dropped because the plugin logs too much"));
        }
        if admitted {
            let (level, message, fields) = read(text);
            self.sink.line(LogLine { program: self.program.clone(), level, message, fields });
        }
    }

    fn note(&self, message: String) {
        let (level, fields) = (LogLevel::Warning, BTreeMap::new());
        self.sink.line(LogLine { program: self.program.clone(), level, message, fields });
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let left_out = self.state.get_mut().map_or(0, |state| state.allowance.left_out());
        if left_out > 0 {
            self.note(format!("{left_out} lines were dropped because the plugin logged too much"));
        }
    }
}

pub(super) use lines::Lines as LineCutter;

/// Parses hclog's JSON, or takes the line as text.
fn read(text: &str) -> (LogLevel, String, BTreeMap<String, Value>) {
    let plain = || (LogLevel::Info, super::error::shortened(text), BTreeMap::new());
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) else { return plain() };
    let Some(message) = object.get("@message").and_then(Value::as_str) else { return plain() };
    let level = match object.get("@level").and_then(Value::as_str).unwrap_or("info") {
        "trace" | "debug" => LogLevel::Debug,
        "warn" | "warning" => LogLevel::Warning,
        "error" | "fatal" | "panic" => LogLevel::Error,
        _ => LogLevel::Info,
    };
    let message = super::error::shortened(message);
    let known = ["@message", "@level", "@timestamp", "@module", "level", "time", "timestamp"];
    let fields = object.into_iter().filter(|(name, _)| !known.contains(&name.as_str())).collect();
    (level, message, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<LogLine>>);

    impl LogSink for Kept {
        fn line(&self, line: LogLine) {
            self.0.lock().unwrap().push(line);
        }
    }

    #[test]
    fn a_line_of_veleros_framework_keeps_level_and_fields() {
        let line = r#"{"@level":"warn","@message":"odd","level":"warning","backup":"a/b","n":1}"#;
        let (level, message, fields) = read(line);
        assert_eq!((level, message.as_str()), (LogLevel::Warning, "odd"));
        assert_eq!(serde_json::to_string(&fields).unwrap(), r#"{"backup":"a/b","n":1}"#);
        assert_eq!(read("panic: oops").1, "panic: oops");
        assert_eq!(read(r#"{"a":1}"#).1, r#"{"a":1}"#);
    }

    #[tokio::test]
    async fn a_flood_is_counted_and_not_kept() {
        let kept = Arc::new(Kept::default());
        let intake = Intake::new("x".into(), kept.clone());
        let flood = "line\n".repeat(200_000);
        Arc::clone(&intake).drain(flood.as_bytes()).await;
        assert_eq!(intake.last_lines().len(), LAST_LINES);
        drop(intake);
        let lines = kept.0.lock().unwrap();
        assert!(lines.len() < 5_000, "{}", lines.len());
        assert!(lines.last().unwrap().message.contains("lines were dropped"));
    }
}
