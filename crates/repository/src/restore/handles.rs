//! Open directories and files, a limited number of each: a restore touches millions, a process may have a thousand
//! open.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::file::File;

const DIRECTORIES: usize = 192;
const FILES: usize = 192;

/// The open handles.
#[derive(Default)]
pub(super) struct Handles {
    directories: Mutex<Directories>,
    files: Mutex<VecDeque<Weak<File>>>,
}

#[derive(Default)]
struct Directories {
    /// By the directory's number, with the time of last use.
    open: HashMap<u64, (Arc<OwnedFd>, u64)>,
    uses: u64,
}

impl Handles {
    /// The handle of a directory, if it is still open.
    pub(super) fn directory(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.uses += 1;
        let uses = directories.uses;
        let (handle, last_use) = directories.open.get_mut(&number)?;
        *last_use = uses;
        Some(Arc::clone(handle))
    }

    /// Keeps a handle; if there are too many, the least recently used one is closed.
    pub(super) fn keep_directory(&self, number: u64, handle: Arc<OwnedFd>) {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.uses += 1;
        let uses = directories.uses;
        if directories.open.len() >= DIRECTORIES {
            let oldest =
                directories.open.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number);
            if let Some(oldest) = oldest {
                directories.open.remove(&oldest);
            }
        }
        directories.open.insert(number, (handle, uses));
    }

    /// Removes the handle of a finished directory.
    pub(super) fn take_directory(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.open.remove(&number).map(|(handle, _)| handle)
    }

    /// Records that a file is open; if there are too many, the one opened first is closed. It is opened again when
    /// needed.
    pub(super) fn opened(&self, file: &Arc<File>) {
        let oldest = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.push_back(Arc::downgrade(file));
            if files.len() > FILES { files.pop_front() } else { None }
        };
        if let Some(oldest) = oldest.and_then(|file| file.upgrade()) {
            oldest.close();
        }
    }
}
