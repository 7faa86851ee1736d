//! Where `restic` of the commands finds the mover: a directory that only the mover's user can enter, with our program under that
//! name, first in PATH, and a socket. It is removed at the end.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, getpgid};

use crate::agent::{Answer, Request, answer, receive};

/// How long a program that has connected may take to send its request.
const REQUEST: Duration = Duration::from_secs(10);
const PROGRAM: &str = "restic";
const SOCKET: &str = "socket";

/// Makes the directories of one process different.
static NUMBER: AtomicU64 = AtomicU64::new(0);

pub(super) struct Door {
    directory: PathBuf,
    listener: UnixListener,
}

/// A conversation with `restic`, which waits for the answer.
pub(super) struct Visit {
    stream: UnixStream,
    pub(super) request: Request,
    /// Its standard input or output.
    pub(super) file: OwnedFd,
    /// Its process group, which is that of its side.
    pub(super) group: Option<u32>,
}

impl Door {
    pub(super) fn open(temporary: &Path, program: &Path) -> io::Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = temporary.join(format!("agent-{}-{number}", std::process::id()));
        if directory.symlink_metadata().is_ok() {
            // Of a container that was restarted: the numbers of its processes begin anew.
            std::fs::remove_dir_all(&directory)?;
        }
        DirBuilder::new().mode(0o700).create(&directory)?;
        symlink(program, directory.join(PROGRAM))?;
        let listener = UnixListener::bind(directory.join(SOCKET))?;
        Ok(Self { directory, listener })
    }

    /// The directory of `restic`.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    /// The next conversation, if one begins within this time.
    pub(super) fn wait(&self, time: Duration) -> io::Result<Option<Visit>> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) => Ok(Visit::begin(self.listener.accept()?.0).ok()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Visit {
    fn begin(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(REQUEST))?;
        let peer = socket_peercred(&stream).ok();
        let group = peer.and_then(|peer| getpgid(Some(peer.pid)).ok());
        let group = group.map(Pid::as_raw_nonzero).and_then(|group| u32::try_from(group.get()).ok());
        let (request, file) = receive(&stream)?;
        Ok(Self { stream, request, file, group })
    }

    /// Answers. A program that was killed is seen by the exit code of its side.
    pub(super) fn answer(&self, message: &Answer) {
        let _ = answer(&self.stream, message);
    }

    /// Waits for more data. Returns whether there is some, or whether `restic` has closed the connection.
    pub(super) fn ready(&self, time: Duration) -> io::Result<Ready> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        let mut watched = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&self.stream, PollFlags::IN)];
        match poll(&mut watched, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => Ok(Ready::NotYet),
            // It sends nothing more, so this is the end of the conversation. What is left in the pipe is not read: the end
            // of a killed program's input is not the end of the dump.
            Ok(_) if !watched[1].revents().is_empty() => Ok(Ready::HungUp),
            Ok(_) => Ok(Ready::Data),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) enum Ready {
    Data,
    NotYet,
    HungUp,
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
