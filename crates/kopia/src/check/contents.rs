//! Checks the packs that the index names, and reads all contents in the order of their packs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lifeboat_repository::progress::Progress;

use super::CheckOutcome;
use crate::error::{Error, Result, blocking};
use crate::id::ContentId;
use crate::index::{Index, Location};
use crate::repository::Repository;

const GAP: u64 = 256 * 1024;
const LONGEST_READ: u64 = 4 * 1024 * 1024;

/// Every pack with contents must exist and be long enough.
pub(super) async fn packs(
    repository: &Repository,
    progress: &Progress,
    outcome: &mut CheckOutcome,
    damaged: &mut HashSet<ContentId>,
) -> Result<()> {
    let sizes: HashMap<String, u64> =
        repository.list_packs().await?.into_iter().map(|blob| (blob.name, blob.size)).collect();
    let index = repository.index();
    let mut wrong: HashMap<u32, u64> = HashMap::new();
    for row in index.live_rows() {
        let Some((id, location)) = index.row(row) else { continue };
        outcome.contents += 1;
        let size = index.pack(location.pack).ok().and_then(|pack| sizes.get(&pack.name));
        if size.is_none_or(|size| location.end() > *size) {
            *wrong.entry(location.pack).or_default() += 1;
            damaged.insert(id);
        }
    }
    outcome.packs = index.packs().len() as u64;
    for (number, contents) in wrong {
        let name = &index.pack(number)?.name;
        let message = match sizes.get(name) {
            None => format!("it is missing, with {contents} contents"),
            Some(size) => format!("it has only {size} bytes, and {contents} contents are behind its end"),
        };
        outcome.error(progress, format!("pack {name}"), message);
    }
    Ok(())
}

/// Contents that are read at once.
struct Batch {
    pack: u32,
    start: u64,
    end: u64,
    contents: Vec<(ContentId, Location)>,
}

/// A content that cannot be read, and why.
type Wrong = (ContentId, Error);

/// Reads and verifies every content.
pub(super) async fn read(
    repository: &Repository,
    progress: &Progress,
    outcome: &mut CheckOutcome,
    damaged: &mut HashSet<ContentId>,
) -> Result<()> {
    let index = repository.index();
    let rows = index.live_rows();
    progress.add_total(rows.len() as u64, 0);
    progress.total_is_known();
    let batches = futures::stream::iter(Batches { index: Arc::clone(&index), rows, next: 0 });
    let mut reading = batches
        .map(|batch| {
            let index = Arc::clone(&index);
            async move {
                let (count, bytes) = (batch.contents.len() as u64, batch.end - batch.start);
                Ok::<_, Error>((count, bytes, verify(repository, &index, batch).await?))
            }
        })
        .buffer_unordered(repository.options().threads.max(2));
    while let Some((count, bytes, wrong)) = reading.try_next().await? {
        outcome.contents_read += count;
        outcome.bytes_read += bytes;
        progress.add_done(count, 0);
        for (id, error) in wrong {
            if damaged.insert(id) {
                outcome.error(progress, format!("content {id}"), error);
            }
        }
    }
    Ok(())
}

async fn verify(repository: &Repository, index: &Index, batch: Batch) -> Result<Vec<Wrong>> {
    let name = &index.pack(batch.pack)?.name;
    let sealed = match repository.read_range(name, batch.start, batch.end).await {
        Ok(sealed) => Some(sealed),
        Err(error) if error.is_local() || batch.contents.len() > 1 => None,
        Err(error) => return Err(error),
    };
    let checker = repository.clone();
    let suspects = blocking(move || {
        let intact = |(id, location): &(ContentId, Location)| {
            let from = usize::try_from(u64::from(location.offset) - batch.start).ok()?;
            let part = sealed.as_ref()?.get(from..from.checked_add(location.length as usize)?)?;
            checker.decode(id, location, part.to_vec()).ok()
        };
        Ok(batch.contents.into_iter().filter(|content| intact(content).is_none()).collect::<Vec<_>>())
    })
    .await?;
    let mut wrong = Vec::new();
    for (id, _) in suspects {
        // The pack may have been replaced meanwhile, and the network may have been at fault.
        match repository.read(&id).await {
            Ok(_) => {}
            Err(error) if error.is_local() => wrong.push((id, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(wrong)
}

/// Groups the contents, made on demand.
struct Batches {
    index: Arc<Index>,
    rows: Vec<u32>,
    next: usize,
}

impl Iterator for Batches {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch: Option<Batch> = None;
        while let Some(row) = self.rows.get(self.next) {
            let Some((id, location)) = self.index.row(*row) else {
                self.next += 1;
                continue;
            };
            let (start, end) = (u64::from(location.offset), location.end());
            match &mut batch {
                None => {
                    batch = Some(Batch { pack: location.pack, start, end, contents: vec![(id, location)] });
                }
                Some(batch)
                    if batch.pack == location.pack
                        && start <= batch.end + GAP
                        && end.max(batch.end) - batch.start <= LONGEST_READ =>
                {
                    batch.end = batch.end.max(end);
                    batch.contents.push((id, location));
                }
                Some(_) => return batch,
            }
            self.next += 1;
        }
        batch
    }
}
