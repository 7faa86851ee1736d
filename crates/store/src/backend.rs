//! The one thin trait. Each method is one request, so that a layer (retry, limit, fault, observer) can wrap any
//! of them without knowing what it is; everything larger (whole listings, streams of parts) is built on top, in
//! `store`. Keys are relative to the bucket; `Store` adds and strips the location's prefix.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use url::Url;

use crate::error::Result;
use crate::key::Key;

/// How many keys one `delete` may carry: the limit of S3's DeleteObjects.
pub const MAX_DELETE: usize = 1000;

/// What a write does when the object is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutMode {
    Overwrite,
    /// Fail with `AlreadyExists`, decided by the store (If-None-Match), not by looking first.
    Create,
}

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    pub key: String,
    pub size: u64,
    pub modified: jiff::Timestamp,
    /// Whether the store said when; else `modified` is the present, so that nothing looks old.
    pub is_dated: bool,
    /// Names this version of the content; the same object written again has another one.
    pub etag: Option<String>,
}

/// An object being read.
pub struct Reading {
    pub info: ObjectInfo,
    /// The bytes of the object that `body` brings.
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

/// What to read: all of it, or a range; `pin` refuses any other version than that of the etag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    pub range: Option<Range<u64>>,
    pub pin: Option<String>,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Keys start with this text; empty for all.
    pub prefix: String,
    /// Whether keys with a further `/` are folded into `prefixes`.
    pub delimited: bool,
    /// `next` of the page before.
    pub token: Option<String>,
}

/// The answer to a `PageRequest`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub objects: Vec<ObjectInfo>,
    /// Full prefixes, each ending in `/`.
    pub prefixes: Vec<String>,
    /// There is more; ask again with this token.
    pub next: Option<String>,
}

/// Names a multipart upload that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadId(pub String);

/// Names a part that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartId(pub String);

/// One part of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// From 0.
    pub number: usize,
    /// Where in the object it belongs.
    pub offset: u64,
    pub body: Bytes,
}

/// Object storage, one request at a time.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()>;
    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading>;
    async fn head(&self, key: &Key) -> Result<ObjectInfo>;
    async fn list_page(&self, request: &PageRequest) -> Result<Page>;
    /// Deletes at most `MAX_DELETE` objects; one that is missing is no error.
    async fn delete(&self, keys: &[Key]) -> Result<()>;
    async fn begin_upload(&self, key: &Key) -> Result<UploadId>;
    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId>;
    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()>;
    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()>;
    /// A URL that lets its holder GET the object for `ttl`.
    async fn signed_url(&self, key: &Key, ttl: std::time::Duration) -> Result<Url>;
    /// Whether objects are files of this machine: more than a few requests at once only cost memory then.
    fn is_local(&self) -> bool {
        false
    }
    /// Removes what writers that died left unfinished below `prefix`, if it was not touched for `age` by the
    /// store's own clock, and returns how much there was. Stores that leave nothing behind have nothing to do.
    async fn remove_unfinished(&self, _prefix: &str, _age: std::time::Duration) -> Result<u64> {
        Ok(0)
    }
    /// Multipart uploads of keys that start with `prefix` and were neither completed nor aborted. Stores that drop
    /// such uploads by themselves, or show none, have nothing to tell.
    async fn open_uploads(&self, _prefix: &str) -> Result<Vec<(Key, UploadId)>> {
        Ok(Vec::new())
    }
}

/// The kind of a request: what layers count by and match on.
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
    /// A bounded word for metrics.
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
