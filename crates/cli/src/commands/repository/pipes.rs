//! Standard input and output as streams: whether they are pipes or sockets, which decides about the short forms of the
//! name `restic`, and a standard input that a signal can end.

use std::io::{Error, Read, Result};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use tokio_util::sync::CancellationToken;

/// How long a wait for input goes on after a signal.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input; a read that waits for a producer ends when the command is interrupted.
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

/// Something streams into this process.
pub(crate) fn stdin_is_pipe() -> bool {
    is_pipe(&rustix::stdio::stdin())
}

/// Something reads the stream that this process writes.
pub(crate) fn stdout_is_pipe() -> bool {
    is_pipe(&rustix::stdio::stdout())
}

fn is_pipe(handle: &impl std::os::fd::AsFd) -> bool {
    fstat(handle)
        .is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}
