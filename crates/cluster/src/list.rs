//! Objects as bytes: lists in pages and single objects, without building them. Only what a decision needs is read. Called
//! by the backup pipeline and by the lookup of actions.

mod item;
mod path;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use lifeboat_plan::catalogue::ResourceType;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use item::{ItemMeta, RawItem};
pub use path::collection_path;

use crate::{ApiError, Attempt, Cause};

/// How often a list that the API server has forgotten is begun again in pages; then it is asked for as a whole.
const RESTARTS: u32 = 2;

/// How often a request is made that fails in a way that passes: an API server that restarts, a connection that broke.
const TRIES: u32 = 5;

/// The pause after the first failure; it doubles each time.
const PAUSE: Duration = Duration::from_millis(100);

/// What to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub kind: ResourceType,
    /// None: cluster-scoped, or all namespaces.
    pub namespace: Option<String>,
    /// As the API server reads it; empty for all labels.
    pub selector: String,
    /// Objects in a page; 0 for all at once.
    pub page_size: u32,
}

impl ListQuery {
    fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("list {} in namespace {namespace}", self.kind.id),
            None => format!("list {}", self.kind.id),
        }
    }
}

/// A list in pages. After a restart (410 Gone), items that were given before are given again: callers know what they have.
pub struct Pager {
    client: Client,
    query: ListQuery,
    token: Option<String>,
    restarts: u32,
    done: bool,
}

/// Part of a list.
#[derive(Debug, Default)]
pub struct Page {
    pub items: Vec<RawItem>,
    /// How many the API server says are still to come.
    pub remaining: u64,
}

impl Pager {
    pub fn new(client: Client, query: ListQuery) -> Self {
        Self { client, query, token: None, restarts: 0, done: false }
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
        let words = self.query.words();
        let whole = self.query.page_size == 0 || self.restarts > RESTARTS;
        let params = ListParams {
            label_selector: Some(self.query.selector.clone()).filter(|selector| !selector.is_empty()),
            limit: (!whole).then_some(self.query.page_size),
            continue_token: self.token.clone(),
            ..ListParams::default()
        };
        let path = collection_path(&self.query.kind, self.query.namespace.as_deref());
        let request =
            Request::new(path).list(&params).map_err(kube::Error::BuildRequest).attempt(words.clone())?;
        let text = ask(&self.client, request, &words).await?;
        let (page, token) = cut(&Bytes::from(text), &self.query.kind).map_err(|error| ApiError {
            attempt: words,
            source: Cause::Other(kube::Error::SerdeError(error)),
        })?;
        self.done = token.is_none();
        self.token = token;
        Ok(page)
    }
}

/// Reads one object; None where there is none.
pub async fn get_raw(
    client: &Client,
    kind: &ResourceType,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<RawItem>, ApiError> {
    let words =
        format!("read {} {}", kind.id, namespace.map_or(name.to_owned(), |space| format!("{space}/{name}")));
    let Some(encoded) = path::segment(name) else { return Ok(None) };
    let request = Request::new(collection_path(kind, namespace))
        .get(&encoded, &GetParams::default())
        .map_err(kube::Error::BuildRequest)
        .attempt(words.clone())?;
    let text = match ask(client, request, &words).await {
        Err(error) if error.is_not_found() => return Ok(None),
        answered => answered?,
    };
    RawItem::read(Bytes::from(text), kind)
        .map(Some)
        .map_err(|error| ApiError { attempt: words, source: Cause::Other(kube::Error::SerdeError(error)) })
}

/// Makes a request that reads; again, where its failure is one that passes. The client itself waits out an API server that
/// is too busy.
async fn ask(client: &Client, request: http::Request<Vec<u8>>, words: &str) -> Result<String, ApiError> {
    let mut failures = 0;
    loop {
        match client.request_text(request.clone()).await.attempt(words) {
            Err(error) if error.is_transient() && failures + 1 < TRIES => {
                tokio::time::sleep(PAUSE * (1 << failures)).await;
                failures += 1;
            }
            answered => return answered,
        }
    }
}

#[derive(Deserialize)]
struct WireList<'a> {
    #[serde(default)]
    metadata: WireListMeta,
    // `null` for an empty list is allowed.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireListMeta {
    r#continue: Option<String>,
    remaining_item_count: Option<i64>,
}

/// Cuts a page into its items, which share its memory.
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
