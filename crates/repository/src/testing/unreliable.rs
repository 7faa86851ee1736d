//! A store that crashes at the nth request, returns a wrong nth listing, or returns wrong bytes once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_store::backend::{ObjectInfo, Page, PageRequest, Part, PartId, PutMode, UploadId};
use lifeboat_store::{Backend, Error, Key, Memory, ReadOptions, Reading, Result, RetryPolicy, Store, Tuning};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// From the nth request on, every request fails; with `after`, that request still took effect.
    Crash {
        request: u64,
        after: bool,
    },
    /// Only restic's own files can be stored, as on its REST server.
    OnlyRestic,
    /// The nth listing is wrong.
    Listing {
        number: u64,
        fault: ListingFault,
    },
    /// The nth read of a pack has a flipped bit, at the 20th byte of the range.
    Flip {
        read: u64,
    },
}

/// How a listing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListingFault {
    Fails,
    IsNotFound,
    IsEmpty,
    LacksTheFirst,
    LacksTheLast,
    Repeats,
    /// As if there were no further page.
    EndsEarly,
}

/// A wrapper around a bucket in memory.
#[derive(Debug)]
pub(crate) struct Unreliable {
    inner: Arc<Memory>,
    fault: Fault,
    /// The number of objects in a page of a listing.
    page: usize,
    requests: AtomicU64,
    listings: Mutex<Vec<String>>,
    pack_reads: AtomicU64,
    crashed: AtomicBool,
}

impl Unreliable {
    pub(crate) fn new(inner: &Arc<Memory>, fault: Fault) -> Arc<Self> {
        Self::with_pages(inner, fault, usize::MAX)
    }

    /// Lists this many objects at a time.
    pub(crate) fn with_pages(inner: &Arc<Memory>, fault: Fault, page: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            fault,
            page,
            requests: AtomicU64::new(0),
            listings: Mutex::default(),
            pack_reads: AtomicU64::new(0),
            crashed: AtomicBool::new(false),
        })
    }

    /// A store without retries.
    pub(crate) fn store(self: &Arc<Self>) -> Store {
        store(Arc::clone(self) as Arc<dyn Backend>)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn listings(&self) -> u64 {
        self.listings.lock().unwrap().len() as u64
    }

    /// The prefix of the listing with this number, from 1.
    pub(crate) fn listed(&self, number: u64) -> String {
        self.listings.lock().unwrap()[usize::try_from(number).unwrap() - 1].clone()
    }

    /// Whether the fault occurred.
    pub(crate) fn happened(&self) -> bool {
        match self.fault {
            Fault::None | Fault::OnlyRestic => false,
            Fault::Crash { .. } => self.crashed.load(Ordering::SeqCst),
            Fault::Listing { number, .. } => self.listings() >= number,
            Fault::Flip { read } => self.pack_reads.load(Ordering::SeqCst) >= read,
        }
    }

    fn is_kept(&self, key: &str) -> Result<()> {
        if self.fault == Fault::OnlyRestic && key.starts_with(crate::files::OWN_PREFIX) {
            return Err(Error::Unsupported {
                operation: "this name",
                reason: "it is not restic's".to_owned(),
            });
        }
        Ok(())
    }

    /// A part of the single page of a test bucket; the token is its start.
    async fn page(&self, request: &PageRequest) -> Result<Page> {
        let whole = PageRequest { token: None, ..request.clone() };
        let mut page = self.inner.list_page(&whole).await?;
        let from = request.token.as_ref().map_or(0, |token| token.parse().unwrap()).min(page.objects.len());
        let to = from.saturating_add(self.page);
        if to < page.objects.len() {
            page.objects.truncate(to);
            page.next = Some(to.to_string());
        }
        page.objects.drain(..from);
        Ok(page)
    }

    async fn request<T>(&self, run: impl Future<Output = Result<T>>) -> Result<T> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if self.crashed.load(Ordering::SeqCst) {
            return Err(crashed());
        }
        match self.fault {
            Fault::Crash { request, after } if request == number => {
                self.crashed.store(true, Ordering::SeqCst);
                if after {
                    let _ = run.await;
                }
                Err(crashed())
            }
            _ => run.await,
        }
    }
}

/// A store without retries over a backend.
pub(crate) fn store(backend: Arc<dyn Backend>) -> Store {
    let retry = RetryPolicy {
        attempts: 1,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
        deadline: None,
        outage: None,
    };
    Store::new(backend, "", Tuning { retry, ..Tuning::default() }).unwrap()
}

/// Another bucket with the same objects.
pub(crate) async fn copy(memory: &Arc<Memory>) -> Arc<Memory> {
    use futures::TryStreamExt;
    let other = Arc::new(Memory::new());
    let (from, to) = (store(Arc::clone(memory) as _), store(Arc::clone(&other) as _));
    let listed: Vec<ObjectInfo> = from.list("").try_collect().await.unwrap();
    for info in listed {
        to.put(&info.key, from.get(&info.key).await.unwrap()).await.unwrap();
    }
    other
}

async fn flipped(reading: Reading) -> Result<Reading> {
    use futures::{StreamExt, TryStreamExt};
    let Reading { info, range, body } = reading;
    let mut bytes = body.try_collect::<Vec<_>>().await?.concat();
    bytes[20] ^= 1;
    let body = futures::stream::once(async { Ok(Bytes::from(bytes)) }).boxed();
    Ok(Reading { info, range, body })
}

fn crashed() -> Error {
    Error::Other { action: "the request".to_owned(), detail: "the store has crashed".to_owned() }
}

#[async_trait]
impl Backend for Unreliable {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        self.is_kept(key.as_str())?;
        self.request(self.inner.put(key, body, mode)).await
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let reading = self.request(self.inner.get(key, options)).await?;
        if !key.as_str().starts_with("data/") {
            return Ok(reading);
        }
        let number = self.pack_reads.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fault == (Fault::Flip { read: number }) { flipped(reading).await } else { Ok(reading) }
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        self.request(self.inner.head(key)).await
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        self.is_kept(&request.prefix)?;
        let number = {
            let mut listings = self.listings.lock().unwrap();
            listings.push(request.prefix.clone());
            listings.len() as u64
        };
        let mut page = self.request(self.page(request)).await?;
        let Fault::Listing { number: wanted, fault } = self.fault else { return Ok(page) };
        if number == wanted {
            match fault {
                ListingFault::Fails => return Err(crashed()),
                ListingFault::IsNotFound => return Err(Error::NotFound { key: request.prefix.clone() }),
                ListingFault::IsEmpty => page.objects.clear(),
                ListingFault::LacksTheFirst => {
                    drop((!page.objects.is_empty()).then(|| page.objects.remove(0)));
                }
                ListingFault::LacksTheLast => drop(page.objects.pop()),
                ListingFault::Repeats => page.objects.extend(page.objects.clone()),
                ListingFault::EndsEarly if page.next.is_none() => page.objects.clear(),
                ListingFault::EndsEarly => page.next = None,
            }
        }
        Ok(page)
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        self.request(self.inner.delete(keys)).await
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        self.request(self.inner.begin_upload(key)).await
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        self.request(self.inner.upload_part(key, upload, part)).await
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()> {
        self.request(self.inner.complete_upload(key, upload, parts)).await
    }

    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()> {
        self.request(self.inner.abort_upload(key, upload)).await
    }

    async fn signed_url(&self, key: &Key, ttl: Duration) -> Result<url::Url> {
        self.inner.signed_url(key, ttl).await
    }
}
