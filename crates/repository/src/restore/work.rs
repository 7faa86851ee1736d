//! The worker threads: they decode blobs and write them, compare existing files, and do all other work that needs CPU
//! or disk.

use std::sync::Arc;

use crossbeam_channel::{Receiver, never};

use super::compare::Comparison;
use super::fetch::Fetched;
use super::file::File;
use super::shared::Shared;
use super::special::Special;
use super::window::Planned;
use crate::error::{Error, Result};
use crate::id::BlobKind;

/// Work that needs nothing from the store.
pub(super) enum Job {
    /// A file whose last blob was given up or left out, or that has none.
    Complete(Arc<File>),
    /// Zeros: offset and length.
    Zeros(Arc<File>, u64, u64),
    /// A link, pipe or device, or the metadata of anything.
    Special(Box<Special>),
    Compare(Comparison),
}

/// One thread: works until both channels are closed.
pub(super) fn run(shared: &Arc<Shared>, fetched: &Receiver<Fetched>, jobs: &Receiver<Job>) {
    let mut buffers = Buffers::default();
    let (mut fetched, mut jobs) = (fetched.clone(), jobs.clone());
    let mut open = 2;
    while open > 0 {
        crossbeam_channel::select! {
            recv(fetched) -> message => if let Ok(message) = message {
                write_blobs(shared, message, &mut buffers);
            } else {
                fetched = never();
                open -= 1;
            },
            recv(jobs) -> message => if let Ok(job) = message {
                do_job(shared, job, &mut buffers);
            } else {
                jobs = never();
                open -= 1;
            },
        }
    }
}

/// Reused from blob to blob.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) plain: Vec<u8>,
}

/// The largest buffer that is kept for reuse.
const KEPT: usize = 16 * 1024 * 1024;

fn do_job(shared: &Arc<Shared>, job: Job, buffers: &mut Buffers) {
    if shared.cancel.is_cancelled() {
        return;
    }
    match job {
        Job::Complete(file) => file.complete(),
        Job::Zeros(file, at, length) => {
            file.write_zeros(at, length);
            if file.blob_done() {
                file.complete();
            }
        }
        Job::Special(special) => special.carry_out(),
        Job::Compare(comparison) => comparison.carry_out(shared, &mut buffers.plain),
    }
    shrink(&mut buffers.plain);
}

fn write_blobs(shared: &Arc<Shared>, fetched: Fetched, buffers: &mut Buffers) {
    let mut sealed = fetched.sealed.map(Vec::from);
    let mut places = fetched.read.places.into_iter();
    for blob in &fetched.read.blobs {
        if shared.cancel.is_cancelled() {
            return;
        }
        let part = sealed.as_mut().and_then(|sealed| part_of(sealed, fetched.read.start, blob));
        let plain = decode(shared, blob, part, &mut buffers.plain);
        if let Err(error) = &plain
            && !Shared::is_local(error)
        {
            shared.fail(plain.err().unwrap_or(Error::Cancelled));
            return;
        }
        for (file, at) in places.by_ref().take(blob.places) {
            if shared.cancel.is_cancelled() {
                return;
            }
            match &plain {
                Ok(()) => file.write(&buffers.plain, at),
                Err(error) => file.fail(error),
            }
            if file.blob_done() {
                file.complete();
            }
        }
        shrink(&mut buffers.plain);
    }
}

fn part_of<'a>(sealed: &'a mut [u8], start: u64, blob: &Planned) -> Option<&'a mut [u8]> {
    let from = usize::try_from(u64::from(blob.location.offset).checked_sub(start)?).ok()?;
    sealed.get_mut(from..from.checked_add(blob.location.length as usize)?)
}

/// Decodes the fetched copy, or any other copy if that is damaged. A copy whose length differs from the index is not
/// used, because offsets in the file were computed from the index.
fn decode(shared: &Shared, blob: &Planned, part: Option<&mut [u8]>, plain: &mut Vec<u8>) -> Result<()> {
    plain.clear();
    if let Some(part) = part {
        match shared.reader.decode(BlobKind::Data, &blob.id, &blob.location, part, plain) {
            Ok(()) => return Ok(()),
            Err(error) => tracing::debug!(blob = %blob.id, %error, "looking for another copy"),
        }
    }
    let loaded = shared.runtime.block_on(async {
        tokio::select! {
            loaded = shared.reader.load(BlobKind::Data, &blob.id) => loaded,
            () = shared.cancel.cancelled() => Err(Error::Cancelled),
        }
    })?;
    if loaded.len() != blob.location.plain_length() as usize {
        let detail = "its length differs from the index; `repair index --read-all-packs` repairs that";
        return Err(Error::damaged(format!("blob {}", blob.id.short()), detail));
    }
    plain.extend_from_slice(&loaded);
    Ok(())
}

fn shrink(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}
