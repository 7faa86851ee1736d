//! Reads one file: at once if it is small, chunk by chunk otherwise, and again if it changed meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::content::{Content, FileResult};
use super::context::Context;
use super::directory::Directory;
use super::workers::{Pieces, Worker};
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
    let reading = Content::new(context, worker, file, &taken.stat, size, &pieces).at_most(most);
    let bytes = match reading.read()? {
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
