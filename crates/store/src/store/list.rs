//! Complete listings, built from pages. A listing either returns everything or fails: a page that cannot be read is
//! an error in the stream, and nothing follows it (restic#4612: an error that was taken for the end of the list let
//! prune delete live data).

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::Store;
use crate::backend::{ObjectInfo, Page, PageRequest};
use crate::error::{Error, Result};

/// The most memory that one level may need, in bytes: that of several hundred thousand names. Whoever writes the bucket
/// decides how many there are.
const LARGEST_LEVEL: usize = 64 * 1024 * 1024;

/// One level of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    /// The prefixes of deeper keys, in full (relative to the location) and ending in `/`.
    pub prefixes: Vec<String>,
    /// The objects directly at this level.
    pub objects: Vec<ObjectInfo>,
}

impl Store {
    /// Every object whose key starts with `prefix`, page by page. An empty prefix lists all; `a/` does not match
    /// `ab/`.
    pub fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo>> {
        let store = self.clone();
        self.pages(prefix, false)
            .map_ok(move |page| {
                let store = store.clone();
                stream::iter(page.objects.into_iter().map(move |info| store.strip(info)))
            })
            .try_flatten()
            .boxed()
    }

    /// One level: the common prefixes and the objects directly below `prefix` (empty, or ending in `/`).
    pub async fn list_directory(&self, prefix: &str) -> Result<Directory> {
        let mut pages = self.pages(prefix, true);
        let mut directory = Directory::default();
        let mut size = 0;
        while let Some(page) = pages.try_next().await? {
            size += page.prefixes.iter().map(|prefix| prefix.len() + size_of::<String>()).sum::<usize>();
            size += page.objects.iter().map(|info| info.key.len() + size_of::<ObjectInfo>()).sum::<usize>();
            if size > LARGEST_LEVEL {
                let detail = format!("the names need more than {LARGEST_LEVEL} bytes of memory");
                return Err(Error::Listing { prefix: prefix.to_owned(), detail });
            }
            for prefix in page.prefixes {
                // A store may end one page and start the next within the same prefix.
                let name = prefix.strip_prefix(&*self.prefix).unwrap_or(&prefix);
                if directory.prefixes.last().map(String::as_str) != Some(name) {
                    directory.prefixes.push(name.to_owned());
                }
            }
            for info in page.objects {
                directory.objects.push(self.strip(info)?);
            }
        }
        Ok(directory)
    }

    fn pages(&self, prefix: &str, delimited: bool) -> BoxStream<'static, Result<Page>> {
        let first = PageRequest { prefix: format!("{}{prefix}", self.prefix), delimited, token: None };
        let backend = std::sync::Arc::clone(&self.backend);
        let state = Some(first);
        stream::try_unfold((backend, state), |(backend, state)| async move {
            let Some(request) = state else { return Ok(None) };
            let page = backend.list_page(&request).await?;
            if page.next.is_some() && page.next == request.token {
                let detail = "the server returns the same page again and again".to_owned();
                return Err(Error::Listing { prefix: request.prefix, detail });
            }
            let next = page.next.clone().map(|token| PageRequest { token: Some(token), ..request });
            Ok(Some((page, (backend, next))))
        })
        .boxed()
    }
}
