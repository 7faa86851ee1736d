//! Writes the JSON log lines of a mover; progress at most once a second.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lifeboat_repository::progress::Progress;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::report::{Level, LogLine, Reading};

const INTERVAL: Duration = Duration::from_secs(1);

/// Writes lines. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<Mutex<Box<dyn Write + Send>>>);

impl Reporter {
    pub(super) fn new(output: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(output)))
    }

    /// Errors are ignored: the work must not stop because its log cannot be written.
    pub(super) fn line(&self, line: &LogLine) {
        let Ok(mut text) = serde_json::to_string(line) else { return };
        text.push('\n');
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }

    pub(super) fn message(&self, level: Level, text: &str) {
        self.line(&LogLine::Message { level, text: text.to_owned() });
    }
}

/// Reports the progress of work until it is dropped, or finished with a last line.
pub(super) struct ProgressReport {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Reporter {
    /// Starts reporting; `part` is the UID of the current part, if it is not the task's UID.
    pub(super) fn follow(&self, progress: &Arc<Progress>, part: Option<&str>) -> ProgressReport {
        let stop = CancellationToken::new();
        let (reporter, progress, stopped) = (self.clone(), Arc::clone(progress), stop.clone());
        let part = part.map(str::to_owned);
        let task = tokio::spawn(async move {
            let mut last = Reading { part: part.clone(), ..Reading::default() };
            let mut is_running = true;
            while is_running {
                tokio::select! {
                    () = tokio::time::sleep(INTERVAL) => {}
                    () = stopped.cancelled() => is_running = false,
                }
                let reading = Reading { part: part.clone(), ..reading(&progress) };
                if reading != last {
                    reporter.line(&LogLine::Progress(reading.clone()));
                    last = reading;
                }
            }
        });
        ProgressReport { stop, task }
    }
}

impl ProgressReport {
    pub(super) async fn finish(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for ProgressReport {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn reading(progress: &Progress) -> Reading {
    let reading = progress.read();
    Reading {
        part: None,
        step: reading.step.to_owned(),
        files_done: reading.files_done,
        files_total: reading.files_total,
        bytes_done: reading.bytes_done,
        bytes_total: reading.bytes_total,
        total_known: reading.total_known,
        errors: reading.errors,
    }
}
