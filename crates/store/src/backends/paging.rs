//! Pages of a sorted sequence of keys, for backends that sort the keys themselves.

use crate::backend::{ObjectInfo, Page, PageRequest};

/// As many entries as S3 puts on one page, so that paging is exercised with every backend.
pub(crate) const PAGE: usize = 1000;

/// Collects one page from entries that come in ascending order.
#[derive(Debug)]
pub(crate) struct Pager<'a> {
    request: &'a PageRequest,
    page: Page,
    last: Option<String>,
}

impl<'a> Pager<'a> {
    pub(crate) fn new(request: &'a PageRequest) -> Self {
        Self { request, page: Page::default(), last: None }
    }

    /// Takes the next key; `false` when the page is full and the walk can stop.
    pub(crate) fn offer(&mut self, key: &str, info: impl FnOnce() -> ObjectInfo) -> bool {
        let Some(rest) = key.strip_prefix(self.request.prefix.as_str()) else {
            return true;
        };
        let folded = if self.request.delimited { rest.find('/') } else { None };
        let entry = folded.map_or(key, |end| &key[..=self.request.prefix.len() + end]);
        let seen = self.last.as_deref() == Some(entry);
        if seen || self.request.token.as_deref().is_some_and(|token| entry <= token) {
            return true;
        }
        if self.page.objects.len() + self.page.prefixes.len() == PAGE {
            self.page.next.clone_from(&self.last);
            return false;
        }
        match folded {
            Some(_) => self.page.prefixes.push(entry.to_owned()),
            None => self.page.objects.push(info()),
        }
        self.last = Some(entry.to_owned());
        true
    }

    /// Whether `key` was on an earlier page, so that its metadata is not needed.
    pub(crate) fn passed(&self, key: &str) -> bool {
        self.request.token.as_deref().is_some_and(|token| key <= token)
    }

    /// Whether nothing below `directory` (ending in `/`) can add to this page.
    pub(crate) fn skips(&self, directory: &str) -> bool {
        let prefix = self.request.prefix.as_str();
        if !directory.starts_with(prefix) && !prefix.starts_with(directory) {
            return true;
        }
        let token = self.request.token.as_deref();
        let folded = |entry: &str| entry.ends_with('/') && directory.starts_with(entry);
        if self.request.delimited && [token, self.last.as_deref()].into_iter().flatten().any(folded) {
            return true;
        }
        token.is_some_and(|token| token > directory && !token.starts_with(directory))
    }

    pub(crate) fn finish(self) -> Page {
        self.page
    }
}
