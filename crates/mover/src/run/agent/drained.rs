//! Whether what was written into a pipe was also read. A command that ends without reading its input leaves it in the pipe, and
//! the write has succeeded.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::ioctl_fionread;

/// Whether the pipe is empty. A file that is no pipe has nothing that could be left unread.
pub(super) fn is_drained(output: &OwnedFd) -> bool {
    let is_pipe = fstat(output).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    !is_pipe || ioctl_fionread(output.as_fd()).is_ok_and(|unread| unread == 0)
}

/// Whether a process can still read from the pipe; waits this long for its end.
pub(super) fn has_reader(output: &OwnedFd, wait: Duration) -> bool {
    let wait = Timespec::try_from(wait).ok();
    let mut watched = [PollFd::new(output, PollFlags::empty())];
    match poll(&mut watched, wait.as_ref()) {
        Ok(0) | Err(_) => true,
        Ok(_) => !watched[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL),
    }
}
