//! Compares an existing file with the blobs that it should have, so that only differing parts are written, and for
//! verification. The walk starts a comparison, worker threads read and hash, and the walk collects the result later.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, Result as SystemResult};

use super::directory::DirRef;
use super::feed::Feed;
use super::shared::Shared;
use super::work::Job;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Id};
use crate::node::Node;
use crate::source::stat::Stat;

/// How many blobs one thread compares at a time: large files are shared by all threads.
const PART: usize = 64;

/// A file that is being compared.
pub(super) struct Comparing {
    pub(super) directory: DirRef,
    pub(super) node: Node,
    pub(super) stat: Stat,
    results: Receiver<(usize, Vec<bool>)>,
}

/// A part of a file for one thread.
pub(super) struct Comparison {
    directory: DirRef,
    name: Vec<u8>,
    blobs: Vec<(BlobId, u32)>,
    /// The offset in the file of the first blob, and its number.
    at: u64,
    first: usize,
    result: Sender<(usize, Vec<bool>)>,
}

impl Comparing {
    /// Distributes the parts to the workers.
    pub(super) fn start(feed: &Feed, directory: &DirRef, node: Node, stat: Stat) -> Result<Self> {
        let (result, results) = crossbeam_channel::unbounded();
        let index = directory.shared().reader.index();
        let mut at = 0_u64;
        for (number, part) in node.blobs().chunks(PART).enumerate() {
            let part_at = at;
            let mut blobs = Vec::with_capacity(part.len());
            for id in part {
                // A blob that is in no pack has no known length; it and all following ones count as different.
                let Some(location) = index.find(BlobKind::Data, id)? else { break };
                blobs.push((*id, location.plain_length()));
                at = at.saturating_add(location.plain_length().into());
            }
            let complete = blobs.len() == part.len();
            feed.job(Job::Compare(Comparison {
                directory: directory.clone(),
                name: node.name.clone(),
                blobs,
                at: part_at,
                first: number * PART,
                result: result.clone(),
            }))?;
            if !complete {
                break;
            }
        }
        Ok(Self { directory: directory.clone(), node, stat, results })
    }

    /// Which blobs of the file are correct.
    pub(super) fn matches(&self) -> Result<Vec<bool>> {
        let mut matches = vec![false; self.node.blobs().len()];
        // Ends when every part has sent its result: each drops its sender.
        while let Ok((first, part)) = self.results.recv() {
            for (slot, same) in matches.iter_mut().skip(first).zip(part) {
                *slot = same;
            }
        }
        self.directory.shared().check_running()?;
        Ok(matches)
    }
}

impl Comparison {
    /// Reads and compares; a file that cannot be read differs completely.
    pub(super) fn carry_out(self, shared: &Shared, buffer: &mut Vec<u8>) {
        let same = self.compare(shared, buffer).unwrap_or_default();
        // If the walk was cancelled, the receiver is gone.
        let _ = self.result.send((self.first, same));
    }

    fn compare(&self, shared: &Shared, buffer: &mut Vec<u8>) -> SystemResult<Vec<bool>> {
        let directory = self.directory.handle()?;
        let (file, size) = open_file(&directory, &self.name)?;
        let mut at = self.at;
        let mut same = Vec::with_capacity(self.blobs.len());
        for (id, length) in &self.blobs {
            if shared.cancel.is_cancelled() {
                break;
            }
            let end = at.saturating_add(u64::from(*length));
            same.push(
                end <= size && {
                    buffer.resize(*length as usize, 0);
                    read_exact(&file, buffer, at)? && Id::of(buffer) == id.0
                },
            );
            at = end;
        }
        Ok(same)
    }
}

/// Opens a regular file for reading, and nothing else.
fn open_file(directory: &Arc<OwnedFd>, name: &[u8]) -> SystemResult<(OwnedFd, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let stat = Stat::of(&file).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if stat.is_file() { Ok((file, stat.size)) } else { Err(Errno::STALE) }
}

/// False if the file ends earlier.
fn read_exact(file: &OwnedFd, mut buffer: &mut [u8], mut at: u64) -> SystemResult<bool> {
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, at) {
            Ok(0) => return Ok(false),
            Ok(length) => {
                buffer = &mut buffer[length..];
                at += length as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// For `?` on results of system calls for one entry of the walk.
pub(super) fn system(action: &'static str, path: &[u8]) -> impl FnOnce(Errno) -> Error {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(path));
    move |error| Error::file(action, path)(error.into())
}
