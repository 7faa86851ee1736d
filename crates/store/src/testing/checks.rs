//! The checks of the conformance suite, each on keys of its own.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::Error;
use crate::store::Store;

pub(super) async fn keys(store: &Store, prefix: &str) -> Vec<String> {
    let mut keys: Vec<String> = store.list(prefix).map_ok(|info| info.key).try_collect().await.unwrap();
    keys.sort();
    keys
}

async fn clear(store: &Store, prefix: &str) {
    store.delete_many(keys(store, prefix).await).await.unwrap();
    assert_eq!(keys(store, prefix).await, Vec::<String>::new());
}

pub(super) async fn writes(store: &Store) {
    store.put("w/a", "one").await.unwrap();
    assert_eq!(store.get("w/a").await.unwrap(), "one");
    let first = store.head("w/a").await.unwrap();
    assert_eq!((first.key.as_str(), first.size), ("w/a", 3));

    store.put("w/a", "second").await.unwrap();
    assert_eq!(store.get("w/a").await.unwrap(), "second", "a write replaces");
    let second = store.head("w/a").await.unwrap();
    assert_eq!(second.size, 6);
    assert_ne!(first.etag, second.etag, "another content has another etag");

    store.put("w/empty", Bytes::new()).await.unwrap();
    assert_eq!(store.get("w/empty").await.unwrap(), Bytes::new(), "an empty object is an object");
    assert_eq!(store.head("w/empty").await.unwrap().size, 0);
    assert!(store.exists("w/empty").await.unwrap());
    assert_eq!(keys(store, "w/").await, ["w/a", "w/empty"]);
    clear(store, "w/").await;
}

pub(super) async fn create_only(store: &Store) {
    store.create("c/lock", "mine").await.unwrap();
    let error = store.create("c/lock", "yours").await.unwrap_err();
    assert!(error.is_already_exists(), "{error:?}");
    assert_eq!(store.get("c/lock").await.unwrap(), "mine", "a refused create changes nothing");

    // Of many concurrent creates of one key, one succeeds.
    let all = stream::iter(0..8)
        .map(|number| store.create("c/race", format!("writer {number}")))
        .buffer_unordered(8)
        .collect::<Vec<_>>()
        .await;
    assert_eq!(all.iter().filter(|result| result.is_ok()).count(), 1, "{all:?}");
    clear(store, "c/").await;
}

pub(super) async fn ranges(store: &Store) {
    store.put("r/x", "0123456789").await.unwrap();
    for (range, expected) in [(0..10, "0123456789"), (0..1, "0"), (9..10, "9"), (3..7, "3456")] {
        assert_eq!(store.get_range("r/x", range).await.unwrap(), expected);
    }
    #[allow(clippy::reversed_empty_ranges)]
    for range in [5..11, 10..11, 20..30, 4..4, 7..3] {
        let error = store.get_range("r/x", range.clone()).await.unwrap_err();
        assert!(matches!(error, Error::Range { .. }), "{range:?}: {error:?}");
    }
    clear(store, "r/").await;
}

pub(super) async fn missing_objects(store: &Store) {
    store.put("m/there", "x").await.unwrap();
    for key in ["m/gone", "m", "m/there/below"] {
        for error in [
            store.get(key).await.unwrap_err(),
            store.get_range(key, 0..1).await.unwrap_err(),
            store.head(key).await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::NotFound { key: named } if named == key), "{key}: {error:?}");
        }
        assert!(!store.exists(key).await.unwrap(), "{key}");
    }
    assert_eq!(keys(store, "m/gone/").await, Vec::<String>::new(), "an empty listing is no error");
    clear(store, "m/").await;
}

pub(super) async fn deletes(store: &Store, no_empty_prefixes: bool) {
    store.put("d/a", "x").await.unwrap();
    store.put("d/b/c", "x").await.unwrap();
    store.delete("d/a").await.unwrap();
    store.delete("d/a").await.unwrap();
    store.delete("d/never").await.unwrap();
    store.delete("d/b").await.unwrap();
    assert_eq!(keys(store, "d/").await, ["d/b/c"], "deleting a prefix deletes nothing");
    store.delete_many(["d/b/c", "d/never"]).await.unwrap();
    store.delete_many(Vec::<String>::new()).await.unwrap();
    let prefixes = store.list_directory("d/").await.unwrap().prefixes;
    assert!(prefixes.is_empty() || !no_empty_prefixes, "no empty prefixes: {prefixes:?}");
}

pub(super) async fn similar_prefixes(store: &Store) {
    for key in ["p/a/1", "p/a/2/3", "p/ab/1", "p/a.b", "p/a-b"] {
        store.put(key, "x").await.unwrap();
    }
    assert_eq!(keys(store, "p/a/").await, ["p/a/1", "p/a/2/3"], "a/ does not match ab/");
    assert_eq!(keys(store, "p/").await, ["p/a-b", "p/a.b", "p/a/1", "p/a/2/3", "p/ab/1"]);
    let level = store.list_directory("p/").await.unwrap();
    assert_eq!(BTreeSet::from_iter(level.prefixes), BTreeSet::from(["p/a/".to_owned(), "p/ab/".to_owned()]));
    let names: BTreeSet<String> = level.objects.into_iter().map(|info| info.key).collect();
    assert_eq!(names, BTreeSet::from(["p/a-b".to_owned(), "p/a.b".to_owned()]));
    assert_eq!(store.list_directory("p/a/").await.unwrap().prefixes, ["p/a/2/"]);
    clear(store, "p/").await;
}

pub(super) async fn special_characters(store: &Store) {
    let usual = ["s/a b", "s/ü-日本", "s/a+b=c&d", "s/a%20b", "s/(a)'b',;:@$!", "s/~tilde_-.x", "s/..hidden"];
    let unusual = ["s/a#1", "s/what?", "s/star*", "s/q\"uote", "s/<a>|b", "s/[a]{b}^`"];
    let names = [&usual[..], &unusual[..]].concat();
    for name in &names {
        store.put(name, format!("content of {name}")).await.unwrap();
    }
    for name in &names {
        assert_eq!(store.get(name).await.unwrap(), format!("content of {name}"), "{name}");
        assert_eq!(store.head(name).await.unwrap().key, *name);
    }
    let mut expected: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    expected.sort();
    assert_eq!(keys(store, "s/").await, expected);
    clear(store, "s/").await;
}

pub(super) async fn many_keys(store: &Store) {
    let names: Vec<String> = (0..1205).map(|number| format!("l/{:02}/{number:05}", number % 3)).collect();
    stream::iter(&names)
        .map(|name| store.put(name, "x"))
        .buffer_unordered(16)
        .try_collect::<Vec<()>>()
        .await
        .unwrap();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(keys(store, "l/").await, expected, "more than one page");
    assert_eq!(keys(store, "l/01/").await.len(), 402);
    assert_eq!(store.list_directory("l/").await.unwrap().prefixes, ["l/00/", "l/01/", "l/02/"]);
    assert_eq!(store.list_directory("l/02/").await.unwrap().objects.len(), 401);
    clear(store, "l/").await;
}

pub(super) async fn streams(store: &Store) {
    // Three parts and a bit, in chunks that do not align with the parts.
    let part = store.part_size();
    let size = 3 * part + 12_345;
    let chunk = part / 3 + 77;
    let content: Vec<u8> = (0..size).map(|i: usize| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let content = Bytes::from(content);
    let chunks: Vec<Result<Bytes, Error>> =
        (0..size).step_by(chunk).map(|start| Ok(content.slice(start..size.min(start + chunk)))).collect();
    assert_eq!(store.put_stream("t/large", stream::iter(chunks)).await.unwrap(), size as u64);
    assert_eq!(store.head("t/large").await.unwrap().size, size as u64);
    let reading = store.get_stream("t/large").await.unwrap();
    assert_eq!((reading.info.key.as_str(), reading.range.clone()), ("t/large", 0..size as u64));
    let mut position = 0;
    let mut body = reading.body;
    while let Some(chunk) = body.try_next().await.unwrap() {
        assert!(content.slice(position..position + chunk.len()) == chunk, "differs near byte {position}");
        position += chunk.len();
    }
    assert_eq!(position, size);
    let border = part - 50..part + 50;
    let across = store.get_range("t/large", border.start as u64..border.end as u64).await.unwrap();
    assert!(across == content.slice(border), "a range over the border of two parts");

    for (name, chunks) in
        [("t/none", vec![]), ("t/empty", vec![Bytes::new()]), ("t/small", vec!["ab".into(), "c".into()])]
    {
        let expected = chunks.concat();
        let body = stream::iter(chunks.into_iter().map(Ok::<Bytes, Error>));
        assert_eq!(store.put_stream(name, body).await.unwrap(), expected.len() as u64);
        assert_eq!(store.get(name).await.unwrap(), expected, "{name}");
    }

    // A source that fails leaves no object, however much was already uploaded.
    for parts in [0, 2] {
        let good = std::iter::repeat_with(|| Ok(Bytes::from(vec![7; part + 1]))).take(parts);
        let body = stream::iter(good.chain([Err("the dump failed")]));
        let error = store.put_stream("t/failed", body).await.unwrap_err();
        assert!(error.to_string().contains("the dump failed"), "{error}");
        assert!(!store.exists("t/failed").await.unwrap());
    }
    clear(store, "t/").await;
}

pub(super) async fn refused_keys(store: &Store) {
    for key in ["", "/abs", "a/../b", "..", "a//b", "a/", "nul\0", "line\nbreak", "back\\slash"] {
        for error in [
            store.put(key, "x").await.unwrap_err(),
            store.get(key).await.unwrap_err(),
            store.delete(key).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::InvalidKey { .. }), "{key:?}: {error:?}");
        }
    }
}

pub(super) async fn prefixes_nest(store: &Store) {
    let below = store.below("n/deep").unwrap();
    below.put("x/y", "content").await.unwrap();
    assert_eq!(keys(&below, "").await, ["x/y"]);
    assert_eq!(below.list_directory("").await.unwrap().prefixes, ["x/"]);
    assert_eq!(keys(store, "n/").await, ["n/deep/x/y"]);
    assert_eq!(below.below("/").unwrap().prefix(), below.prefix(), "an empty prefix adds nothing");
    let error = below.get("gone").await.unwrap_err();
    assert_eq!(error.to_string(), "object 'gone' not found", "keys in messages are the caller's");
    clear(store, "n/").await;
}

pub(super) async fn signed_urls(store: &Store, ca_pem: Option<&[u8]>) {
    store.put("u/a b", "behind a link").await.unwrap();
    let url = store.signed_url("u/a b", Duration::from_mins(1)).await.unwrap();
    let body = crate::testing::fetch(&url, ca_pem).await.unwrap();
    assert_eq!(body, "behind a link");
    let query = url.query().unwrap().to_owned();
    let mut tampered = url.clone();
    tampered.set_query(Some(&query.replace("Signature=", "Signature=0")));
    assert!(crate::testing::fetch(&tampered, ca_pem).await.is_err(), "a forged link does not work");
    clear(store, "u/").await;
}
