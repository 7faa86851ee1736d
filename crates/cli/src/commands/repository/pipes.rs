//! Standard input and output as streams: whether they are pipes or sockets, which the short forms under the name
//! `restic` depend on, and reading standard input until a signal arrives.

use std::io::{Error, Read, Result};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use tokio_util::sync::CancellationToken;

/// How often a read that waits for input checks for a signal.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input. A read that waits for data ends when the command is interrupted.
pub(crate) struct Input(pub(crate) CancellationToken);

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let stdin = rustix::stdio::stdin();
        loop {
            if self.0.is_cancelled() {
                return Err(Error::other("interrupted"));
            }
            let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut watched, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(stdin, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether standard input is a pipe or a socket.
pub(crate) fn stdin_is_pipe() -> bool {
    is_pipe(&rustix::stdio::stdin())
}

/// Whether standard output is a pipe or a socket.
pub(crate) fn stdout_is_pipe() -> bool {
    is_pipe(&rustix::stdio::stdout())
}

fn is_pipe(handle: &impl std::os::fd::AsFd) -> bool {
    fstat(handle)
        .is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}
