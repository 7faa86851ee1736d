//! The storage trait. Each method is one request, so that a layer (retry, limit, fault, observer) can wrap any of
//! them without knowing which one it is. Larger operations (complete listings, streamed uploads) are built on top of
//! it in `store`. Keys are relative to the bucket; `Store` adds and strips the location's prefix.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use url::Url;

use crate::error::Result;
use crate::key::Key;

/// The most keys that one `delete` may carry: the limit of S3's DeleteObjects.
pub const MAX_DELETE: usize = 1000;

/// What a write does if the object already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutMode {
    Overwrite,
    /// Fail with `AlreadyExists`. The store decides (If-None-Match); the client does not check first.
    Create,
}

/// The metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    pub key: String,
    pub size: u64,
    pub modified: jiff::Timestamp,
    /// Whether the store reported a modification time. If not, `modified` is the current time, so that the object
    /// never looks old.
    pub is_dated: bool,
    /// Identifies this version of the content; writing the object again changes it.
    pub etag: Option<String>,
}

/// An object being read.
pub struct Reading {
    pub info: ObjectInfo,
    /// The byte range of the object that `body` delivers.
    pub range: Range<u64>,
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("info", &self.info)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// What to read: the whole object or a range. With `pin`, the read fails unless the object still has this etag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    pub range: Option<Range<u64>>,
    pub pin: Option<String>,
}

/// Asks for one page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Only keys that start with this text are listed; empty for all keys.
    pub prefix: String,
    /// Whether keys with a further `/` after the prefix are grouped into `prefixes`.
    pub delimited: bool,
    /// The `next` of the previous page.
    pub token: Option<String>,
}

/// The response to a `PageRequest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub objects: Vec<ObjectInfo>,
    /// Full prefixes, each ending in `/`.
    pub prefixes: Vec<String>,
    /// Set if the listing continues: the token to request the next page with.
    pub next: Option<String>,
}

/// Identifies a multipart upload in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadId(pub String);

/// Identifies an uploaded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartId(pub String);

/// One part of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Counted from 0.
    pub number: usize,
    /// Its offset in the object.
    pub offset: u64,
    pub body: Bytes,
}

/// Object storage, one request per method.
///
/// Every implementation, and the storage behind it, must guarantee the following. The order in which a repository
/// writes (packs, then indexes, then the snapshot) and its locks are only safe under these conditions:
///
/// - **Durability.** When `put` or `complete_upload` returns `Ok`, the object survives a crash of this process, of this
///   machine and of the storage server. Stored bytes do not change.
/// - **Read-after-write.** As soon as a write or a delete has returned, every client sees it in `get`, `head` and
///   `list_page`. Locks depend on it: a holder writes its lock file and then lists the others.
/// - **Atomic writes.** A reader sees the complete object or none of it, and when an object is replaced, the old content
///   or the new one, never a mixture. An upload that was not completed is not visible. A write that failed may still
///   have taken effect (`Error::outcome_unknown`), but only as a whole.
/// - **Atomic creates.** Of several `PutMode::Create` writes to one key at the same time, exactly one succeeds; the
///   others fail with `AlreadyExists` and change nothing.
/// - **Complete listings.** The pages of a listing contain every object that exists from the first request to the last,
///   in ascending order of the keys' bytes and each once; objects that are written or deleted in the meantime may be
///   missing or present. If the complete listing is not available, the request fails: a listing that was cut short
///   would let prune delete data that is in use.
/// - **Pinned reads.** A read with `pin` fails with `Changed` instead of returning bytes of another version.
/// - **Clocks.** `modified` is the time of the last write by the storage's own clock, which does not go back; it may
///   differ by minutes from the clocks of clients. Whether a lock or an unfinished file is abandoned is decided by
///   comparing two times of the same storage. Storage that reports no times sets `is_dated` to false.
///
/// S3, Google Cloud Storage and Azure provide this, and so does a local file system. restic's REST server replaces
/// no objects and reports no times (see `backends::rest`). `testing::conformance` checks what a test can observe.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()>;
    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading>;
    async fn head(&self, key: &Key) -> Result<ObjectInfo>;
    async fn list_page(&self, request: &PageRequest) -> Result<Page>;
    /// Deletes at most `MAX_DELETE` objects. Deleting an object that does not exist is not an error.
    async fn delete(&self, keys: &[Key]) -> Result<()>;
    async fn begin_upload(&self, key: &Key) -> Result<UploadId>;
    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId>;
    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()>;
    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()>;
    /// A URL that lets its holder GET the object for `ttl`.
    async fn signed_url(&self, key: &Key, ttl: std::time::Duration) -> Result<Url>;
    /// Whether the objects are files on this machine. Then more than a few concurrent requests only cost memory.
    fn is_local(&self) -> bool {
        false
    }
    /// Removes unfinished files below `prefix` that crashed writers left behind, if they were not modified for `age`
    /// by the store's own clock, and returns their number. Stores in which nothing is left behind have nothing to do.
    async fn remove_unfinished(&self, _prefix: &str, _age: std::time::Duration) -> Result<u64> {
        Ok(0)
    }
    /// The multipart uploads of keys that start with `prefix` that were neither completed nor aborted. Empty for
    /// stores that drop such uploads automatically or cannot list them.
    async fn open_uploads(&self, _prefix: &str) -> Result<Vec<(Key, UploadId)>> {
        Ok(Vec::new())
    }
}

/// The kind of a request: layers count requests by it, and fault rules match on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    Put,
    Create,
    Get,
    Head,
    List,
    Delete,
    BeginUpload,
    UploadPart,
    CompleteUpload,
    AbortUpload,
    Sign,
}

impl RequestKind {
    /// The name for metrics, from a fixed list.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Create => "create",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::BeginUpload => "begin_upload",
            Self::UploadPart => "upload_part",
            Self::CompleteUpload => "complete_upload",
            Self::AbortUpload => "abort_upload",
            Self::Sign => "sign",
        }
    }
}
