use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use lifeboat_cluster::objects;
use lifeboat_cluster::testing::failure;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::Written;

const LIST: &str = "/apis/g/v1/namespaces/lifeboat/things";
const PATH: &str = "/apis/g/v1/namespaces/lifeboat/things/a";

fn resource() -> ApiResource {
    objects::resource("g", "v1", "Thing", "things")
}

fn api(client: &Client) -> Api<DynamicObject> {
    objects::namespaced(client, "lifeboat", &resource())
}

fn thing(name: &str, rest: &Value) -> DynamicObject {
    let mut object = json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": name}});
    merge(&mut object, rest);
    serde_json::from_value(object).unwrap()
}

async fn create(api: &Api<DynamicObject>, name: &str, rest: Value) -> DynamicObject {
    api.create(&PostParams::default(), &thing(name, &rest)).await.unwrap()
}

fn code<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> (u16, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.reason),
        other => panic!("it was not refused: {other:?}"),
    }
}

fn names(objects: impl IntoIterator<Item = DynamicObject>) -> Vec<String> {
    objects.into_iter().map(|object| object.name_any()).collect()
}

async fn merged(api: &Api<DynamicObject>, patch: Value) -> Value {
    let patch = Patch::Merge(patch);
    objects::to_json(&api.patch("a", &PatchParams::default(), &patch).await.unwrap())
}

#[tokio::test]
async fn objects_are_made_listed_by_label_and_deleted() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    for (name, label) in [("a", "x"), ("b", "y")] {
        create(&api, name, json!({"metadata": {"labels": {"l": label}}})).await;
    }
    let listed = api.list(&ListParams::default().labels("l=y")).await.unwrap();
    assert!(listed.items[0].uid().is_some());
    assert_eq!(names(listed), ["b"]);
    assert_eq!(names(api.list(&ListParams::default().fields("metadata.name=a")).await.unwrap()), ["a"]);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.paths("/things/"), ["/apis/g/v1/namespaces/lifeboat/things/b"]);
    assert_eq!(code(api.get("a").await), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn an_object_gets_what_the_server_sets_and_a_second_one_of_its_name_is_another() {
    let server = ApiServer::default();
    server.set_clock(Clock::new(|| "2026-11-16T01:00:00.5Z".parse().unwrap()));
    let api = api(&server.client().await);
    let first =
        create(&api, "a", json!({"metadata": {"uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z"}}))
            .await;
    let made = objects::to_json(&first);
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-11-16T01:00:00Z");
    assert_eq!(
        (&made["metadata"]["namespace"], &made["metadata"]["generation"]),
        (&json!("lifeboat"), &json!(1))
    );
    assert_ne!(made["metadata"]["uid"], "mine");
    let again = api.create(&PostParams::default(), &thing("a", &json!({}))).await;
    assert_eq!(code(again), (409, "AlreadyExists".to_owned()));
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_ne!(create(&api, "a", json!({})).await.uid(), first.uid());
    let mut unnamed = thing("", &json!({"metadata": {"generateName": "a-"}}));
    unnamed.metadata.name = None;
    let named = api.create(&PostParams::default(), &unnamed).await.unwrap().name_any();
    assert!(named.starts_with("a-") && named.len() > 2, "{named}");
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    for number in 0..5 {
        server.put(&format!("{LIST}/{number}"), json!({}));
    }
    let (mut token, mut pages) = (None, Vec::new());
    loop {
        let params = ListParams { limit: Some(2), continue_token: token, ..ListParams::default() };
        let page = api.list(&params).await.unwrap();
        token = page.metadata.continue_.clone();
        pages.push(names(page));
        if token.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec!["0", "1"], vec!["2", "3"], vec!["4"]]);
    let all = Api::<DynamicObject>::all_with(server.client().await, &resource());
    assert_eq!(all.list(&ListParams::default()).await.unwrap().items.len(), 5);
}

#[tokio::test]
async fn a_list_of_metadata_shows_nothing_else() {
    let server = ApiServer::default();
    server.put(PATH, json!({"data": {"secret": "x"}, "metadata": {"labels": {"l": "1"}}}));
    let api = api(&server.client().await);
    let listed = api.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].labels()["l"], "1");
    assert!(!serde_json::to_string(&listed.items).unwrap().contains("secret"));
}

#[tokio::test]
async fn a_write_of_another_version_is_a_conflict_and_one_of_a_missing_object_is_gone() {
    let server = ApiServer::default();
    let core = server.core().await;
    server.put(PATH, json!({"apiVersion": "g/v1", "kind": "Thing"}));
    let api = api(&core.client);
    let read = api.get("a").await.unwrap();
    server.change(PATH, &json!({"spec": {"other": true}}));
    let patch = || json!({"status": {"phase": "Done"}});
    assert!(core.write(&resource(), &read, patch(), "m").await.unwrap_err().is_conflict());
    let read = api.get("a").await.unwrap();
    assert!(matches!(core.write(&resource(), &read, patch(), "m").await.unwrap(), Written::Changed(_)));
    assert_eq!(server.get(PATH).unwrap()["status"]["phase"], "Done");
    server.remove(PATH);
    assert!(matches!(core.write(&resource(), &read, patch(), "m").await.unwrap(), Written::Gone));
}

#[tokio::test]
async fn a_replacement_needs_the_version_and_keeps_what_the_server_set() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    let made = create(&api, "a", json!({"spec": {"x": 1}, "metadata": {"labels": {"l": "1"}}})).await;
    let params = PostParams::default();
    assert_eq!(code(api.replace("a", &params, &thing("a", &json!({}))).await).0, 422);
    let version = json!({"metadata": {"resourceVersion": made.resource_version()}, "spec": {"y": 2}});
    let replaced = api.replace("a", &params, &thing("a", &version)).await.unwrap();
    assert_eq!((replaced.uid(), replaced.metadata.generation), (made.uid(), Some(2)));
    let replaced = objects::to_json(&replaced);
    assert_eq!((&replaced["spec"], &replaced["metadata"]["labels"]), (&json!({"y": 2}), &Value::Null));
    assert_eq!(code(api.replace("a", &params, &thing("a", &version)).await), (409, "Conflict".to_owned()));
}

#[tokio::test]
async fn a_deletion_may_be_meant_for_one_object_only() {
    let server = ApiServer::default();
    server.put(PATH, json!({}));
    let api = api(&server.client().await);
    let of = |uid: &str| {
        DeleteParams::default()
            .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None })
    };
    assert_eq!(code(api.delete("a", &of("another")).await), (409, "Conflict".to_owned()));
    api.delete("a", &of("uid-a")).await.unwrap();
    assert_eq!(server.get(PATH), None);
}

#[tokio::test]
async fn finalizers_hold_an_object_that_is_deleted() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    create(&api, "a", json!({"metadata": {"finalizers": ["x", "y"]}})).await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(server.get(PATH).unwrap()["metadata"]["deletionTimestamp"].is_string());
    merged(&api, json!({"metadata": {"finalizers": ["y"]}})).await;
    assert!(server.get(PATH).is_some());
    merged(&api, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.get(PATH), None);
    let kinds: Vec<WriteKind> = server.written().into_iter().map(|write| write.kind).collect();
    assert_eq!(kinds, [WriteKind::Created, WriteKind::Changed, WriteKind::Changed, WriteKind::Deleted]);
}

#[tokio::test]
async fn a_status_subresource_keeps_spec_and_status_apart() {
    let server = ApiServer::default();
    server.serve([ServedType::of(&resource()).with_status()]);
    let api = api(&server.client().await);
    let both = json!({"spec": {"x": 1}, "status": {"phase": "Mine"}});
    let made = create(&api, "a", both.clone()).await;
    assert_eq!(objects::to_json(&made).get("status"), None, "a new object has no status");
    let params = PatchParams::default();
    let status =
        json!({"spec": {"x": 7}, "status": {"phase": "Running"}, "metadata": {"labels": {"l": "1"}}});
    let written = objects::to_json(&api.patch_status("a", &params, &Patch::Merge(status)).await.unwrap());
    assert_eq!((&written["spec"]["x"], &written["status"]["phase"]), (&json!(1), &json!("Running")));
    assert_eq!(
        (&written["metadata"]["generation"], &written["metadata"]["labels"]),
        (&json!(1), &Value::Null)
    );
    let written = merged(&api, json!({"spec": {"x": 2}, "status": {"phase": "Mine"}})).await;
    assert_eq!((&written["spec"]["x"], &written["status"]["phase"]), (&json!(2), &json!("Running")));
    assert_eq!(written["metadata"]["generation"], 2);
    let version = written["metadata"]["resourceVersion"].clone();
    let replacement =
        json!({"metadata": {"resourceVersion": version}, "spec": {"x": 9}, "status": {"phase": "Done"}});
    let done = api.replace_status("a", &PostParams::default(), &thing("a", &replacement)).await.unwrap();
    let done = objects::to_json(&done);
    assert_eq!((&done["spec"]["x"], &done["status"]["phase"]), (&json!(2), &json!("Done")));
    let stale = api.replace_status("a", &PostParams::default(), &thing("a", &replacement)).await;
    assert_eq!(code(stale), (409, "Conflict".to_owned()));
}

#[tokio::test]
async fn a_type_without_that_subresource_has_its_status_in_the_object() {
    let server = ApiServer::default();
    server.serve([ServedType::of(&resource())]);
    let api = api(&server.client().await);
    create(&api, "a", json!({"status": {"phase": "New"}})).await;
    assert_eq!(server.get(PATH).unwrap()["status"]["phase"], "New");
    let refused = api.patch_status("a", &PatchParams::default(), &Patch::Merge(json!({"status": {}}))).await;
    assert_eq!(code(refused), (404, "NotFound".to_owned()));
    assert_eq!(merged(&api, json!({"status": {"phase": "Done"}})).await["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_write_that_changes_nothing_makes_no_version() {
    let server = ApiServer::default();
    server.put(PATH, json!({"spec": {"x": 1}}));
    let api = api(&server.client().await);
    let before = server.get(PATH).unwrap();
    assert_eq!(merged(&api, json!({"spec": {"x": 1}})).await["metadata"], before["metadata"]);
    assert_eq!(server.written(), []);
    assert_eq!(merged(&api, json!({"metadata": {"labels": {"l": "1"}}})).await["metadata"]["generation"], 1);
}

#[tokio::test]
async fn an_applied_object_is_created_or_changed() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    for count in [1, 2] {
        let object = thing("a", &json!({"spec": {"count": count}}));
        api.patch("a", &PatchParams::apply("me").force(), &Patch::Apply(object)).await.unwrap();
        assert_eq!(server.get(PATH).unwrap()["spec"]["count"], count);
    }
    assert_eq!(server.created(), [PATH]);
}

#[tokio::test]
async fn a_watch_begins_at_a_version_and_sees_what_its_selector_selects() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    server.put(PATH, json!({"metadata": {"labels": {"l": "1"}}}));
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    server.change(PATH, &json!({"spec": {"x": 1}}));
    let stream = api.watch(&WatchParams::default().labels("l=1"), &version).await.unwrap();
    server.put(&format!("{LIST}/unlabelled"), json!({}));
    server.change(PATH, &json!({"metadata": {"labels": {"l": "2"}}}));
    server.change(PATH, &json!({"metadata": {"labels": {"l": "1"}}}));
    server.remove(PATH);
    let seen = stream.take(4).map(|event| match event.unwrap() {
        WatchEvent::Added(object) => format!("added {}", object.name_any()),
        WatchEvent::Modified(object) => format!("modified {}", object.name_any()),
        WatchEvent::Deleted(object) => format!("deleted {}", object.name_any()),
        other => panic!("{other:?}"),
    });
    let seen: Vec<String> = tokio::time::timeout(Duration::from_secs(20), seen.collect()).await.unwrap();
    assert_eq!(seen, ["modified a", "deleted a", "added a", "deleted a"]);
}

#[tokio::test]
async fn a_watch_may_begin_with_what_there_is_and_ends_when_a_test_says_so() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    server.put(PATH, json!({"apiVersion": "g/v1", "kind": "Thing"}));
    let mut stream = pin!(api.watch(&WatchParams::default().initial_events(), "0").await.unwrap());
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Added(_)))));
    let Some(Ok(WatchEvent::Bookmark(bookmark))) = stream.next().await else { panic!("no bookmark") };
    assert!(bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end"));
    server.end_watches();
    assert!(stream.next().await.is_none());
}

#[rstest]
#[case::list(Verb::List, LIST)]
#[case::get(Verb::Get, PATH)]
#[case::watch(Verb::Watch, LIST)]
#[tokio::test]
async fn a_request_fails_where_a_test_says_so_and_the_next_one_does_not(
    #[case] verb: Verb,
    #[case] path: &str,
) {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    server.put(PATH, json!({}));
    server.fail(Requests::new(verb, path), When::Next, 503);
    let ask = async || match verb {
        Verb::List => api.list(&ListParams::default()).await.map(drop),
        Verb::Watch => api.watch(&WatchParams::default(), "0").await.map(drop),
        _ => api.get("a").await.map(drop),
    };
    assert_eq!(code(ask().await), (503, "ServiceUnavailable".to_owned()));
    ask().await.unwrap();
    server.fail(Requests::any("*"), When::Always, 403);
    assert_eq!(code(ask().await).0, 403);
    server.heal();
    ask().await.unwrap();
}

#[tokio::test]
async fn an_object_that_cannot_be_read_says_so_and_one_that_cannot_be_written_gets_an_event() {
    let server = ApiServer::default();
    let core = server.core().await;
    server.put(PATH, json!({"apiVersion": "g/v1", "kind": "Thing"}));
    let api = api(&core.client);
    let message = crate::unreadable::message("spec is missing", crate::unreadable::EDIT);
    let patch = || json!({"status": {"phase": "FailedValidation", "validationErrors": [message]}});
    let object = api.get("a").await.unwrap();
    crate::unreadable::report(&core, &resource(), &object, patch(), &message).await.unwrap();
    assert_eq!(server.get(PATH).unwrap()["status"]["phase"], "FailedValidation");
    server.answer(|_, asked| (asked.method == "PATCH").then(|| failure(422, "Invalid")));
    let object = api.get("a").await.unwrap();
    crate::unreadable::report(&core, &resource(), &object, patch(), &message).await.unwrap();
    assert_eq!(server.events(), ["ObjectNotValid"]);
}

#[tokio::test]
async fn a_hook_acts_as_a_controller_of_the_cluster() {
    let server = ApiServer::default();
    let api = api(&server.client().await);
    server.on_write(|server, write| {
        if write.kind == WriteKind::Created {
            server.change(&write.path, &json!({"status": {"ready": true}}));
        }
    });
    create(&api, "a", json!({})).await;
    assert_eq!(server.get(PATH).unwrap()["status"]["ready"], true);
    assert_eq!(server.writes(), ["POST /apis/g/v1/namespaces/lifeboat/things"]);
    assert_eq!(server.created(), [PATH]);
}

#[tokio::test]
async fn discovery_lists_the_types_of_a_test_and_a_group_can_be_missing() {
    let server = ApiServer::default();
    server.serve([
        ServedType::new("v1", "pods", "Pod").short_name("po"),
        ServedType::of(&resource()),
        ServedType::new("g/v1beta1", "things", "Thing").cluster_scoped(),
    ]);
    let client = server.client().await;
    let found = lifeboat_cluster::discovery::discover(&client).await.unwrap();
    let types = found.catalogue.all().iter().map(|known| format!("{} {}", known.id, known.version));
    assert_eq!(types.collect::<Vec<_>>(), ["pods v1", "things.g v1", "things.g v1beta1"]);
    let preferred = async || lifeboat_cluster::discovery::preferred_version(&client, "g").await.unwrap();
    assert_eq!(preferred().await.as_deref(), Some("v1"));
    server.without("g");
    assert_eq!(preferred().await, None);
    assert_eq!(code(api(&client).list(&ListParams::default()).await), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn the_log_of_a_pod_is_read_while_there_is_one() {
    let server = ApiServer::default();
    let pod = "/api/v1/namespaces/lifeboat/pods/p";
    server.put(pod, json!({"spec": {"containers": []}}));
    server.set_log(pod, "one\ntwo\n");
    let client = server.client().await;
    let read = async || {
        let request = kube::core::Request::new("/api/v1/namespaces/lifeboat/pods");
        client.request_text(request.get_subresource("log", "p").unwrap()).await
    };
    assert_eq!(read().await.unwrap(), "one\ntwo\n");
    server.remove(pod);
    assert_eq!(code(read().await).0, 404);
}
