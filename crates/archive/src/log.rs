//! The log of a backup or restore, in logrus's text format, which stock clients display. Lines are compressed into an
//! unnamed temporary file, so that memory is one buffer; at the end the file is uploaded. Warnings and errors are
//! counted. Called by the backup and restore pipelines, from any task.

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

/// How many bytes of the file are read at once during the upload.
const CHUNK: usize = 256 * 1024;

/// The severity of a line.
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

/// The number of warnings and errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    pub warnings: u64,
    pub errors: u64,
}

/// A log in progress. Cheap to clone; all clones write to the same log.
#[derive(Clone)]
pub struct RunLog {
    inner: Arc<Mutex<Inner>>,
    /// For example `backup=velero/nightly`: written into every line.
    context: Arc<[(String, String)]>,
    least: Level,
}

struct Inner {
    encoder: GzEncoder<File>,
    counts: LogCounts,
    /// The error because of which lines are missing, if there was one.
    lost: Option<io::Error>,
}

impl RunLog {
    /// Creates a log in a file below `directory`. `context` is written into every line.
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

    /// Writes a line. If the log cannot be written (a full disk), the backup continues; the end of the log says that
    /// lines are missing.
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
            tracing::warn!(%error, "the log of a backup or restore cannot be written; lines are missing");
            inner.lost = Some(error);
        }
    }

    pub fn counts(&self) -> LogCounts {
        self.locked().counts
    }

    /// Completes the compressed file so far and uploads it to `key`. More lines can be written and uploaded later.
    pub async fn upload(&self, store: &dyn ObjectStore, key: &str) -> Result<u64, StoreError> {
        let file =
            self.cut().map_err(|error| StoreError::Source(format!("cannot write the log: {error}")))?;
        store.put_stream(key, body(file)).await
    }

    /// Ends the current gzip member and starts the next one, so that the file is complete.
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
            format!("time=\"{}\" level={} msg=", lifeboat_api::common::time::seconds(now), level.as_str());
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

/// The file in chunks, read on a blocking thread.
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

/// Quotes a value as logrus does: if it contains anything but letters, digits and `-._/@^+`; an empty value is not
/// quoted.
fn value(line: &mut String, text: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@^+".contains(c);
    if text.chars().all(plain) {
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::MultiGzDecoder;
    use lifeboat_store::Store;
    use rstest::rstest;

    use super::*;

    async fn text(store: &Store, key: &str) -> String {
        let mut text = String::new();
        MultiGzDecoder::new(&store.get(key).await.unwrap()[..]).read_to_string(&mut text).unwrap();
        text
    }

    #[tokio::test]
    async fn lines_are_those_of_logrus_and_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let log = RunLog::create(directory.path(), &[("backup", "velero/golden")], Level::Info).unwrap();
        log.info("Listing items", &[("resource", "pods"), ("group", "v1")]);
        log.debug("not shown", &[]);
        log.warning("Cannot find resource 'x'.", &[]);
        log.error("it failed", &[("error", "a \"b\"\nc")]);
        let store = Store::memory();
        log.upload(&store, "log").await.unwrap();
        let first = text(&store, "log").await;
        let lines: Vec<&str> = first.lines().collect();
        let rest = |line: &str| line.split_once("Z\" ").unwrap().1.to_owned();
        assert!(lines[0].starts_with("time=\"20"));
        assert_eq!(
            rest(lines[0]),
            "level=info msg=\"Listing items\" backup=velero/golden group=v1 resource=pods"
        );
        assert_eq!(rest(lines[1]), "level=warning msg=\"Cannot find resource 'x'.\" backup=velero/golden");
        assert_eq!(
            rest(lines[2]),
            "level=error msg=\"it failed\" backup=velero/golden error=\"a \\\"b\\\"\\nc\""
        );
        assert_eq!(log.counts(), LogCounts { warnings: 1, errors: 1 });

        log.info("more", &[]);
        log.upload(&store, "log").await.unwrap();
        assert_eq!(text(&store, "log").await.lines().count(), 4);
    }

    #[rstest]
    #[case::plain("golden/web-1.x@2^3+4", "golden/web-1.x@2^3+4")]
    #[case::space("a b", "\"a b\"")]
    #[case::empty("", "")]
    #[case::equals("a=b", "\"a=b\"")]
    #[case::control("a\u{1}b", "\"a\\u0001b\"")]
    fn values_are_quoted_where_a_reader_needs_it(#[case] text: &str, #[case] expected: &str) {
        let mut line = String::new();
        value(&mut line, text);
        assert_eq!(line, expected);
    }

    /// Key and value of each pair of a line, values as they were before they were quoted.
    fn pairs(line: &str) -> Vec<(String, String)> {
        let mut rest = line;
        let mut pairs = Vec::new();
        while let Some((key, after)) = rest.split_once('=') {
            let value: serde_json::StreamDeserializer<'_, _, String> =
                serde_json::Deserializer::from_str(after).into_iter();
            let (value, end) = if after.starts_with('"') {
                let mut value = value;
                (value.next().unwrap().unwrap(), value.byte_offset())
            } else {
                let end = after.find(' ').unwrap_or(after.len());
                (after[..end].to_owned(), end)
            };
            pairs.push((key.trim().to_owned(), value));
            rest = &after[end..];
        }
        pairs
    }

    #[rstest]
    #[case::backup("backups/golden/golden-logs.gz")]
    #[case::restore("restores/golden-back/restore-golden-back-logs.gz")]
    fn every_line_of_velero_is_written_the_same(#[case] key: &str) {
        let path = format!("{}/tests/golden/velero-1.18.3/bucket/{key}", env!("CARGO_MANIFEST_DIR"));
        let mut text = String::new();
        MultiGzDecoder::new(&std::fs::read(path).unwrap()[..]).read_to_string(&mut text).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let log = RunLog::create(directory.path(), &[], Level::Debug).unwrap();
        for line in text.lines() {
            let all = pairs(line);
            let level = match all[1].1.as_str() {
                "info" => Level::Info,
                "warning" => Level::Warning,
                "error" => Level::Error,
                _ => Level::Debug,
            };
            let fields: Vec<_> =
                all[3..].iter().rev().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let ours = log.line(level, &all[2].1, &fields, all[0].1.parse().unwrap());
            assert_eq!(ours.trim_end(), line);
        }
        assert!(text.lines().count() > 50);
    }
}
