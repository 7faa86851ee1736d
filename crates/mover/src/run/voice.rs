//! What a mover says while it works: one JSON line after the other, progress at most once a second.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lifeboat_repository::progress::Progress;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::report::{Level, Line, Reading};

const BETWEEN: Duration = Duration::from_secs(1);

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Voice(Arc<Mutex<Box<dyn Write + Send>>>);

impl Voice {
    pub(super) fn new(output: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(output)))
    }

    /// A log that takes no more lines is no reason to stop.
    pub(super) fn say(&self, line: &Line) {
        let Ok(mut text) = serde_json::to_string(line) else { return };
        text.push('\n');
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }

    pub(super) fn message(&self, level: Level, text: &str) {
        self.say(&Line::Message { level, text: text.to_owned() });
    }
}

/// Tells how far the work is, until it is finished.
pub(super) struct Telling {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

pub(super) fn tell(voice: &Voice, progress: &Arc<Progress>) -> Telling {
    let stop = CancellationToken::new();
    let (voice, progress, stopped) = (voice.clone(), Arc::clone(progress), stop.clone());
    let task = tokio::spawn(async move {
        let mut last = Reading::default();
        let mut going = true;
        while going {
            tokio::select! {
                () = tokio::time::sleep(BETWEEN) => {}
                () = stopped.cancelled() => going = false,
            }
            let reading = reading(&progress);
            if reading != last {
                voice.say(&Line::Progress(reading.clone()));
                last = reading;
            }
        }
    });
    Telling { stop, task }
}

impl Telling {
    pub(super) async fn finish(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

fn reading(progress: &Progress) -> Reading {
    let reading = progress.read();
    Reading {
        step: reading.step.to_owned(),
        files_done: reading.files_done,
        files_total: reading.files_total,
        bytes_done: reading.bytes_done,
        bytes_total: reading.bytes_total,
        total_known: reading.total_known,
        errors: reading.errors,
    }
}
