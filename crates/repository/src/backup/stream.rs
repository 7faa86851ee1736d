//! Backs up a stream: the output of a reader or a command becomes one file of a snapshot.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio_util::sync::CancellationToken;

use super::buffer::READ_AHEAD;
use super::content::Content;
use super::context::Context;
use super::directory::Directory;
use super::workers::{Pieces, Worker};
use crate::error::{Error, Result};
use crate::id::BlobId;
use crate::node::{Mode, Node, NodeKind, NodeTime};
use crate::repository::Identity;
use crate::source::stat::Stat;

/// The file for a stream, below the root of the snapshot.
pub(super) struct StreamFile<'a> {
    /// `dump.sql`, or with directories `db/dump.sql`.
    pub(super) name: &'a str,
    pub(super) time: NodeTime,
    pub(super) identity: &'a Identity,
}

impl StreamFile<'_> {
    /// Reads the stream to its end and adds the file to the tree. Returns the number of bytes.
    pub(super) fn archive(
        &self,
        context: &Context,
        worker: &Worker<'_>,
        stream: &mut dyn Read,
    ) -> Result<u64> {
        self.complete(context, Mode(0o644), |pieces| read_pieces(context, worker, stream, pieces))
    }

    /// Reads a device from start to end; holes are skipped.
    pub(super) fn archive_device(&self, context: &Context, worker: &Worker<'_>, device: &File) -> Result<()> {
        let failed = |source| Error::Local { action: "read the device".to_owned(), source };
        let size = seek(device, SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
        let stat = Stat::of(device).map_err(failed)?;
        context.progress.add_total(1, size);
        context.progress.total_is_known();
        let bytes = self.complete(context, Mode(0o600), |pieces| {
            Content::new(context, worker, device, &stat, size, pieces).at_most(size).read().map_err(failed)?
        })?;
        if bytes == size {
            return Ok(());
        }
        let source = std::io::Error::other(format!("it ended after {bytes} of its {size} bytes"));
        Err(failed(source))
    }

    fn complete(
        &self,
        context: &Context,
        mode: Mode,
        read: impl FnOnce(&Arc<Pieces>) -> Result<u64>,
    ) -> Result<u64> {
        context.progress.set_current(self.name);
        let (directory, file_name) = self.directories(context)?;
        let pieces = Pieces::new();
        let bytes = read(&pieces)?;
        let mut node = self.node(file_name, NodeKind::File, mode);
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

    /// Creates the directories of the file, each with a single entry.
    fn directories(&self, context: &Context) -> Result<(Arc<Directory>, &str)> {
        let mut components: Vec<&str> = self.name.split('/').filter(|part| !part.is_empty()).collect();
        let unsafe_name = components.iter().any(|part| matches!(*part, "." | "..") || part.contains('\0'));
        let Some(file_name) = components.pop().filter(|_| !unsafe_name) else {
            return Err(Error::invalid(
                "file name of the stream",
                format!("'{}' is not a path below the root", self.name),
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
    let failed = |source| match context.check_running() {
        Ok(()) => Error::Local { action: "read the stream".to_owned(), source },
        Err(cancelled) => cancelled,
    };
    let mut buffer = worker.buffer();
    let (mut bytes, mut searched) = (0_u64, 0);
    loop {
        context.check_running()?;
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

/// A command whose output is backed up. It is killed, with its child processes, if the backup ends before it does.
pub(super) struct Producer {
    child: Child,
    program: String,
    /// Whether it leads a process group of its own.
    leads: bool,
    has_ended: bool,
}

impl Producer {
    /// With `own_group`, the command's child processes can be killed with it, but it cannot ask for a password on the
    /// terminal.
    pub(super) fn start(
        argv: &[OsString],
        own_group: bool,
        cancel: &CancellationToken,
    ) -> Result<(Self, Output)> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err(Error::invalid("command", "there is none after `--`"));
        };
        let program_name = program.to_string_lossy().into_owned();
        let failed = |source| Error::Local { action: format!("start '{program_name}'"), source };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        if own_group {
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(failed)?;
        let Some(pipe) = child.stdout.take() else {
            return Err(failed(std::io::Error::other("it has no output")));
        };
        let output = Output { pipe, cancel: cancel.clone() };
        Ok((Self { child, program: program_name, leads: own_group, has_ended: false }, output))
    }

    /// Fails unless the command exited by itself with 0: a partial dump is not a backup.
    pub(super) fn finish(mut self, cancel: &CancellationToken) -> Result<()> {
        let action = format!("wait for '{}'", self.program);
        let failed = |source| Error::Local { action: action.clone(), source };
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                break status;
            }
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            // It closed its output, so it is probably about to exit.
            std::thread::sleep(Duration::from_millis(5));
        };
        self.has_ended = true;
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
        // The PID of a process that was waited for may belong to another process by now.
        if self.has_ended {
            return;
        }
        if self.leads {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a command. Reading ends when the backup is cancelled, however long the command writes nothing.
pub(super) struct Output {
    pipe: ChildStdout,
    cancel: CancellationToken,
}

impl Read for Output {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        while !self.cancel.is_cancelled() {
            match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&LOOK_UP)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.pipe.read(room),
                Err(error) => return Err(error.into()),
            }
        }
        Err(std::io::Error::other("cancelled"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the process exists and is not a zombie.
    fn is_alive(process: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[test]
    fn what_a_command_started_is_killed_with_it() {
        let script = "sleep 1000 & echo $!; wait";
        let argv = ["sh", "-c", script].map(OsString::from);
        let (producer, mut output) = Producer::start(&argv, true, &CancellationToken::new()).unwrap();
        let mut buffer = [0; 64];
        let read = output.read(&mut buffer).unwrap();
        let process = String::from_utf8(buffer[..read].to_vec()).unwrap();
        assert!(is_alive(process.trim()));
        drop(producer);
        // The pipe ends when the last process that has it open has exited.
        assert_eq!(output.read(&mut buffer).unwrap(), 0);
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while is_alive(process.trim()) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(!is_alive(process.trim()));
    }
}
