//! Copies a directory: counts first, then copies, and tells how far it is. What is not whole is never under its name.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lifeboat_plugin_sdk::{Error, Result, VolumeProgress};

const PIECE: usize = 64 * 1024;

/// How far a copy is.
pub(crate) struct Meter {
    total: AtomicI64,
    done: AtomicI64,
    stopped: AtomicBool,
    bytes_per_second: Option<u64>,
    started: SystemTime,
    end: Mutex<Option<(SystemTime, Option<String>)>>,
}

impl Meter {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            total: AtomicI64::new(0),
            done: AtomicI64::new(0),
            stopped: AtomicBool::new(false),
            bytes_per_second,
            started: SystemTime::now(),
            end: Mutex::new(None),
        }
    }

    pub(crate) fn end(&self, error: Option<String>) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some((SystemTime::now(), error));
    }

    pub(crate) fn progress(&self) -> VolumeProgress {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (phase, message) = match &end {
            None => ("InProgress", ""),
            Some((_, None)) => ("Completed", ""),
            Some((_, Some(error))) => ("Failed", error.as_str()),
        };
        VolumeProgress {
            phase: phase.to_owned(),
            message: message.to_owned(),
            bytes_done: self.done.load(Ordering::Acquire),
            total_bytes: self.total.load(Ordering::Acquire),
            started: Some(self.started),
            completed: end.map(|(at, _)| at),
            plugin_specific: [("method".to_owned(), "copy".to_owned())].into(),
        }
    }

    fn count(&self, bytes: usize) {
        self.done.fetch_add(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::AcqRel);
        if let Some(rate) = self.bytes_per_second.filter(|rate| *rate > 0) {
            std::thread::sleep(Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate));
        }
    }
}

/// A copy to be made.
pub(crate) struct Copied {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) meter: Arc<Meter>,
}

/// A caller that goes away stops the thread that copies for it.
struct Stop(Arc<Meter>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
    }
}

impl Copied {
    pub(crate) async fn run(self) -> Result<()> {
        let _stop = Stop(Arc::clone(&self.meter));
        tokio::task::spawn_blocking(move || {
            let Self { from, to, meter } = self;
            whole(&from, &to, &meter).map_err(|error| {
                Error::new(format!("cannot copy '{}' to '{}': {error}", from.display(), to.display()))
            })
        })
        .await?
    }
}

fn whole(from: &Path, to: &Path, meter: &Meter) -> io::Result<()> {
    let unfinished = to.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    meter.total.store(size(from)?, Ordering::Release);
    let copied = tree(from, &unfinished, meter).and_then(|()| fs::rename(&unfinished, to));
    if copied.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    copied
}

fn size(directory: &Path) -> io::Result<i64> {
    let mut total = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            total += size(&entry.path())?;
        } else if metadata.is_file() {
            total += i64::try_from(metadata.len()).unwrap_or(0);
        }
    }
    Ok(total)
}

fn tree(from: &Path, to: &Path, meter: &Meter) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            tree(&entry.path(), &target, meter)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
        } else if kind.is_file() {
            file(&entry.path(), &target, meter)?;
        } else {
            tracing::warn!(path = %entry.path().display(), "is no file or directory and is left out");
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

fn file(from: &Path, to: &Path, meter: &Meter) -> io::Result<()> {
    let (mut source, mut target) = (File::open(from)?, File::create(to)?);
    let mut piece = vec![0; PIECE];
    loop {
        if meter.stopped.load(Ordering::Acquire) {
            return Err(io::Error::other("the call was ended"));
        }
        match source.read(&mut piece)? {
            0 => break,
            count => {
                target.write_all(&piece[..count])?;
                meter.count(count);
            }
        }
    }
    target.sync_all()?;
    fs::set_permissions(to, source.metadata()?.permissions())
}
