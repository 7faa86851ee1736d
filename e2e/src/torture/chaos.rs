//! Faults around a backend that the fault layer does not provide: the process dies at its k-th request, and a listing
//! is out of date. Each process gets at most one such listing per directory: no client could notice two listings that
//! hide the same object.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_store::backend::{ObjectInfo, Page, PageRequest, Part, PartId, PutMode, UploadId};
use lifeboat_store::{Backend, Key, ReadOptions, Reading, Result};
use rustix::process::{Signal, getpid, kill_process};

use super::task::{DIRECTORIES, Death, Trouble};
use crate::tree::Random;

/// The wrapper. `requests` is shared by all repositories of a process.
#[derive(Debug)]
pub(super) struct Chaos {
    pub(super) inner: Arc<dyn Backend>,
    /// The prefix of all keys: the repository's place in a bucket.
    pub(super) prefix: String,
    pub(super) trouble: Trouble,
    pub(super) requests: Arc<AtomicU64>,
    pub(super) log: Arc<File>,
    pub(super) seen: Mutex<Seen>,
}

/// Earlier listings.
#[derive(Debug, Default)]
pub(super) struct Seen {
    listings: u64,
    pages: BTreeMap<String, Page>,
    lied: BTreeSet<String>,
}

impl Chaos {
    /// `changes` is the object that the request writes or removes.
    async fn request<T>(&self, changes: Option<&Key>, run: impl Future<Output = Result<T>>) -> Result<T> {
        let counts = |death: &Death| match death.only {
            Some(directory) => changes.is_some_and(|key| {
                let below = key.as_str().strip_prefix(self.prefix.as_str());
                below.is_some_and(|below| below.starts_with(DIRECTORIES[directory]))
            }),
            None => true,
        };
        let death = self.trouble.death.filter(counts);
        let death = death.filter(|death| self.requests.fetch_add(1, Ordering::SeqCst) + 1 == death.request);
        if death.is_some_and(|death| !death.after) {
            die();
        }
        let outcome = run.await;
        if death.is_some() {
            die();
        }
        outcome
    }

    /// The current page, or one from before the newest object was written.
    fn stale(&self, request: &PageRequest, page: Page) -> Page {
        let mut seen = self.seen.lock().unwrap();
        seen.listings += 1;
        let mut random = Random::new(self.trouble.seed ^ (seen.listings << 32));
        random.next();
        let before = seen.pages.insert(request.prefix.clone(), page.clone());
        let lies = u64::try_from(random.below(1000)).unwrap() < self.trouble.stale;
        if !lies || request.token.is_some() || page.next.is_some() || seen.lied.contains(&request.prefix) {
            return page;
        }
        let old = before.filter(|before| *before != page).unwrap_or_else(|| without_the_newest(&page));
        if old == page {
            return page;
        }
        seen.lied.insert(request.prefix.clone());
        let _ = (&*self.log).write_all(b"stale listing\n");
        old
    }
}

fn without_the_newest(page: &Page) -> Page {
    let mut old = page.clone();
    let newest = old.objects.iter().map(|object| object.modified).max();
    old.objects.retain(|object| Some(object.modified) != newest);
    old
}

/// Dies like a process killed by the kernel: no destructors run.
fn die() {
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}

#[async_trait]
impl Backend for Chaos {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        self.request(Some(key), self.inner.put(key, body, mode)).await
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        self.request(None, self.inner.get(key, options)).await
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        self.request(None, self.inner.head(key)).await
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        let page = self.request(None, self.inner.list_page(request)).await?;
        Ok(self.stale(request, page))
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        self.request(keys.first(), self.inner.delete(keys)).await
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        self.request(Some(key), self.inner.begin_upload(key)).await
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        self.request(Some(key), self.inner.upload_part(key, upload, part)).await
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()> {
        self.request(Some(key), self.inner.complete_upload(key, upload, parts)).await
    }

    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.request(Some(key), self.inner.abort_upload(key, upload)).await
    }

    async fn signed_url(&self, key: &Key, ttl: Duration) -> Result<url::Url> {
        self.inner.signed_url(key, ttl).await
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_store::Memory;

    use super::*;

    async fn listed(chaos: &Chaos, prefix: &str) -> Vec<String> {
        let request = PageRequest { prefix: prefix.to_owned(), delimited: false, token: None };
        let page = chaos.list_page(&request).await.unwrap();
        page.objects.into_iter().map(|object| object.key).collect()
    }

    #[tokio::test]
    async fn each_directory_shows_once_what_was_there_before_and_then_the_truth() {
        let chaos = Chaos {
            inner: Arc::new(Memory::new()),
            prefix: String::new(),
            trouble: Trouble { stale: 1000, ..Trouble::default() },
            requests: Arc::default(),
            log: Arc::new(tempfile::tempfile().unwrap()),
            seen: Mutex::default(),
        };
        let put = async |key: &str| {
            chaos.put(&Key::new(key).unwrap(), Bytes::new(), PutMode::Overwrite).await.unwrap();
        };
        assert_eq!(listed(&chaos, "a/").await, [""; 0]); // nothing was there, and nothing is
        put("a/1").await;
        put("b/1").await;
        assert_eq!(listed(&chaos, "a/").await, [""; 0]);
        assert_eq!(listed(&chaos, "b/").await, [""; 0]);
        assert_eq!(listed(&chaos, "a/").await, ["a/1"]);
        assert_eq!(listed(&chaos, "b/").await, ["b/1"]);
    }
}
