//! Copies blobs from one repository into another: adjacent blobs are read at once, from several packs concurrently,
//! and decoded and saved on threads.

use std::io::Read;
use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::blobs::nodes::LARGE;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::BlobKind;
use crate::index::Entry;
use crate::progress::Progress;
use crate::saver::Saver;
use crate::walk::EntrySet;
use crate::walk::by_pack::{PackEntries, batches, load_batch};

/// How much is read at once, unless a single blob is larger.
const RUN: u64 = 8 * 1024 * 1024;
/// Reading this many unneeded bytes costs less than another request.
const GAP: u64 = 128 * 1024;
/// How much of a large tree is compressed at a time.
const TREE_PART: usize = 1 << 20;

pub(super) async fn copy_entries(
    reader: &BlobReader,
    wanted: &EntrySet,
    saver: &Arc<Saver>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<()> {
    progress.add_total(wanted.count(), 0);
    progress.total_is_known();
    let at_once = reader.repository().reads();
    for batch in batches(reader.index(), wanted)? {
        let packs = load_batch(reader.index(), wanted, &batch)?;
        let copy = |pack: PackEntries| {
            let (reader, saver, cancel) = (reader.clone(), Arc::clone(saver), cancel.clone());
            let (runtime, count) = (Handle::current(), pack.entries.len() as u64);
            async move {
                let work = move || copy_pack(&reader, &saver, &runtime, &pack, &cancel);
                (count, tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Cancelled)))
            }
        };
        let mut copying = stream::iter(packs).map(copy).buffer_unordered(at_once);
        let mut problem: Option<Error> = None;
        while let Some((count, outcome)) = copying.next().await {
            match outcome {
                Ok(()) => progress.add_done(count, 0),
                // The first thread to fail has the reason; the others were only stopped.
                Err(Error::Cancelled) => drop(problem.get_or_insert(Error::Cancelled)),
                Err(error) => {
                    problem = problem.filter(|known| !matches!(known, Error::Cancelled)).or(Some(error));
                    break;
                }
            }
        }
        if let Some(problem) = problem {
            return Err(problem);
        }
    }
    Ok(())
}

fn copy_pack(
    reader: &BlobReader,
    saver: &Saver,
    runtime: &Handle,
    pack: &PackEntries,
    cancel: &CancellationToken,
) -> Result<()> {
    let key = FileKind::Pack.key(pack.pack.0);
    let mut plain = Vec::new();
    for run in runs(&pack.entries) {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if let [entry] = run
            && entry.kind == BlobKind::Tree
            && entry.location.plain_length() >= LARGE
            && copy_large_tree(reader, saver, runtime, entry)?
        {
            continue;
        }
        let (start, end) = span(run);
        // If this fails, the blobs are read one by one: there may be other copies.
        let content = runtime.block_on(reader.repository().store().get_range(&key, start..end)).ok();
        for entry in run {
            plain.clear();
            let from = usize::try_from(u64::from(entry.location.offset) - start).unwrap_or(usize::MAX);
            let sealed = content.as_deref().and_then(|content| content.get(from..));
            let sealed = sealed.and_then(|rest| rest.get(..entry.location.length as usize));
            let decoded = sealed.is_some_and(|sealed| {
                let mut sealed = sealed.to_vec();
                reader.decode(entry.kind, &entry.id, &entry.location, &mut sealed, &mut plain).is_ok()
            });
            if decoded {
                saver.save_known(entry.kind, entry.id, &plain)?;
            } else {
                let plain = runtime.block_on(reader.load(entry.kind, &entry.id))?;
                saver.save_known(entry.kind, entry.id, &plain)?;
            }
        }
    }
    Ok(())
}

/// Copies the tree of a large directory in parts. False if it must be copied as a whole: no copy can be read, which is
/// reported then, or the target has no compression.
fn copy_large_tree(reader: &BlobReader, saver: &Saver, runtime: &Handle, entry: &Entry) -> Result<bool> {
    let _alone = runtime.block_on(reader.one_large_tree())?;
    let Some(mut tree) = saver.begin_large_tree()? else { return Ok(false) };
    let Some(mut source) = runtime.block_on(reader.tree_source(&entry.id))? else { return Ok(false) };
    let mut part = vec![0; TREE_PART];
    loop {
        let count = source.read(&mut part).map_err(|error| Error::damaged("a tree", error))?;
        if count == 0 {
            break;
        }
        tree.push(&part[..count])?;
    }
    saver.save_large_tree(tree)?;
    Ok(true)
}

/// Groups entries that are close to each other, at most `RUN` bytes from the first to the last.
fn runs(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let start = u64::from(first.location.offset);
        let mut end = first.location.end();
        let mut count = 1;
        while let Some(next) = rest.get(count)
            && u64::from(next.location.offset) <= end.saturating_add(GAP)
            && next.location.end().saturating_sub(start) <= RUN
        {
            end = end.max(next.location.end());
            count += 1;
        }
        let (run, further) = rest.split_at(count);
        rest = further;
        Some(run)
    })
}

fn span(run: &[Entry]) -> (u64, u64) {
    let start = run.iter().map(|entry| u64::from(entry.location.offset)).min().unwrap_or(0);
    (start, run.iter().map(|entry| entry.location.end()).max().unwrap_or(start))
}
