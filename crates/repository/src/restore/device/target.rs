//! The device that is restored to. It is cleared at once if the system can do that without writing; otherwise zeros
//! are only written where the device is not already zero.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, SeekFrom, fadvise, fallocate, seek};

use crate::error::{Error, Result};

/// The block size for the detection of zeros.
const BLOCK: usize = 4096;
const LONGEST_READ: u64 = 512 * 1024;

/// An opened device, or an image of one.
#[derive(Debug)]
pub struct DeviceTarget {
    path: PathBuf,
    file: File,
    size: u64,
    /// Everything on it reads as zeros, except for what was written since.
    clear: AtomicBool,
}

impl DeviceTarget {
    /// Opens an existing device; nothing is created.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::file("open the device", path)(source);
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        let size = seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
        Ok(Self { path: path.to_owned(), file, size, clear: AtomicBool::new(false) })
    }

    pub fn must_hold(&self, bytes: u64) -> Result<()> {
        if bytes <= self.size {
            return Ok(());
        }
        let action = format!("restore {bytes} bytes onto '{}', which has {}", self.path.display(), self.size);
        let source = io::Error::new(io::ErrorKind::StorageFull, "the target is too small");
        Err(Error::Local { action, source })
    }

    /// Makes all of it read as zeros, if that needs no writing.
    pub fn clear(&self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let cleared = self.size == 0 || fallocate(&self.file, flags, 0, self.size).is_ok();
        self.clear.store(cleared, Ordering::Relaxed);
    }

    /// Writes the parts that are not zero.
    pub fn write(&self, plain: &[u8], at: u64) -> Result<()> {
        let mut done = 0;
        while done < plain.len() {
            let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
            let rest = &plain[done..];
            let zeros: usize = rest.chunks(BLOCK).take_while(|block| is_zero(block)).map(<[u8]>::len).sum();
            if zeros > 0 {
                self.zeros(at + done as u64, zeros as u64)?;
                done += zeros;
                continue;
            }
            let data: usize = rest.chunks(BLOCK).take_while(|block| !is_zero(block)).map(<[u8]>::len).sum();
            self.file.write_all_at(&rest[..data], at + done as u64).map_err(self.failed("write to"))?;
            done += data;
        }
        Ok(())
    }

    /// Makes a part read as zeros.
    pub fn zeros(&self, at: u64, length: u64) -> Result<()> {
        if self.clear.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut done = 0;
        while done < length {
            let part = u32::try_from((length - done).min(LONGEST_READ)).unwrap_or(u32::MAX);
            let mut content = self.read(at + done, part)?;
            if content.iter().any(|byte| *byte != 0) {
                content.fill(0);
                self.file.write_all_at(&content, at + done).map_err(self.failed("write to"))?;
            }
            done += u64::from(part);
        }
        Ok(())
    }

    pub fn read(&self, at: u64, length: u32) -> Result<Vec<u8>> {
        let mut content = vec![0; length as usize];
        self.file.read_exact_at(&mut content, at).map_err(self.failed("read"))?;
        Ok(content)
    }

    /// Flushes everything to the device, so that later reads come from the device itself.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(self.failed("write to"))?;
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        Ok(())
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        Error::file(action, &self.path)
    }
}
