//! The log of a backup or restore, in logrus's text format, as stock clients show it. Lines go compressed into a file
//! without a name, so memory is a buffer; at the end the file goes into storage. Counts what was a warning or an error.
//! Called by the backup and restore pipelines, from any task.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use jiff::Timestamp;

use crate::object_store::{ByteStream, ObjectStore, StoreError};

/// Bytes that are read from the file at once when it goes into storage.
const CHUNK: usize = 256 * 1024;

/// How bad a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// How many lines were warnings and errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    pub warnings: u64,
    pub errors: u64,
}

/// A log that is being written. Cheap to clone; all clones write the same log.
#[derive(Clone)]
pub struct RunLog {
    inner: Arc<Mutex<Inner>>,
    /// Such as `backup=velero/nightly`: written in every line.
    context: Arc<[(String, String)]>,
    least: Level,
}

struct Inner {
    encoder: GzEncoder<File>,
    counts: LogCounts,
    /// Why lines are missing, if they are.
    lost: Option<io::Error>,
}

impl RunLog {
    /// A log in a file below `directory`. `context` is put into every line.
    pub fn create(directory: &Path, context: &[(&str, &str)], least: Level) -> io::Result<Self> {
        let encoder = GzEncoder::new(tempfile::tempfile_in(directory)?, Compression::new(5));
        let inner = Inner { encoder, counts: LogCounts::default(), lost: None };
        let context = context.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        Ok(Self { inner: Arc::new(Mutex::new(inner)), context, least })
    }

    pub fn info(&self, message: &str, fields: &[(&str, &str)]) {
        self.write(Level::Info, message, fields);
    }

    pub fn warning(&self, message: &str, fields: &[(&str, &str)]) {
        self.write(Level::Warning, message, fields);
    }

    pub fn error(&self, message: &str, fields: &[(&str, &str)]) {
        self.write(Level::Error, message, fields);
    }

    pub fn debug(&self, message: &str, fields: &[(&str, &str)]) {
        self.write(Level::Debug, message, fields);
    }

    /// Writes a line. A log that cannot be written (a full disk) stops no backup; its end says what is missing.
    pub fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let line = (level >= self.least).then(|| self.line(level, message, fields, Timestamp::now()));
        let mut inner = self.locked();
        match level {
            Level::Warning => inner.counts.warnings += 1,
            Level::Error => inner.counts.errors += 1,
            Level::Debug | Level::Info => {}
        }
        if let Some(line) = line
            && inner.lost.is_none()
            && let Err(error) = inner.encoder.write_all(line.as_bytes())
        {
            tracing::warn!(%error, "the log of a backup or restore is cut");
            inner.lost = Some(error);
        }
    }

    pub fn counts(&self) -> LogCounts {
        self.locked().counts
    }

    /// Ends the compressed file so far and writes it to `key`. Lines can be added afterwards and uploaded again.
    pub async fn upload(&self, store: &dyn ObjectStore, key: &str) -> Result<u64, StoreError> {
        let file =
            self.cut().map_err(|error| StoreError::Source(format!("cannot write the log: {error}")))?;
        store.put_stream(key, body(file)).await
    }

    /// Ends the current gzip member and begins the next, so that the file is whole.
    fn cut(&self) -> io::Result<File> {
        let mut inner = self.locked();
        if let Some(error) = &inner.lost {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        inner.encoder.try_finish()?;
        let file = inner.encoder.get_ref().try_clone()?;
        inner.encoder = GzEncoder::new(file.try_clone()?, Compression::new(5));
        Ok(file)
    }

    fn line(&self, level: Level, message: &str, fields: &[(&str, &str)], now: Timestamp) -> String {
        let mut line =
            format!("time=\"{}\" level={} msg=", lifeboat_plan::time::seconds(now), level.as_str());
        value(&mut line, message);
        let context = self.context.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut all: Vec<(&str, &str)> = context.chain(fields.iter().copied()).collect();
        all.sort_by_key(|(key, _)| *key);
        for (key, text) in all {
            line.push(' ');
            line.push_str(key);
            line.push('=');
            value(&mut line, text);
        }
        line.push('\n');
        line
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file in chunks, read beside the runtime.
fn body(file: File) -> ByteStream {
    let file = Arc::new(file);
    futures::stream::try_unfold(0_u64, move |offset| {
        let file = Arc::clone(&file);
        async move {
            let read = tokio::task::spawn_blocking(move || {
                let mut chunk = vec![0; CHUNK];
                let length = file.read_at(&mut chunk, offset)?;
                chunk.truncate(length);
                io::Result::Ok(Bytes::from(chunk))
            });
            let chunk = match read.await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Err(StoreError::Source(format!("cannot read the log: {error}"))),
                Err(_) => return Err(StoreError::Source("reading the log was stopped".into())),
            };
            let next = offset + chunk.len() as u64;
            Ok((!chunk.is_empty()).then_some((chunk, next)))
        }
    })
    .boxed()
}

/// Quoted as logrus does: where something other than letters, digits and `-._/@^+` is in it.
fn value(line: &mut String, text: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@^+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        line.push_str(text);
        return;
    }
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
            c => line.push(c),
        }
    }
    line.push('"');
}
