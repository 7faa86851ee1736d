//! restic's REST server, and how the client handles servers that misbehave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lifeboat_store::{Error, RestConfig, Result, RetryPolicy, Store, Tls, Tuning};
use rstest::rstest;

use super::server::{Authority, Reply, Seen, Server};

const V2: &str = "application/vnd.x.restic.rest.v2";
const DATE: &str = "Sun, 15 Nov 2099 10:00:00 GMT";

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn pack(digit: char) -> String {
    format!("data/{digit}{digit}/{}", id(digit))
}

/// A REST server that behaves like restic's: it creates files, refuses to replace them, lists without subdirectories
/// and supports ranges.
#[derive(Clone, Default)]
struct Repository {
    files: Arc<Mutex<BTreeMap<String, String>>>,
    created: Arc<Mutex<bool>>,
}

impl Repository {
    fn put(&self, path: &str, content: &str) {
        self.files.lock().unwrap().insert(path.to_owned(), content.to_owned());
    }

    fn answer(&self, request: &Seen) -> Reply {
        let path = request.target.strip_prefix("/repo/").unwrap_or("elsewhere");
        let mut files = self.files.lock().unwrap();
        let found = files.get(path).cloned();
        match (request.method.as_str(), found) {
            ("POST", None) if path == "?create=true" => {
                *self.created.lock().unwrap() = true;
                Reply::new(200, "")
            }
            ("POST", None) => {
                files.insert(path.to_owned(), request.body.clone());
                Reply::new(200, "")
            }
            ("POST", Some(_)) => Reply::new(403, "Forbidden\n"),
            ("GET", _) if path.ends_with('/') => {
                let items: Vec<String> = files
                    .iter()
                    .filter_map(|(name, content)| Some((name.strip_prefix(path)?, content.len())))
                    .map(|(name, size)| format!(r#"{{"name":"{name}","size":{size}}}"#))
                    .collect();
                Reply::new(200, format!("[{}]", items.join(","))).with("content-type", V2).with("date", DATE)
            }
            ("HEAD" | "GET", Some(content)) => match request.header("range") {
                Some(range) if path != "config" => ranged(&content, range),
                _ => Reply::new(200, content).with("date", DATE),
            },
            ("DELETE", _) => {
                files.remove(path);
                Reply::new(200, "")
            }
            _ => Reply::new(404, "Not Found\n"),
        }
    }
}

fn ranged(content: &str, range: &str) -> Reply {
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    let end = content.len().min(last + 1);
    if first >= end {
        return Reply::new(416, "");
    }
    Reply::new(206, &content[first..end])
        .with("content-range", format!("bytes {first}-{}/{}", end - 1, content.len()))
}

fn config(server: &Server) -> RestConfig {
    RestConfig {
        url: format!("{}/repo", server.url).parse().unwrap(),
        user: Some("me".into()),
        password: Some("CANARY".to_owned().into()),
        ca_pem: None,
        tls: Tls::default(),
    }
}

fn quick() -> Tuning {
    let pause = Duration::from_millis(1);
    let retry =
        RetryPolicy { attempts: 3, first_pause: pause, longest_pause: pause, deadline: None, outage: None };
    Tuning { retry, ..Tuning::default() }
}

async fn serve(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Server, Store) {
    let server = Server::plain(answer).await;
    let store = config(&server).open(quick()).unwrap();
    (server, store)
}

async fn repository() -> (Repository, Server, Store) {
    let repository = Repository::default();
    let answering = repository.clone();
    let (server, store) = serve(move |request| answering.answer(request)).await;
    (repository, server, store)
}

async fn listed(store: &Store, prefix: &str) -> Result<Vec<String>> {
    store.list(prefix).map_ok(|info| info.key).try_collect().await
}

#[tokio::test]
async fn a_repository_is_created_written_read_listed_and_deleted() {
    let repository = Repository::default();
    let answering = repository.clone();
    let server = Server::plain(move |request| answering.answer(request)).await;
    let store = config(&server).create(quick()).await.unwrap();
    assert!(*repository.created.lock().unwrap());

    for key in ["config", &pack('a'), &pack('b'), &format!("keys/{}", id('c'))] {
        assert!(!store.exists(key).await.unwrap());
        store.put(key, format!("content of {key}")).await.unwrap();
        assert_eq!(store.get(key).await.unwrap(), format!("content of {key}"));
        assert_eq!(store.get_range(key, 3..7).await.unwrap(), "tent");
        assert_eq!(store.head(key).await.unwrap().size, 11 + key.len() as u64);
    }
    assert_eq!(listed(&store, "data/").await.unwrap(), [pack('a'), pack('b')]);
    assert_eq!(listed(&store, "data/aa/").await.unwrap(), [pack('a')]);
    assert_eq!(listed(&store, "snapshots/").await.unwrap(), Vec::<String>::new());
    let everything = listed(&store, "").await.unwrap();
    assert_eq!(everything, ["config".into(), pack('a'), pack('b'), format!("keys/{}", id('c'))]);
    let level = store.list_directory("").await.unwrap();
    assert_eq!(level.prefixes, ["data/", "keys/"]);
    assert_eq!(level.objects.len(), 1);

    store.delete_many([pack('a'), pack('b'), pack('f')]).await.unwrap();
    assert_eq!(listed(&store, "data/").await.unwrap(), Vec::<String>::new());
    assert!(store.get(&pack('a')).await.unwrap_err().is_not_found());
    for request in server.seen() {
        assert_eq!(request.header("authorization"), Some("Basic bWU6Q0FOQVJZ"), "{request:?}");
        assert_eq!(request.header("accept"), Some(V2), "{request:?}");
    }
    assert!(!format!("{store:?}").contains("CANARY"));
}

#[tokio::test]
async fn an_object_is_never_replaced() {
    let (_, _, store) = repository().await;
    let key = pack('a');
    store.create(&key, "mine").await.unwrap();
    assert!(store.create(&key, "yours").await.unwrap_err().is_already_exists());
    store.put(&key, "mine").await.unwrap();
    let error = store.put(&key, "more").await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert_eq!(store.get(&key).await.unwrap(), "mine");
}

#[tokio::test]
async fn a_write_that_is_not_allowed_is_denied_and_not_taken_for_done() {
    let (_, store) = serve(|request| match request.method.as_str() {
        "POST" => Reply::new(403, "Forbidden\n"),
        _ => Reply::new(404, "Not Found\n"),
    })
    .await;
    for error in
        [store.put(&pack('a'), "x").await.unwrap_err(), store.create(&pack('a'), "x").await.unwrap_err()]
    {
        assert_eq!(error.category(), "access_denied", "{error:?}");
    }
}

#[tokio::test]
async fn ranges_must_lie_within_the_object() {
    let (_, _, store) = repository().await;
    for key in ["config".to_owned(), pack('a')] {
        store.put(&key, "0123456789").await.unwrap();
        #[allow(clippy::reversed_empty_ranges)]
        for range in [5..11, 10..11, 20..30, 4..4, 7..3] {
            let error = store.get_range(&key, range.clone()).await.unwrap_err();
            assert!(matches!(error, Error::Range { .. }), "{range:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn keys_beside_a_repository_are_refused_without_asking() {
    let (_, server, store) = repository().await;
    let mark = format!("lifeboat/marks/{}", id('a'));
    for error in [
        store.put(&mark, "x").await.unwrap_err(),
        store.get(&mark).await.unwrap_err(),
        store.head(&mark).await.unwrap_err(),
        store.delete(&mark).await.unwrap_err(),
        listed(&store, "lifeboat/").await.unwrap_err(),
    ] {
        assert_eq!(error.category(), "unsupported", "{error:?}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn files_are_never_old() {
    let (_, _, store) = repository().await;
    store.put(&pack('a'), "x").await.unwrap();
    let served: jiff::Timestamp = "2099-11-15T10:00:00Z".parse().unwrap();
    assert_eq!(store.head(&pack('a')).await.unwrap().modified, served, "the server's clock is ahead");
    let infos: Vec<_> = store.list("data/").try_collect().await.unwrap();
    assert_eq!((infos[0].modified, infos[0].is_dated), (served, false));
    assert!(!store.head(&pack('a')).await.unwrap().is_dated);

    let before = jiff::Timestamp::now();
    let (_, store) = serve(|_| {
        Reply::new(200, "x")
            .with("date", "Thu, 01 Jan 1970 00:00:00 GMT")
            .with("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT")
    })
    .await;
    assert!(store.head(&pack('a')).await.unwrap().modified >= before, "the server's clock is behind");
}

#[tokio::test]
async fn a_server_that_reports_times_is_believed() {
    let (_, store) =
        serve(|_| Reply::new(200, "x").with("last-modified", "Sun, 15 Nov 2020 10:00:00 GMT")).await;
    let info = store.head(&pack('a')).await.unwrap();
    assert_eq!((info.modified, info.is_dated), ("2020-11-15T10:00:00Z".parse().unwrap(), true));
}

#[rstest]
#[case::not_json(Reply::new(200, "<html>").with("content-type", V2), "listing")]
#[case::cut_json(Reply::new(200, "[{\"name\":").with("content-type", V2), "listing")]
#[case::another_type(Reply::new(200, "[]").with("content-type", "text/html"), "listing")]
#[case::no_type(Reply::new(200, "[]"), "listing")]
#[case::broken_off(Reply { claimed: 100, ..Reply::new(200, "[]").with("content-type", V2) }, "interrupted")]
#[case::failing(Reply::new(500, ""), "server_error")]
#[case::denied(Reply::new(401, ""), "access_denied")]
#[case::nothing_there(Reply::new(404, ""), "bucket_not_found")]
#[tokio::test]
async fn a_listing_that_cannot_be_trusted_fails(#[case] reply: Reply, #[case] category: &str) {
    let (_, store) = serve(move |_| reply.clone()).await;
    assert_eq!(listed(&store, "snapshots/").await.unwrap_err().category(), category);
}

#[rstest]
#[case::a_directory_that_nobody_made("restic", None)]
#[case::an_error_of_rclone("rclone/v1.70", Some("listing"))]
#[tokio::test]
async fn what_is_missing_in_a_repository_is_empty(#[case] name: &'static str, #[case] failure: Option<&str>) {
    let (_, store) = serve(move |request| match request.target.as_str() {
        "/repo/config" => Reply::new(200, "x").with("server", name),
        _ => Reply::new(404, "Not Found\n").with("server", name),
    })
    .await;
    match (listed(&store, "locks/").await, failure) {
        (Ok(keys), None) => assert!(keys.is_empty()),
        (Err(error), Some(category)) => assert_eq!(error.category(), category),
        (other, _) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_was_only_starting_is_asked_again() {
    let repository = Repository::default();
    repository.put("config", "x");
    repository.put(&format!("snapshots/{}", id('a')), "x");
    let asked = Mutex::new(0);
    let (_, store) = serve(move |request| {
        *asked.lock().unwrap() += 1;
        if *asked.lock().unwrap() == 1 {
            Reply::new(404, "default backend")
        } else {
            repository.answer(request)
        }
    })
    .await;
    assert_eq!(listed(&store, "snapshots/").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_is_read_on_from_there() {
    let repository = Repository::default();
    repository.put(&format!("data/{}", id('a')), "0123456789");
    let (server, store) = serve(move |request| {
        let reply = repository.answer(request);
        match request.header("range") {
            None => Reply { body: "0123".into(), claimed: 10, ..reply },
            Some(_) => reply,
        }
    })
    .await;
    assert_eq!(store.get(&pack('a')).await.unwrap(), "0123456789");
    assert_eq!(server.seen()[1].header("range"), Some("bytes=4-9"));
}

#[tokio::test]
async fn a_server_that_ignores_ranges_gives_no_wrong_bytes() {
    let (_, store) = serve(|_| Reply::new(200, "0123456789")).await;
    assert_eq!(store.get_range(&pack('a'), 2..4).await.unwrap_err().category(), "interrupted");
}

#[tokio::test]
async fn a_lost_answer_to_a_write_is_no_failure() {
    let repository = Repository::default();
    let lost = Mutex::new(true);
    let (_, store) = serve(move |request| {
        let reply = repository.answer(request);
        let first = request.method == "POST" && std::mem::take(&mut *lost.lock().unwrap());
        if first { Reply::new(502, "") } else { reply }
    })
    .await;
    store.put(&pack('a'), "content").await.unwrap();
    assert_eq!(store.get(&pack('a')).await.unwrap(), "content");
}

#[tokio::test]
async fn content_that_does_not_fit_its_name_is_refused_by_the_server_and_not_repeated() {
    let (server, store) = serve(|_| Reply::new(400, "Bad Request\n")).await;
    assert_eq!(store.put(&pack('a'), "x").await.unwrap_err().category(), "rejected");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn parts_are_not_supported_but_small_streams_are() {
    let (_, _, store) = repository().await;
    let body = || stream::iter((0..20).map(|_| Ok::<_, Error>(Bytes::from(vec![b'x'; 1024 * 1024]))));
    let error = store.put_stream(&pack('a'), body()).await.unwrap_err();
    assert_eq!(error.category(), "unsupported", "{error:?}");
    assert_eq!(store.put_stream(&pack('b'), body().take(3)).await.unwrap(), 3 * 1024 * 1024);
    assert_eq!(store.head(&pack('b')).await.unwrap().size, 3 * 1024 * 1024);
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_when_it_is_given() {
    let authority = Authority::new();
    let server = Server::tls(authority.server("localhost", |_| ()), |_| Reply::new(200, "x")).await;
    let error = config(&server).open(quick()).unwrap().get("config").await.unwrap_err();
    assert_eq!(error.category(), "certificate_untrusted", "{error:?}");
    let trusting = RestConfig { ca_pem: Some(authority.pem()), ..config(&server) };
    assert_eq!(trusting.open(quick()).unwrap().get("config").await.unwrap(), "x");
    let careless = RestConfig { tls: Tls { skip_verify: true, client_pem: None }, ..config(&server) }
        .open(quick())
        .unwrap();
    assert_eq!(careless.get("config").await.unwrap(), "x");
    assert_eq!(careless.warnings().len(), 1);
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_is_shown_ours() {
    let authority = Authority::new();
    let server = Server::tls(authority.server_for_clients("localhost"), |_| Reply::new(200, "x")).await;
    let trusting = RestConfig { ca_pem: Some(authority.pem()), ..config(&server) };
    assert!(trusting.clone().open(quick()).unwrap().get("config").await.is_err());
    let client_pem = Some(authority.client_pem("me").into());
    let known = RestConfig { tls: Tls { skip_verify: false, client_pem }, ..trusting };
    assert_eq!(known.open(quick()).unwrap().get("config").await.unwrap(), "x");
}

#[rstest]
#[case::user_in_the_url("http://user:CANARY@host/")]
#[case::query("http://host/?password=CANARY")]
#[case::scheme("ftp://host/CANARY")]
fn a_url_that_cannot_be_used_is_refused_without_repeating_it(#[case] url: &str) {
    let config = RestConfig {
        url: url.parse().unwrap(),
        user: None,
        password: None,
        ca_pem: None,
        tls: Tls::default(),
    };
    let error = config.open(quick()).unwrap_err();
    assert_eq!(error.category(), "config");
    assert!(!error.to_string().contains("CANARY"), "{error}");
}
