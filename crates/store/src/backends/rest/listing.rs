//! The listing of a REST server, version 2 of its protocol: a JSON array of names and sizes. Pure. One invalid entry
//! fails the whole listing.

use std::collections::BTreeSet;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::Deserialize;

use super::names;
use crate::backend::{ObjectInfo, Page, PageRequest};
use crate::error::{Error, Result};

/// The content type that is requested and that the response must have.
pub(super) const VERSION_2: &str = "application/vnd.x.restic.rest.v2";

#[derive(Debug, Deserialize)]
struct Item {
    name: String,
    size: u64,
}

/// When an object was written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written {
    At(jiff::Timestamp),
    /// The server does not report it, so the object counts as written now.
    Unknown {
        now: jiff::Timestamp,
    },
}

/// The files of one kind. Names that are not IDs are skipped: servers also list files that are still being uploaded.
pub(super) fn parse(
    kind: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: jiff::Timestamp,
) -> Result<Vec<ObjectInfo>> {
    let bad = |detail: String| Error::Listing { prefix: format!("{kind}/"), detail };
    let version = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if version.split(';').next().map(str::trim) != Some(VERSION_2) {
        return Err(bad(format!(
            "the response has the type '{version}', not '{VERSION_2}' (is this a REST server of version 0.10 or later?)"
        )));
    }
    let items: Vec<Item> =
        serde_json::from_slice(body).map_err(|error| bad(format!("its JSON cannot be parsed: {error}")))?;
    let mut objects: Vec<ObjectInfo> = items
        .into_iter()
        .filter(|item| names::is_id(&item.name))
        .map(|item| object(names::key(kind, &item.name), item.size, Written::Unknown { now }))
        .collect();
    objects.sort_unstable_by(|left, right| left.key.cmp(&right.key));
    match objects.windows(2).find(|pair| pair[0].key == pair[1].key) {
        Some(pair) => Err(bad(format!("it contains '{}' twice", pair[0].key))),
        None => Ok(objects),
    }
}

/// The metadata of an object. Its ID serves as its etag: other content has another ID.
pub(super) fn object(key: String, size: u64, written: Written) -> ObjectInfo {
    let etag = key.rsplit_once('/').map(|(_, id)| id.to_owned());
    let (modified, is_dated) = match written {
        Written::At(time) => (time, true),
        Written::Unknown { now } => (now, false),
    };
    ObjectInfo { key, size, modified, is_dated, etag }
}

/// The objects that `request` asks for, from `objects`, which are sorted. The server has no paging, so there is one
/// page.
pub(super) fn page(request: &PageRequest, objects: Vec<ObjectInfo>) -> Page {
    let mut prefixes = BTreeSet::new();
    let mut direct = Vec::new();
    for object in objects {
        let Some(rest) = object.key.strip_prefix(request.prefix.as_str()) else { continue };
        match rest.find('/').filter(|_| request.delimited) {
            Some(end) => _ = prefixes.insert(object.key[..=request.prefix.len() + end].to_owned()),
            None => direct.push(object),
        }
    }
    Page { objects: direct, prefixes: prefixes.into_iter().collect(), next: None }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

    const ID: &str = "245bc4c430d393f74fbe7b13325e30dbde9fb0745e50caad57c446c93d20096b";

    fn read(version: &'static str, body: &str) -> Result<Vec<ObjectInfo>> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(version))]);
        parse("data", &headers, body.replace("ID", ID).as_bytes(), jiff::Timestamp::UNIX_EPOCH)
    }

    #[rstest]
    #[case::one(r#"[{"name":"ID","size":5}]"#, 1)]
    #[case::none("[]", 0)]
    #[case::spaces(" [ ]\n", 0)]
    #[case::an_upload_under_way(r#"[{"name":"ID.rest-server-temp77","size":5},{"name":"ID","size":5}]"#, 1)]
    #[case::more_fields(r#"[{"name":"ID","size":5,"time":"x"}]"#, 1)]
    fn a_listing_is_read(#[case] body: &str, #[case] expected: usize) {
        let objects = read("application/vnd.x.restic.rest.v2; charset=utf-8", body).unwrap();
        assert_eq!(objects.len(), expected);
        for object in objects {
            assert_eq!((object.key, object.size), (format!("data/24/{ID}"), 5));
        }
    }

    #[rstest]
    #[case::cut(VERSION_2, r#"[{"name":"ID","size":5},"#)]
    #[case::cut_after_an_item(VERSION_2, r#"[{"name":"ID","size":5}"#)]
    #[case::nothing(VERSION_2, "")]
    #[case::null(VERSION_2, "null")]
    #[case::more_after_the_end(VERSION_2, "[][]")]
    #[case::no_size(VERSION_2, r#"[{"name":"ID"}]"#)]
    #[case::negative(VERSION_2, r#"[{"name":"ID","size":-1}]"#)]
    #[case::twice(VERSION_2, r#"[{"name":"ID","size":5},{"name":"ID","size":5}]"#)]
    #[case::page_of_a_proxy("text/html", "<html></html>")]
    #[case::version_1("application/vnd.x.restic.rest.v1", r#"["ID"]"#)]
    #[case::another_type("application/json", "[]")]
    fn a_listing_that_cannot_be_trusted_is_an_error(#[case] version: &'static str, #[case] body: &str) {
        assert_eq!(read(version, body).unwrap_err().category(), "listing");
    }

    #[test]
    fn a_level_shows_its_directories() {
        let objects = read(VERSION_2, r#"[{"name":"ID","size":5}]"#).unwrap();
        let level = |prefix: &str| {
            let request = PageRequest { prefix: prefix.into(), delimited: true, token: None };
            page(&request, objects.clone())
        };
        assert_eq!(level("").prefixes, ["data/"]);
        assert_eq!(level("data/").prefixes, ["data/24/"]);
        assert_eq!(level("data/24/").objects.len(), 1);
        assert_eq!(level("data/25/"), Page::default());
    }
}
