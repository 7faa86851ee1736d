//! Tests of lists against a small API server.

use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_api::catalogue::GroupResource;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{client, failure};

fn config_maps() -> ResourceType {
    ResourceType {
        id: GroupResource::new("", "configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespaced: true,
        ..ResourceType::default()
    }
}

fn query(page_size: u32) -> ListQuery {
    ListQuery { kind: config_maps(), namespace: Some("shop".into()), selector: String::new(), page_size }
}

fn page(names: &[&str], token: &str) -> Value {
    let items: Vec<_> =
        names.iter().map(|name| json!({"metadata": {"name": name, "namespace": "shop"}})).collect();
    json!({"metadata": {"continue": token, "remainingItemCount": 1}, "items": items})
}

async fn all(mut pager: Pager) -> Result<Vec<String>, ApiError> {
    let mut names = Vec::new();
    while let Some(page) = pager.next().await? {
        names.extend(page.items.into_iter().map(|item| item.meta.name));
    }
    Ok(names)
}

#[tokio::test]
async fn a_list_comes_page_after_page() {
    let asked = AtomicUsize::new(0);
    let client = client(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => (200, page(&["a", "b"], "next")),
        _ => (200, page(&["c"], "")),
    });
    assert_eq!(all(Pager::new(client.await, query(2))).await.unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_list_that_the_api_server_forgot_is_begun_again() {
    let asked = AtomicUsize::new(0);
    let client = client(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 | 2 => (200, page(&["a"], "next")),
        1 => failure(410, "Expired"),
        _ => (200, page(&["b"], "")),
    });
    assert_eq!(all(Pager::new(client.await, query(1))).await.unwrap(), ["a", "a", "b"]);
}

#[tokio::test]
async fn a_list_that_is_forgotten_again_and_again_is_asked_for_as_a_whole() {
    let asked = AtomicUsize::new(0);
    let client = client(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        number if number >= 6 => (200, page(&["a", "b"], "")),
        number if number % 2 == 1 => failure(410, "Expired"),
        _ => (200, page(&["a"], "next")),
    });
    let names = all(Pager::new(client.await, query(1))).await.unwrap();
    assert_eq!(names, ["a", "a", "a", "a", "b"]);
}

#[rstest]
#[case::busy(429)]
#[case::trouble(500)]
#[case::restarting(503)]
#[tokio::test]
async fn a_failure_that_passes_loses_nothing(#[case] code: u16) {
    let asked = AtomicUsize::new(0);
    let client = client(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        1 => (200, page(&["a", "b"], "next")),
        4 => (200, page(&["c"], "")),
        _ => failure(code, "Trouble"),
    });
    assert_eq!(all(Pager::new(client.await, query(2))).await.unwrap(), ["a", "b", "c"]);
}

#[rstest]
#[case::a_type_that_disappeared(404)]
#[case::forbidden(403)]
#[case::gone_at_the_start(410)]
#[tokio::test]
async fn a_list_that_fails_ends(#[case] code: u16) {
    let client = client(move |_| failure(code, "Trouble"));
    let mut pager = Pager::new(client.await, query(1));
    let error = pager.next().await.unwrap_err();
    assert_eq!(error.code(), Some(code));
    assert!(error.to_string().contains("list configmaps in namespace shop"), "{error}");
    assert!(pager.next().await.unwrap().is_none());
}

#[test]
fn an_item_gets_its_type_and_keeps_its_bytes() {
    let text = br#"{"metadata":{},"items":[{"metadata":{"name":"a","namespace":"shop","labels":
        {"velero.io/exclude-from-backup":"true"},"deletionTimestamp":"now"},"data":{"n":1.50}}]}"#;
    let (page, token) = cut(&Bytes::from_static(text), &config_maps()).unwrap();
    assert_eq!(token, None);
    let item = &page.items[0];
    let text = std::str::from_utf8(&item.json).unwrap();
    assert!(text.starts_with(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata""#), "{text}");
    assert!(text.ends_with(r#""data":{"n":1.50}}"#), "{text}");
    let facts = item.meta.facts();
    assert!(facts.excluded && facts.deleting && facts.namespace == Some("shop"));
}

#[test]
fn an_item_that_says_its_type_is_left_as_it_is() {
    let text = r#"{"apiVersion":"v2","kind":"Other","metadata":{"name":"a"}}"#;
    let item = RawItem::read(Bytes::from_static(text.as_bytes()), &config_maps()).unwrap();
    assert_eq!(item.json, text);
}

#[test]
fn a_null_list_is_empty() {
    let (page, _) = cut(&Bytes::from_static(br#"{"items":null}"#), &config_maps()).unwrap();
    assert!(page.items.is_empty());
}

#[tokio::test]
async fn a_missing_object_is_none_and_a_name_that_is_no_name_is_not_asked_for() {
    let client = client(|asked| {
        assert!(!asked.path.contains(".."), "{}", asked.path);
        failure(404, "NotFound")
    })
    .await;
    for name in ["gone", "..", "a/../b", ""] {
        assert!(get_raw(&client, &config_maps(), Some("shop"), name).await.unwrap().is_none());
    }
}

#[rstest]
#[case("", "v1", None, "/api/v1/things")]
#[case("apps", "v1", Some("shop"), "/apis/apps/v1/namespaces/shop/things")]
fn paths_are_the_apis(
    #[case] group: &str,
    #[case] version: &str,
    #[case] namespace: Option<&str>,
    #[case] expected: &str,
) {
    let kind = ResourceType {
        id: GroupResource::new(group, "things"),
        version: version.into(),
        ..ResourceType::default()
    };
    assert_eq!(collection_path(&kind, namespace), expected);
}

#[tokio::test]
async fn large_objects_come_in_pages_of_few_and_none_is_lost() {
    // 64 objects of 256 KiB: 16 MiB, of which an accepted answer may contain at most 4.
    let largest = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = largest.clone();
    let client = client(move |asked| {
        let number = |name: &str| {
            let pairs = asked.query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse::<usize>().ok())
        };
        let first = number("continue").unwrap_or(0);
        let end = (first + number("limit").unwrap_or(64)).min(64);
        let filling = "x".repeat(256 << 10);
        let item =
            |at| json!({"metadata": {"name": format!("c{at}"), "namespace": "shop"}, "data": {"x": filling}});
        let token = if end < 64 { end.to_string() } else { String::new() };
        seen.fetch_max(end - first, Ordering::Relaxed);
        (200, json!({"metadata": {"continue": token}, "items": (first..end).map(item).collect::<Vec<_>>()}))
    });
    let mut pager = Pager::new(client.await, query(500));
    let (mut names, mut most) = (Vec::new(), 0);
    while let Some(page) = pager.next().await.unwrap() {
        most = most.max(page.items.iter().map(|item| item.json.len()).sum());
        names.extend(page.items.into_iter().map(|item| item.meta.name));
    }
    assert_eq!(names, (0..64).map(|at| format!("c{at}")).collect::<Vec<_>>());
    assert!(most <= 4 << 20, "a page of {most} bytes");
    assert!(largest.load(Ordering::Relaxed) <= 32);
}
