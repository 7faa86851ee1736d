//! S3, Google Cloud Storage and Azure through object_store, whose own retries are off (only the retry layer repeats
//! requests). Errors are classified; listings are checked against the request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId as RemotePartId};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, PutMode as RemotePutMode, PutMultipartOptions, PutOptions,
    PutPayload, TagSet,
};
use url::Url;

use super::uploads::OpenUploads;
use crate::backend::{
    Backend, ObjectInfo, Page, PageRequest, Part, PartId, PutMode, ReadOptions, Reading, UploadId,
};
use crate::error::{Error, Operation, Result, Site, classify};
use crate::key::Key;

/// What object_store's three cloud clients have in common.
pub(crate) trait Cloud: ObjectStore + MultipartStore + PaginatedListStore {}
impl<T: ObjectStore + MultipartStore + PaginatedListStore> Cloud for T {}

/// How URLs are signed: by the store's own client, by one for the public endpoint, or not at all, with the reason.
pub(crate) enum Signing {
    By(Arc<dyn Signer>),
    Refused(&'static str),
}

/// A bucket at a cloud provider.
pub(crate) struct Remote {
    pub site: Site,
    pub cloud: Arc<dyn Cloud>,
    /// Deletes with one plain DELETE per object, which every S3 implementation supports; `cloud` may delete many
    /// objects in one request.
    pub single: Arc<dyn Cloud>,
    pub signing: Signing,
    pub tags: TagSet,
    /// Lists unfinished uploads, for providers that can list them.
    pub uploads: Option<OpenUploads>,
}

impl fmt::Debug for Remote {
    /// object_store's own Debug output contains credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("site", &self.site).finish_non_exhaustive()
    }
}

impl Remote {
    fn error(&self, operation: Operation<'_>, error: &object_store::Error) -> Error {
        classify(&self.site, operation, error)
    }

    async fn delete_with(&self, store: &Arc<dyn Cloud>, keys: &[Key]) -> Result<()> {
        let paths: Vec<_> = keys.iter().map(path).collect::<Result<_>>()?;
        let mut results = store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut failure = None;
        while let Some(result) = results.next().await {
            let key = keys.first().map(Key::as_str).unwrap_or_default();
            match result.map_err(|e| self.error(Operation::new("delete", key), &e)) {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                // The other objects of the batch are still deleted; the first failure is reported.
                Err(error) => _ = failure.get_or_insert(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

fn path(key: &Key) -> Result<Path> {
    Path::parse(key.as_str())
        .map_err(|_| Error::InvalidKey { key: key.to_string(), problem: "object storage does not accept it" })
}

fn info(meta: &ObjectMeta) -> ObjectInfo {
    let (seconds, nanoseconds) =
        (meta.last_modified.timestamp(), meta.last_modified.timestamp_subsec_nanos());
    ObjectInfo {
        key: meta.location.to_string(),
        size: meta.size,
        modified: jiff::Timestamp::new(seconds, i32::try_from(nanoseconds).unwrap_or(0))
            .unwrap_or(jiff::Timestamp::UNIX_EPOCH),
        is_dated: true,
        etag: meta.e_tag.clone(),
    }
}

/// The object of a listing; None for a directory marker; an error if it was not requested.
fn checked(site: &Site, request: &PageRequest, meta: &ObjectMeta) -> Result<Option<ObjectInfo>> {
    let key = meta.location.as_ref();
    if key.starts_with(&request.prefix) {
        return Ok(Some(info(meta)));
    }
    // Consoles create a "directory" as an empty object `prefix/`, which object_store lists without the slash.
    if meta.size == 0 && format!("{key}/") == request.prefix {
        return Ok(None);
    }
    let detail = site.quoted(format!("it contains '{key}', which is outside of the requested prefix"));
    Err(Error::Listing { prefix: request.prefix.clone(), detail })
}

#[async_trait]
impl Backend for Remote {
    async fn put(&self, key: &Key, body: Bytes, mode: PutMode) -> Result<()> {
        let create = mode == PutMode::Create;
        let mode = if create { RemotePutMode::Create } else { RemotePutMode::Overwrite };
        let options = PutOptions { mode, tags: self.tags.clone(), ..PutOptions::default() };
        let operation = Operation { create, ..Operation::new("write", key.as_str()) };
        let result = self.cloud.put_opts(&path(key)?, PutPayload::from(body), options).await;
        result.map(|_| ()).map_err(|e| self.error(operation, &e))
    }

    async fn get(&self, key: &Key, options: &ReadOptions) -> Result<Reading> {
        let asked = options.range.clone();
        if let Some(range) = asked.as_ref().filter(|range| range.is_empty()) {
            return Err(Error::Range { key: key.to_string(), size: 0, start: range.start, end: range.end });
        }
        let operation = Operation { pinned: options.pin.is_some(), ..Operation::new("read", key.as_str()) };
        let get = GetOptions {
            range: asked.clone().map(GetRange::Bounded),
            if_match: options.pin.clone(),
            ..GetOptions::default()
        };
        let result =
            self.cloud.get_opts(&path(key)?, get).await.map_err(|e| match self.error(operation, &e) {
                Error::Rejected { status: 416, .. } => {
                    let range = asked.clone().unwrap_or_default();
                    Error::Range { key: key.to_string(), size: 0, start: range.start, end: range.end }
                }
                other => other,
            })?;
        let info = info(&result.meta);
        let range = result.range.clone();
        if asked.as_ref().is_some_and(|asked| *asked != range) {
            return Err(super::within(key, info.size, asked).map_or_else(
                |error| error,
                |_| Error::Interrupted {
                    action: format!("read '{key}'"),
                    detail: format!("received bytes {}..{} instead", range.start, range.end),
                },
            ));
        }
        let (site, key) = (self.site.clone(), key.clone());
        let body =
            result.into_stream().map_err(move |e| classify(&site, Operation::new("read", key.as_str()), &e));
        Ok(Reading { info, range, body: body.boxed() })
    }

    async fn head(&self, key: &Key) -> Result<ObjectInfo> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let result = self.cloud.get_opts(&path(key)?, options).await;
        let result = result.map_err(|e| self.error(Operation::new("look up", key.as_str()), &e))?;
        Ok(info(&result.meta))
    }

    async fn list_page(&self, request: &PageRequest) -> Result<Page> {
        let prefix = (!request.prefix.is_empty()).then_some(request.prefix.as_str());
        let options = PaginatedListOptions {
            delimiter: request.delimited.then_some("/".into()),
            page_token: request.token.clone(),
            ..PaginatedListOptions::default()
        };
        let operation = Operation::new("list", &request.prefix);
        let response =
            self.cloud.list_paginated(prefix, options).await.map_err(|e| self.error(operation, &e))?;
        let objects = response.result.objects.iter().map(|meta| checked(&self.site, request, meta));
        Ok(Page {
            objects: objects.filter_map(Result::transpose).collect::<Result<_>>()?,
            prefixes: response.result.common_prefixes.iter().map(|prefix| format!("{prefix}/")).collect(),
            next: response.page_token,
        })
    }

    async fn delete(&self, keys: &[Key]) -> Result<()> {
        if keys.len() <= 1 {
            return self.delete_with(&self.single, keys).await;
        }
        match self.delete_with(&self.cloud, keys).await {
            // This S3 implementation has no DeleteObjects.
            Err(Error::Rejected { status: 405 | 501, .. }) => self.delete_with(&self.single, keys).await,
            result => result,
        }
    }

    async fn begin_upload(&self, key: &Key) -> Result<UploadId> {
        let options = PutMultipartOptions { tags: self.tags.clone(), ..PutMultipartOptions::default() };
        let result = self.cloud.create_multipart_opts(&path(key)?, options).await;
        result.map(UploadId).map_err(|e| self.error(Operation::new("begin the upload of", key.as_str()), &e))
    }

    async fn upload_part(&self, key: &Key, upload: &UploadId, part: &Part) -> Result<PartId> {
        let payload = PutPayload::from(part.body.clone());
        let result = self.cloud.put_part(&path(key)?, &upload.0, part.number, payload).await;
        let result = result.map_err(|e| self.error(Operation::new("upload a part of", key.as_str()), &e))?;
        Ok(PartId(result.content_id))
    }

    async fn complete_upload(&self, key: &Key, upload: &UploadId, parts: &[PartId]) -> Result<()> {
        let parts = parts.iter().map(|part| RemotePartId { content_id: part.0.clone() }).collect();
        let result = self.cloud.complete_multipart(&path(key)?, &upload.0, parts).await;
        result.map(|_| ()).map_err(|e| self.error(Operation::new("finish the upload of", key.as_str()), &e))
    }

    async fn abort_upload(&self, key: &Key, upload: &UploadId) -> Result<()> {
        let result = self.cloud.abort_multipart(&path(key)?, &upload.0).await;
        match result.map_err(|e| self.error(Operation::new("abort the upload of", key.as_str()), &e)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn open_uploads(&self, prefix: &str) -> Result<Vec<(Key, UploadId)>> {
        match &self.uploads {
            Some(uploads) => uploads.list(&self.site, prefix).await,
            None => Ok(Vec::new()),
        }
    }

    async fn signed_url(&self, key: &Key, ttl: Duration) -> Result<Url> {
        match &self.signing {
            Signing::Refused(reason) => {
                Err(Error::Unsupported { operation: "signing a URL", reason: (*reason).to_owned() })
            }
            Signing::By(signer) => signer
                .signed_url(http::Method::GET, &path(key)?, ttl)
                .await
                .map_err(|e| self.error(Operation::new("sign a URL for", key.as_str()), &e)),
        }
    }
}
