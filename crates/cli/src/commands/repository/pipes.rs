//! Whether standard input and output are pipes or sockets: what decides about the short forms of the name `restic`.

use rustix::fs::{FileType, fstat};

/// Something streams into this process.
pub(crate) fn stdin_is_pipe() -> bool {
    is_pipe(&rustix::stdio::stdin())
}

/// Something reads the stream that this process writes.
pub(crate) fn stdout_is_pipe() -> bool {
    is_pipe(&rustix::stdio::stdout())
}

fn is_pipe(handle: &impl std::os::fd::AsFd) -> bool {
    fstat(handle).is_ok_and(|stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket))
}
