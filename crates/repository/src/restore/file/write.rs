//! Writes bytes to a file at a position: all of them, or without those that are zeros.

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, Result as SystemResult};

/// Shorter runs of zeros are written even if holes are wanted: file systems have no smaller holes.
const BLOCK: usize = 4096;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

pub fn write_all(handle: &OwnedFd, mut bytes: &[u8], mut at: u64) -> SystemResult<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(handle, bytes, at) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn fill_with_zeros(handle: &OwnedFd, at: u64, length: u64) -> SystemResult<()> {
    let zeros = vec![0; 1024 * 1024];
    let end = at.saturating_add(length);
    let mut at = at;
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
        write_all(handle, &zeros[..part], at)?;
        at += part as u64;
    }
    Ok(())
}

/// Writes the parts that are not zero. Zeros become holes: skipped where there was nothing, punched below `old_size`.
pub fn write_sparse(handle: &OwnedFd, plain: &[u8], at: u64, old_size: u64) -> SystemResult<()> {
    for run in runs(plain, at) {
        let (start, bytes) = (at + run.start as u64, &plain[run.start..run.end]);
        if !run.zero {
            write_all(handle, bytes, start)?;
        } else if start < old_size {
            let length = (bytes.len() as u64).min(old_size - start);
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(handle, punch, start, length) {
                Ok(()) => {}
                Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => write_all(handle, bytes, start)?,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A part of a blob, either zeros or data.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    start: usize,
    end: usize,
    zero: bool,
}

/// Splits a blob at offset `at` into runs of whole blocks of the file.
fn runs(plain: &[u8], at: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut start = 0;
    while start < plain.len() {
        let into_block = usize::try_from((at + start as u64) % BLOCK as u64).unwrap_or(0);
        let end = (start + BLOCK - into_block).min(plain.len());
        let zero = plain[start..end] == ZEROS[..end - start];
        match runs.last_mut() {
            Some(last) if last.zero == zero => last.end = end,
            _ => runs.push(Run { start, end, zero }),
        }
        start = end;
    }
    runs
}
