//! Memory for one chunk of a file and the data read beyond it. Allocated once and reused; the kernel zeroes pages
//! when they are first touched, so reading into it needs no clearing, and untouched pages cost nothing.

use std::io::{self, Read};
use std::ops::Deref;

use crate::chunker::MAX_SIZE;

/// How much is read at a time.
pub(super) const READ_AHEAD: usize = 512 * 1024;

/// A reusable read buffer. Dereferences to its content.
pub(super) struct Buffer {
    memory: Vec<u8>,
    filled: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { memory: vec![0; MAX_SIZE + READ_AHEAD], filled: 0 }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.filled]
    }
}

impl Buffer {
    /// Reads at most `wanted` bytes with `read`, which gets the free space and is called again if a signal interrupted
    /// it.
    pub(super) fn fill(
        &mut self,
        wanted: usize,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let end = (self.filled + wanted).min(self.memory.len());
        loop {
            match read(&mut self.memory[self.filled..end]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let count = read?;
                    self.filled += count;
                    return Ok(count);
                }
            }
        }
    }

    /// Reads from a stream until `wanted` bytes were read or it ends.
    pub(super) fn fill_from(&mut self, stream: &mut dyn Read, wanted: usize) -> io::Result<usize> {
        let mut count = 0;
        while count < wanted {
            match self.fill(wanted - count, |room| stream.read(room))? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }

    /// Moves the bytes after `cut` into `other`, which is empty.
    pub(super) fn split_into(&mut self, cut: usize, other: &mut Self) {
        other.filled = self.filled - cut;
        other.memory[..other.filled].copy_from_slice(&self.memory[cut..self.filled]);
        self.filled = cut;
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.filled = self.filled.min(length);
    }

    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_a_signal_interrupts_is_repeated() {
        let mut answers = [Err(rustix::io::Errno::INTR), Err(rustix::io::Errno::INTR), Ok(7)].into_iter();
        let mut buffer = Buffer::default();
        let read = buffer.fill(100, |_| Ok(answers.next().unwrap()?));
        assert_eq!((read.unwrap(), buffer.len()), (7, 7));
    }
}
