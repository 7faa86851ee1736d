//! Objects as bytes: lists in pages and single objects, without parsing them completely. Only the fields that decisions
//! need are read. Called by the backup pipeline and by the lookup of actions.

mod item;
mod pace;
mod path;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use futures::AsyncReadExt;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use lifeboat_api::catalogue::ResourceType;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use item::{ItemMeta, RawItem};
pub use path::collection_path;

use crate::{ApiError, Attempt, Cause};
use pace::Pace;

/// How often a list whose continue token expired is started again in pages; after that it is requested without pages.
const RESTARTS: u32 = 2;

/// How often a request is attempted that fails with a transient error: a restarting API server, a lost connection.
const TRIES: u32 = 5;

/// The pause after the first failure; it doubles after each.
const PAUSE: Duration = Duration::from_millis(100);

/// Which objects to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub kind: ResourceType,
    /// None for cluster-scoped objects, or for all namespaces.
    pub namespace: Option<String>,
    /// A label selector in the API server's syntax; empty for all objects.
    pub selector: String,
    /// Maximum number of objects per page; 0 for no pages. Pages of large objects are smaller.
    pub page_size: u32,
}

impl ListQuery {
    fn attempt(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("list {} in namespace {namespace}", self.kind.id),
            None => format!("list {}", self.kind.id),
        }
    }
}

/// A list in pages. After a restart (410 Gone) items are returned again; callers must handle duplicates.
pub struct Pager {
    client: Client,
    query: ListQuery,
    token: Option<String>,
    pace: Pace,
    restarts: u32,
    done: bool,
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    pub items: Vec<RawItem>,
    /// How many objects remain, as reported by the API server.
    pub remaining: u64,
}

impl Pager {
    pub fn new(client: Client, query: ListQuery) -> Self {
        let pace = Pace::new(query.page_size);
        Self { client, query, token: None, pace, restarts: 0, done: false }
    }

    /// The next page; None at the end.
    pub async fn next(&mut self) -> Result<Option<Page>, ApiError> {
        while !self.done {
            match self.fetch().await {
                Ok(page) => return Ok(Some(page)),
                Err(error) if error.code() == Some(410) && self.token.is_some() => {
                    self.token = None;
                    self.restarts += 1;
                }
                Err(error) => {
                    self.done = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    async fn fetch(&mut self) -> Result<Page, ApiError> {
        let attempt = self.query.attempt();
        let whole = self.query.page_size == 0 || self.restarts > RESTARTS;
        let text = loop {
            let limit = (!whole).then(|| self.pace.limit());
            // A page with a single object has no size limit.
            let most = if limit.is_some_and(|limit| limit > 1) { pace::MOST } else { usize::MAX };
            match self.ask_page(limit, most, &attempt).await? {
                Some(text) => break text,
                None => self.pace.too_large(),
            }
        };
        let bytes = text.len();
        let (page, token) = cut(&Bytes::from(text), &self.query.kind)
            .map_err(|error| ApiError { attempt, source: Cause::Other(kube::Error::SerdeError(error)) })?;
        self.pace.took(page.items.len(), bytes);
        self.done = token.is_none();
        self.token = token;
        Ok(page)
    }

    /// None if the page has more than `most` bytes.
    async fn ask_page(
        &self,
        limit: Option<u32>,
        most: usize,
        attempt: &str,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        let params = ListParams {
            label_selector: Some(self.query.selector.clone()).filter(|selector| !selector.is_empty()),
            limit,
            continue_token: self.token.clone(),
            ..ListParams::default()
        };
        let path = collection_path(&self.query.kind, self.query.namespace.as_deref());
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest).attempt(attempt)?;
        ask(&self.client, request, most, attempt).await
    }
}

/// Reads one object; None if it does not exist.
pub async fn get_raw(
    client: &Client,
    kind: &ResourceType,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<RawItem>, ApiError> {
    let attempt =
        format!("read {} {}", kind.id, namespace.map_or(name.to_owned(), |space| format!("{space}/{name}")));
    let Some(encoded) = path::segment(name) else { return Ok(None) };
    let request = Request::new(collection_path(kind, namespace))
        .get(&encoded, &GetParams::default())
        .map_err(kube::Error::BuildRequest)
        .attempt(attempt.clone())?;
    let text = match ask(client, request, usize::MAX, &attempt).await {
        Err(error) if error.is_not_found() => return Ok(None),
        answered => answered?.unwrap_or_default(),
    };
    RawItem::read(Bytes::from(text), kind)
        .map(Some)
        .map_err(|error| ApiError { attempt, source: Cause::Other(kube::Error::SerdeError(error)) })
}

/// Sends a read request and repeats it after a transient error. The client itself waits while the API server is too
/// busy. None if the answer has more than `most` bytes; the rest is not read then.
async fn ask(
    client: &Client,
    request: http::Request<Vec<u8>>,
    most: usize,
    attempt: &str,
) -> Result<Option<Vec<u8>>, ApiError> {
    let mut failures = 0;
    loop {
        match read(client, request.clone(), most).await.attempt(attempt) {
            Err(error) if error.is_transient() && failures + 1 < TRIES => {
                tokio::time::sleep(PAUSE * (1 << failures)).await;
                failures += 1;
            }
            answered => return answered,
        }
    }
}

async fn read(
    client: &Client,
    request: http::Request<Vec<u8>>,
    most: usize,
) -> Result<Option<Vec<u8>>, kube::Error> {
    let body = client.request_stream(request).await?;
    let mut text = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    // A connection that breaks during the answer is transient too.
    body.take(limit).read_to_end(&mut text).await.map_err(|error| kube::Error::Service(error.into()))?;
    Ok((text.len() <= most).then_some(text))
}

#[derive(Deserialize)]
struct WireList<'a> {
    #[serde(default)]
    metadata: WireListMeta,
    // The API allows `null` for an empty list.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireListMeta {
    r#continue: Option<String>,
    remaining_item_count: Option<i64>,
}

/// Splits a page into its items, which share its memory.
fn cut(text: &Bytes, kind: &ResourceType) -> Result<(Page, Option<String>), serde_json::Error> {
    let list: WireList<'_> = serde_json::from_slice(text)?;
    let items = list.items.unwrap_or_default();
    let items = items
        .iter()
        .map(|raw| RawItem::read(text.slice_ref(raw.get().as_bytes()), kind))
        .collect::<Result<_, _>>()?;
    let remaining =
        list.metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
    let token = list.metadata.r#continue.filter(|token| !token.is_empty());
    Ok((Page { items, remaining }, token))
}
