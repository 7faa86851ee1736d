//! Reads one file: at once if it is small, chunk by chunk otherwise, and again if it changed meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{SeekFrom, seek};

use super::buffer::{Buffer, READ_AHEAD};
use super::context::{Context, ZEROS};
use super::directory::Directory;
use super::workers::{Pieces, Worker};
use crate::chunker::{MAX_SIZE, MIN_SIZE};
use crate::error::Result;
use crate::id::BlobId;
use crate::node::Node;
use crate::source::directory::DirectoryHandle;
use crate::source::stat::Stat;

/// A file to be read.
pub(super) struct FileJob {
    pub(super) handle: Arc<DirectoryHandle>,
    pub(super) name: Vec<u8>,
    /// Its name in the snapshot, which only differs for targets of the same name.
    pub(super) entry: Vec<u8>,
    /// The path in messages.
    pub(super) path: String,
    pub(super) directory: Arc<Directory>,
    pub(super) position: usize,
    /// Whether the parent snapshot has it.
    pub(super) known: bool,
}

/// The result of reading a file.
struct Read {
    pieces: Arc<Pieces>,
    bytes: u64,
    node: Node,
    steady: bool,
}

impl FileJob {
    pub(super) fn run(self, context: &Context, worker: &Worker<'_>) -> Result<()> {
        context.check_running()?;
        context.progress.set_current(&self.path);
        let Self { handle, name, entry, path, directory, position, known } = self;
        let opened = handle.open_file(&name);
        let outcome = opened.and_then(|(file, _)| read_twice(context, worker, &file, &entry, &path));
        let read = match outcome {
            Ok(read) => read?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // It was deleted after it was listed: as if the backup had started later.
                context.changed(&path);
                return directory.fill(context, position, None);
            }
            Err(error) => {
                context.problem(&path, error);
                context.progress.add_done(1, 0);
                return directory.fill(context, position, None);
            }
        };
        if !read.steady {
            context.changed(&path);
        }
        let (mut node, bytes) = (read.node, read.bytes);
        let complete = move |context: &Context, ids: Vec<BlobId>| {
            node.content = Some(ids);
            // The number of bytes that were read, in case the file changed after its size was determined.
            node.size = bytes;
            context.progress.add_done(1, 0);
            {
                let counts = &mut context.findings().counts;
                *(if known { &mut counts.files_changed } else { &mut counts.files_new }) += 1;
                counts.total_files_processed += 1;
                counts.total_bytes_processed += bytes;
            }
            directory.fill(context, position, Some(node))
        };
        read.pieces.close(context, Box::new(complete))
    }
}

/// The outer error is the file's; the inner error is the repository's and ends the backup.
type FileResult<T> = io::Result<Result<T>>;

fn read_twice(
    context: &Context,
    worker: &Worker<'_>,
    file: &File,
    name: &[u8],
    path: &str,
) -> FileResult<Read> {
    let first = read_once(context, worker, file, name, path)?;
    match first {
        Ok(read) if !read.steady => read_once(context, worker, file, name, path),
        outcome => Ok(outcome),
    }
}

fn read_once(
    context: &Context,
    worker: &Worker<'_>,
    file: &File,
    name: &[u8],
    path: &str,
) -> FileResult<Read> {
    let taken = context.nodes.for_open_file(file.as_fd(), name)?;
    let pieces = Pieces::new();
    let size = taken.stat.size;
    let most = context.growth.map_or(u64::MAX, |growth| size.saturating_add(growth));
    let bytes = match read_pieces(context, worker, file, Extent { size, most }, &pieces)? {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    let after = Stat::of(file)?;
    let before = &taken.stat;
    let same_times = before.mtime == after.mtime && before.ctime == after.ctime;
    let steady = before.size == after.size && before.size == bytes && same_times;
    for problem in taken.problems {
        context.problem(path, problem);
    }
    Ok(Ok(Read { pieces, bytes, node: taken.node, steady }))
}

/// The size of a file, and how much of it is read at most.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) size: u64,
    pub(super) most: u64,
}

/// Reads to the end and splits into chunks. Positions are explicit, so that holes can be skipped.
pub(super) fn read_pieces(
    context: &Context,
    worker: &Worker<'_>,
    file: &File,
    extent: Extent,
    pieces: &Arc<Pieces>,
) -> FileResult<u64> {
    let Extent { size, most } = extent;
    let mut buffer = worker.buffer();
    // The offset of the buffer in the file.
    let mut start = 0_u64;
    let mut searched = 0;
    loop {
        if context.cancel.is_cancelled() {
            return Ok(Err(crate::error::Error::Cancelled));
        }
        if buffer.is_empty()
            && let Some(zeros) = hole(file, start, size)
        {
            match add_zeros(context, pieces, zeros) {
                Ok(skipped) => start += skipped,
                Err(error) => return Ok(Err(error)),
            }
        }
        let at = start + buffer.len() as u64;
        let allowed = usize::try_from(most.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = room(size.saturating_sub(start), buffer.len()).min(allowed);
        let read = buffer.fill(wanted, |room| Ok(rustix::io::pread(file, room, at)?))?;
        if read == 0 {
            let bytes = start + buffer.len() as u64;
            let last = if buffer.is_empty() {
                worker.give_back(buffer);
                Ok(())
            } else {
                worker.keep(context, pieces, buffer)
            };
            return Ok(last.map(|()| bytes));
        }
        while let Some(cut) = context.tables.find_cut(&buffer, searched) {
            let mut next = worker.buffer();
            let beyond = start + cut as u64;
            // In a hole, the bytes after the cut are zeros: they are skipped instead of being copied.
            if hole(file, beyond, size).is_none() {
                buffer.split_into(cut, &mut next);
            }
            buffer.truncate(cut);
            start = beyond;
            if let Err(error) = take_piece(context, worker, pieces, buffer) {
                return Ok(Err(error));
            }
            (buffer, searched) = (next, 0);
        }
        searched = buffer.len();
    }
}

/// Passes a chunk on; a chunk of zeros is not stored separately.
fn take_piece(context: &Context, worker: &Worker<'_>, pieces: &Arc<Pieces>, piece: Buffer) -> Result<()> {
    if *piece == ZEROS {
        worker.give_back(piece);
        add_zeros(context, pieces, 1).map(drop)
    } else {
        worker.offer(context, pieces, piece)
    }
}

/// How much to read: a small file at once with one byte more, which detects its end; otherwise a fixed amount.
fn room(left: u64, filled: usize) -> usize {
    let left = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(filled).saturating_add(1);
    left.min(READ_AHEAD).min((MAX_SIZE + READ_AHEAD).saturating_sub(filled)).max(1)
}

/// How many whole chunks of zeros start at `start`, if it is in a hole of the file. The chunker splits zeros at the
/// minimum size, so the chunks are known without reading them.
fn hole(file: &File, start: u64, size: u64) -> Option<u64> {
    if size.saturating_sub(start) < MIN_SIZE as u64 * 2 {
        return None;
    }
    let data = match seek(file, SeekFrom::Data(start)) {
        Ok(data) => data.min(size),
        Err(error) if error == rustix::io::Errno::NXIO => size,
        Err(_) => return None,
    };
    let pieces = data.saturating_sub(start) / MIN_SIZE as u64;
    (pieces > 0).then_some(pieces)
}

/// Adds `zeros` chunks of zeros.
fn add_zeros(context: &Context, pieces: &Arc<Pieces>, zeros: u64) -> Result<u64> {
    let id = context.save_zeros()?;
    for _ in 0..zeros {
        pieces.add_known(id);
    }
    let bytes = zeros * MIN_SIZE as u64;
    context.progress.add_done(0, bytes);
    Ok(bytes)
}
