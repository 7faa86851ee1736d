//! Backing up a stream: what a reader or a command gives becomes one file of a snapshot.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use super::buffer::READ_AHEAD;
use super::context::Context;
use super::directory::Directory;
use super::workers::{Pieces, Worker};
use crate::error::{Error, Result};
use crate::id::BlobId;
use crate::node::{Mode, Node, NodeKind, NodeTime};
use crate::repository::Identity;

/// The file that a stream becomes, below the root of the snapshot.
pub(super) struct StreamFile<'a> {
    /// `dump.sql`, or with directories `db/dump.sql`.
    pub(super) name: &'a str,
    pub(super) time: NodeTime,
    pub(super) identity: &'a Identity,
}

impl StreamFile<'_> {
    /// Reads the stream to its end and puts the file into the tree. Gives the number of bytes.
    pub(super) fn archive(
        &self,
        context: &Context,
        worker: &Worker<'_>,
        stream: &mut dyn Read,
    ) -> Result<u64> {
        context.progress.set_current(self.name);
        let (directory, file_name) = self.directories(context)?;
        let pieces = Pieces::new();
        let bytes = read_pieces(context, worker, stream, &pieces)?;
        let mut node = self.node(file_name, NodeKind::File, Mode(0o644));
        node.size = bytes;
        node.links = 1;
        let complete = move |context: &Context, ids: Vec<BlobId>| {
            node.content = Some(ids);
            context.progress.add_done(1, 0);
            {
                let counts = &mut context.findings().counts;
                counts.files_new += 1;
                counts.total_files_processed += 1;
                counts.total_bytes_processed += bytes;
            }
            directory.fill(context, 0, Some(node))
        };
        pieces.close(context, Box::new(complete))?;
        Ok(bytes)
    }

    /// The directory that the file is in, each with this one entry.
    fn directories(&self, context: &Context) -> Result<(Arc<Directory>, &str)> {
        let mut components: Vec<&str> = self.name.split('/').filter(|part| !part.is_empty()).collect();
        let unsafe_name = components.iter().any(|part| matches!(*part, "." | "..") || part.contains('\0'));
        let Some(file_name) = components.pop().filter(|_| !unsafe_name) else {
            return Err(Error::invalid(
                "file name of the stream",
                format!("'{}' is no path below the root", self.name),
            ));
        };
        let mut directory = Directory::root();
        directory.close(context, 1)?;
        for component in components {
            let node = self.node(component, NodeKind::Directory, Mode::from_unix(0o040_755));
            let below = Directory::below(directory, 0, node, None);
            below.close(context, 1)?;
            directory = below;
        }
        Ok((directory, file_name))
    }

    fn node(&self, name: &str, kind: NodeKind, mode: Mode) -> Node {
        Node {
            name: name.as_bytes().to_vec(),
            kind,
            mode,
            mtime: self.time,
            atime: self.time,
            ctime: self.time,
            uid: self.identity.uid,
            gid: self.identity.gid,
            ..Node::default()
        }
    }
}

fn read_pieces(
    context: &Context,
    worker: &Worker<'_>,
    stream: &mut dyn Read,
    pieces: &Arc<Pieces>,
) -> Result<u64> {
    let failed = |source| Error::Local { action: "read the stream".to_owned(), source };
    let mut buffer = worker.buffer();
    let (mut bytes, mut searched) = (0_u64, 0);
    loop {
        context.go_on()?;
        let read = buffer.fill_from(stream, READ_AHEAD).map_err(failed)?;
        bytes += read as u64;
        if read == 0 {
            break;
        }
        while let Some(cut) = context.tables.find_cut(&buffer, searched) {
            let mut next = worker.buffer();
            buffer.split_into(cut, &mut next);
            worker.offer(context, pieces, buffer)?;
            (buffer, searched) = (next, 0);
        }
        searched = buffer.len();
    }
    if buffer.is_empty() {
        worker.give_back(buffer);
        return Ok(bytes);
    }
    worker.keep(context, pieces, buffer)?;
    Ok(bytes)
}

/// A command whose output is backed up. It is killed if the backup ends before it does.
pub(super) struct Producer {
    child: Child,
    program: String,
}

impl Producer {
    pub(super) fn start(argv: &[OsString]) -> Result<(Self, ChildStdout)> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err(Error::invalid("command", "none is given after `--`"));
        };
        let program_name = program.to_string_lossy().into_owned();
        let failed = |source| Error::Local { action: format!("start '{program_name}'"), source };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let Some(output) = child.stdout.take() else {
            return Err(failed(std::io::Error::other("it has no output")));
        };
        Ok((Self { child, program: program_name }, output))
    }

    /// Fails unless the command ended by itself with 0: half a dump is no backup.
    pub(super) fn finish(mut self) -> Result<()> {
        let action = format!("wait for '{}'", self.program);
        let status = self.child.wait().map_err(|source| Error::Local { action, source })?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Invalid {
            what: format!("'{}' failed ({status})", self.program),
            problem: "no snapshot was made".to_owned(),
        })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Of no effect if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
