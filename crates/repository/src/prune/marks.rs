//! The times when packs were removed from the index, stored in small objects beside the data that restic ignores. An
//! object is named by the hash of its content, so that damage is detected; its marks are then lost, and a lost mark
//! restarts the grace period. Times are those of the store's clock.
//!
//! A store that cannot keep such objects (restic's REST server) has no marks. Nothing is deleted by age there: packs
//! that were removed from the index remain until a prune with a grace period of 0.

use std::collections::{BTreeMap, HashMap};

use futures::TryStreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::OWN_PREFIX;
use crate::id::{Id, PackId};
use crate::repository::Repository;

const VERSION: u32 = 1;
/// The number of packs in one object: some megabytes.
const PACKS_IN_FILE: usize = 50_000;
/// The largest mark object.
const MAX_SIZE: u64 = 16 << 20;

/// The marks of a repository.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) times: HashMap<PackId, Timestamp>,
    /// The objects that contain them.
    keys: Vec<String>,
    /// Whether one of them cannot be read and must be removed.
    damaged: bool,
    /// Whether the store can keep marks at all.
    pub(super) supported: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct MarkFile {
    version: u32,
    marks: Vec<MarkedPacks>,
}

/// Packs that were removed from the index at the same time.
#[derive(Debug, Serialize, Deserialize)]
struct MarkedPacks {
    time: Timestamp,
    packs: Vec<PackId>,
}

impl Marks {
    /// Reads all marks. If a pack has several, the latest counts.
    pub(crate) async fn load(repository: &Repository) -> Result<Self> {
        let mut marks = Self { supported: true, ..Self::default() };
        let store = repository.store();
        let listed: Vec<_> = match store.list(&format!("{}/", directory())).try_collect().await {
            Ok(listed) => listed,
            Err(lifeboat_store::Error::Unsupported { .. }) => return Ok(Self::default()),
            Err(error) => return Err(Error::store("list the marks of earlier prunes")(error)),
        };
        // Another repository may be in this directory: only what a prune writes is read, and removed later.
        let is_own = |key: &str| key.rsplit('/').next().is_some_and(|name| key == own_key(name));
        for info in listed.into_iter().filter(|info| is_own(&info.key)) {
            if info.size <= MAX_SIZE {
                match store.get(&info.key).await {
                    Ok(content) => marks.add(&info.key, &content),
                    Err(error) if error.is_not_found() => continue,
                    Err(error) => return Err(Error::store("read the marks of an earlier prune")(error)),
                }
            }
            marks.keys.push(info.key);
        }
        Ok(marks)
    }

    fn add(&mut self, key: &str, content: &[u8]) {
        let intact = key.ends_with(&Id::of(content).to_string());
        let file = serde_json::from_slice::<MarkFile>(content).ok();
        let Some(file) = file.filter(|file| intact && file.version == VERSION) else {
            self.damaged = true;
            tracing::warn!(
                key,
                "the marks of an earlier prune are damaged: the grace period of its packs starts again"
            );
            return;
        };
        for MarkedPacks { time, packs } in file.marks {
            for pack in packs {
                let known = self.times.entry(pack).or_insert(time);
                *known = (*known).max(time);
            }
        }
    }

    /// Replaces the marks of the repository by `times`: writes them first, then removes the previous ones. If the
    /// store cannot keep marks, there are none afterwards.
    pub(super) async fn replace(
        &mut self,
        repository: &Repository,
        times: HashMap<PackId, Timestamp>,
    ) -> Result<()> {
        let as_it_is = times == self.times && self.keys.len() <= 1 && !self.damaged;
        if !self.supported || as_it_is {
            return Ok(());
        }
        let store = repository.store();
        let mut written = Vec::new();
        for content in contents(&times)? {
            let key = format!("{}/{}", directory(), Id::of(&content));
            match store.put(&key, content).await {
                Ok(()) => written.push(key),
                Err(lifeboat_store::Error::Unsupported { .. }) => {
                    self.supported = false;
                    return Ok(());
                }
                Err(error) => return Err(Error::store("write the marks of this prune")(error)),
            }
        }
        let old = self.keys.iter().filter(|key| !written.contains(key));
        store.delete_many(old).await.map_err(Error::store("remove the marks of earlier prunes"))?;
        self.keys = written;
        self.damaged = false;
        self.times = times;
        Ok(())
    }
}

fn directory() -> String {
    format!("{OWN_PREFIX}/prune")
}

/// The key of the mark with this name; empty if no mark is called so.
fn own_key(name: &str) -> String {
    name.parse::<Id>().map(|id| format!("{}/{id}", directory())).unwrap_or_default()
}

/// The objects for these marks.
fn contents(times: &HashMap<PackId, Timestamp>) -> Result<Vec<Vec<u8>>> {
    let mut sorted: Vec<_> = times.iter().map(|(pack, time)| (*time, *pack)).collect();
    sorted.sort_unstable();
    let file = |part: &[(Timestamp, PackId)]| {
        let mut by_time: BTreeMap<Timestamp, Vec<PackId>> = BTreeMap::new();
        for (time, pack) in part {
            by_time.entry(*time).or_default().push(*pack);
        }
        let marks = by_time.into_iter().map(|(time, packs)| MarkedPacks { time, packs }).collect();
        serde_json::to_vec(&MarkFile { version: VERSION, marks })
            .map_err(|error| Error::invalid("marks", error.to_string()))
    };
    sorted.chunks(PACKS_IN_FILE).map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::memory_repository;

    fn times(packs: &[(u8, i64)]) -> HashMap<PackId, Timestamp> {
        let mark =
            |(pack, second): &(u8, i64)| (PackId(Id::of(&[*pack])), Timestamp::from_second(*second).unwrap());
        packs.iter().map(mark).collect()
    }

    #[tokio::test]
    async fn marks_come_back_and_replace_earlier_ones() {
        let repository = memory_repository().await;
        let mut marks = Marks::load(&repository).await.unwrap();
        assert!(marks.supported && marks.times.is_empty());
        for wanted in [times(&[(1, 100), (2, 100), (3, 7)]), times(&[(3, 7)]), times(&[])] {
            marks.replace(&repository, wanted.clone()).await.unwrap();
            let read = Marks::load(&repository).await.unwrap();
            assert_eq!((&read.times, read.keys.len()), (&wanted, usize::from(!wanted.is_empty())));
        }
    }

    #[tokio::test]
    async fn of_two_marks_for_a_pack_the_later_counts() {
        let repository = memory_repository().await;
        for second in [50, 900, 100] {
            // As if the removal of the earlier marks had failed.
            let mut fresh = Marks { supported: true, ..Marks::default() };
            fresh.replace(&repository, times(&[(1, second)])).await.unwrap();
        }
        assert_eq!(Marks::load(&repository).await.unwrap().times, times(&[(1, 900)]));
    }

    #[tokio::test]
    async fn files_of_others_among_the_marks_stay() {
        let repository = memory_repository().await;
        let other = format!("{}/keys/{}", directory(), Id::of(b"other"));
        repository.store().put(&other, "of another repository").await.unwrap();
        let mut marks = Marks::load(&repository).await.unwrap();
        assert!(marks.keys.is_empty() && !marks.damaged);
        marks.replace(&repository, times(&[(1, 100)])).await.unwrap();
        Marks::load(&repository).await.unwrap().replace(&repository, times(&[])).await.unwrap();
        assert!(repository.store().exists(&other).await.unwrap());
    }

    #[rstest::rstest]
    #[case::empty("")]
    #[case::other_json("{}")]
    #[case::another_time(r#"{"version":1,"marks":[{"time":"1960-01-01T00:00:00Z","packs":[]}]}"#)]
    #[tokio::test]
    async fn a_damaged_mark_is_a_lost_mark_and_its_object_goes_with_the_next(#[case] damaged: &'static str) {
        let repository = memory_repository().await;
        let mut marks = Marks::load(&repository).await.unwrap();
        marks.replace(&repository, times(&[(1, 100)])).await.unwrap();
        repository.store().put(&marks.keys[0], damaged).await.unwrap();
        let mut read = Marks::load(&repository).await.unwrap();
        assert!(read.times.is_empty());
        assert_eq!(read.keys, marks.keys);
        read.replace(&repository, HashMap::new()).await.unwrap();
        assert!(Marks::load(&repository).await.unwrap().keys.is_empty());
    }
}
