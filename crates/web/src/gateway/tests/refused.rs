//! What no token permits. Each test checks that nothing was changed.

use rstest::rstest;

use super::*;

/// The request is refused with this status and text, and the repository stays as it was.
async fn assert_refused(
    world: &World,
    (token, method, path): (&str, &str, &str),
    content: &[u8],
    (status, text): (u16, &str),
) {
    let before = world.repositories.count();
    let answer = world.ask(token, method, path, content).await;
    assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text());
    assert!(answer.text().contains(text), "{}", answer.text());
    assert_eq!(world.repositories.count(), before, "{method} {path}");
    assert!(!answer.text().contains(TOKEN), "no answer shows a token");
}

#[tokio::test]
async fn the_path_of_another_repository() {
    let world = World::new();
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        let path = format!("/stash/bank/r/data/{}", id(b"x"));
        let answer = world.ask("backup", method, &path, b"x").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method}");
        assert!(answer.text().contains("for another repository"), "{}", answer.text());
    }
    assert_eq!(world.repositories.count(), 1);
    let path = format!("/{REPOSITORY}/config");
    assert_refused(&world, ("elsewhere", "GET", &path), b"", (403, "for another repository")).await;
}

/// The holder of one token cannot keep all connections; what it sends on one too many is not received.
#[tokio::test]
async fn more_connections_than_a_task_may_have() {
    let world = World::new();
    let request = |token: &str, body: Body| {
        let credentials = STANDARD.encode(format!("lifeboat:{TOKEN}{token}"));
        let request = Request::builder().method("POST").uri(format!("/{REPOSITORY}/data/{}", id(b"a pack")));
        let request = request.header(header::AUTHORIZATION, format!("Basic {credentials}"));
        request.header(header::CONTENT_LENGTH, 6).body(body).unwrap()
    };
    let mut connections = Vec::new();
    loop {
        let connection = world.gateway.connection();
        let received = Arc::new(Mutex::new(false));
        let noted = received.clone();
        let body = Body::from_stream(stream::once(async move {
            *noted.lock().unwrap() = true;
            Ok::<_, FilesError>(Bytes::from_static(b"a pack"))
        }));
        let response = world.gateway.answer(request("backup", body), &connection).await;
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(response.headers()[header::CONNECTION], "close");
            assert!(!*received.lock().unwrap(), "the upload was not begun");
            break;
        }
        connections.push(connection);
    }
    assert_eq!(connections.len(), 32);
    let path = format!("/{REPOSITORY}/config");
    assert_eq!(world.ask("backup", "GET", &path, b"").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(world.ask("restore", "GET", &path, b"").await.status, StatusCode::OK, "another task");
    connections.pop();
    assert_eq!(world.ask("backup", "GET", &path, b"").await.status, StatusCode::OK);
}

#[tokio::test]
async fn replacing_a_file() {
    let world = World::new();
    let path = world.repositories.add("data", b"a pack");
    assert_refused(&world, ("backup", "POST", &format!("/{path}")), b"a pack", (403, "never replaced")).await;
    // Also where storage holds something else under the name.
    world.repositories.put(&path, b"damaged");
    assert_refused(&world, ("backup", "POST", &format!("/{path}")), b"a pack", (403, "never replaced")).await;
    assert_eq!(world.repositories.get(&path).unwrap(), b"damaged"[..]);
}

#[rstest]
#[case::pack("data")]
#[case::index("index")]
#[case::snapshot("snapshots")]
#[tokio::test]
async fn deleting_a_file_that_is_no_lock(#[case] directory: &str) {
    let world = World::new();
    let path = format!("/{}", world.repositories.add(directory, b"content"));
    for token in ["backup", "restore", "ended"] {
        assert_refused(&world, (token, "DELETE", &path), b"", (403, "only the server deletes")).await;
    }
}

#[tokio::test]
async fn deleting_the_lock_of_another_task_or_of_the_server() {
    let world = World::new();
    for user in ["user-b2", "root", "user-"] {
        let path = format!("/{}", world.repositories.add("locks", &lock(user, "shared")));
        assert_refused(&world, ("backup", "DELETE", &path), b"", (403, "only locks that it made")).await;
        assert_refused(&world, ("restore", "DELETE", &path), b"", (403, "only locks that it made")).await;
    }
    let path = format!("/{}", world.repositories.add("locks", &lock("user-b", "shared")));
    assert_refused(&world, ("another-backup", "DELETE", &path), b"", (403, "only locks that it made")).await;
    // What cannot be read may be anybody's.
    let path = format!("/{}", world.repositories.add("locks", b"sealed with another key"));
    assert_refused(&world, ("backup", "DELETE", &path), b"", (403, "only locks that it made")).await;
    let path = format!("/{}", world.repositories.add("locks", &vec![b'x'; 20_000]));
    assert_refused(&world, ("backup", "DELETE", &path), b"", (403, "only locks that it made")).await;
}

#[rstest]
#[case::of_another_task(lock("user-b2", "shared"), "user name")]
#[case::exclusive(lock("user-b", "exclusive"), "exclusive")]
#[case::from_long_ago(b"lock user-b shared 4000".to_vec(), "time")]
#[case::from_the_future(b"lock user-b shared -4000".to_vec(), "time")]
#[case::no_lock(b"anything".to_vec(), "not a lock")]
#[case::empty(Vec::new(), "not a lock")]
#[tokio::test]
async fn a_lock_that_is_not_the_tasks_own(#[case] content: Vec<u8>, #[case] text: &str) {
    let world = World::new();
    let path = format!("/{REPOSITORY}/locks/{}", id(&content));
    assert_refused(&world, ("backup", "POST", &path), &content, (403, text)).await;
}

#[rstest]
#[case::small(b"content".to_vec())]
#[case::large(vec![7; 300_000])]
#[tokio::test]
async fn a_name_that_is_not_the_hash_of_the_content(#[case] content: Vec<u8>) {
    let world = World::new();
    for directory in ["data", "index", "snapshots", "locks"] {
        let path = format!("/{REPOSITORY}/{directory}/{}", id(b"something else"));
        let status = if directory == "locks" && content.len() > 16 * 1024 { 413 } else { 400 };
        assert_refused(&world, ("backup", "POST", &path), &content, (status, "")).await;
    }
    assert_eq!(std::fs::read_dir(world.spool.path()).unwrap().count(), 0, "nothing is left behind");
}

#[rstest]
#[case::pack("data", 32 * 1024 * 1024 + 1)]
#[case::index("index", 16 * 1024 * 1024 + 1)]
#[case::snapshot("snapshots", 4 * 1024 * 1024 + 1)]
#[case::lock("locks", 16 * 1024 + 1)]
#[tokio::test]
async fn a_file_that_is_too_large(#[case] directory: &str, #[case] size: usize) {
    let world = World::new();
    let content = vec![0; size];
    let path = format!("/{REPOSITORY}/{directory}/{}", id(&content));
    assert_refused(&world, ("backup", "POST", &path), &content, (413, &format!("{size} bytes"))).await;
}

#[rstest]
#[case::expired("expired", 401, "has expired")]
#[case::unknown("guessed", 401, "not valid")]
#[case::cannot_be_checked("unknown-now", 503, "cannot be checked")]
#[tokio::test]
async fn a_token_that_permits_nothing(#[case] token: &str, #[case] status: u16, #[case] text: &str) {
    let world = World::new();
    let path = format!("/{REPOSITORY}/config");
    assert_refused(&world, (token, "GET", &path), b"", (status, text)).await;
}

#[tokio::test]
async fn a_request_without_a_token() {
    let world = World::new();
    for credentials in [None, Some("Bearer backup"), Some("Basic !!!"), Some("Basic YmFja3Vw")] {
        let mut request = Request::builder().uri(format!("/{REPOSITORY}/config"));
        if let Some(credentials) = credentials {
            request = request.header(header::AUTHORIZATION, credentials);
        }
        let answer = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{credentials:?}");
        assert!(answer.header("www-authenticate").starts_with("Basic"));
    }
}

#[rstest]
#[case::pack("data")]
#[case::index("index")]
#[case::snapshot("snapshots")]
#[tokio::test]
async fn adding_data_with_the_token_of_a_restore(#[case] directory: &str) {
    let world = World::new();
    let path = format!("/{REPOSITORY}/{directory}/{}", id(b"content"));
    assert_refused(&world, ("restore", "POST", &path), b"content", (403, "for a restore")).await;
}

#[rstest]
#[case::config("config")]
#[case::key("keys/ID")]
#[case::create("")]
#[tokio::test]
async fn writing_what_only_the_server_writes(#[case] name: &str) {
    let world = World::new();
    let path = format!("/{REPOSITORY}/{}", name.replace("ID", &id(b"content")));
    for token in ["backup", "restore"] {
        assert_refused(&world, (token, "POST", &path), b"content", (403, "only the server")).await;
    }
    assert_refused(&world, ("backup", "POST", &format!("/{REPOSITORY}/?create=true")), b"", (403, "creates"))
        .await;
    if !name.is_empty() {
        assert_refused(&world, ("backup", "DELETE", &path), b"", (403, "only the server")).await;
    }
    assert_eq!(world.repositories.get(&format!("{REPOSITORY}/config")).unwrap(), b"sealed config"[..]);
}

#[rstest]
#[case::up("/stash/shop/r/../../bank/r/config", 404)]
#[case::up_encoded("/stash/shop/r/..%2f..%2fbank/r/config", 404)]
#[case::up_encoded_twice("/stash/shop/r/%252e%252e/config", 404)]
#[case::slash_encoded("/stash/shop/r%2fconfig", 403)]
#[case::other_first("/stash/bank/r/../../shop/r/config", 403)]
#[case::double_slash("/stash/shop/r//config", 404)]
#[case::nul("/stash/shop/r/config%00", 404)]
#[case::backslash("/stash/shop/r/data%5c..%5cconfig", 404)]
#[tokio::test]
async fn a_path_that_leads_elsewhere(#[case] path: &str, #[case] status: u16) {
    let world = World::new();
    world.repositories.put("stash/bank/r/config", b"of the bank");
    assert_refused(&world, ("backup", "GET", path), b"", (status, "")).await;
}

#[rstest]
#[case::unknown_type("lifeboat/prune/ID")]
#[case::unknown_listing("lifeboat/")]
#[case::no_id("data/abc")]
#[case::capitals("data/IDUP")]
#[case::temporary_name("data/ID.rest-server-temp1")]
#[tokio::test]
async fn a_type_or_name_that_no_repository_has(#[case] name: &str) {
    let world = World::new();
    let hash = id(b"content");
    let path = format!("/{REPOSITORY}/{}", name.replace("IDUP", &hash.to_uppercase()).replace("ID", &hash));
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        let answer = world.ask("backup", method, &path, b"content").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    assert_eq!(world.repositories.count(), 1);
}

#[tokio::test]
async fn a_file_without_an_announced_size() {
    let world = World::new();
    let credentials = STANDARD.encode(format!("lifeboat:{TOKEN}backup"));
    let request = Request::post(format!("/{REPOSITORY}/data/{}", id(b"content")))
        .header(header::AUTHORIZATION, format!("Basic {credentials}"))
        .body(Body::from_stream(stream::iter([Ok::<_, FilesError>(Bytes::from_static(b"content"))])))
        .unwrap();
    let answer = world.send(request).await;
    assert_eq!((answer.status.as_u16(), world.repositories.count()), (411, 1));
}

#[tokio::test]
async fn a_file_that_does_not_arrive_whole() {
    let world = World::new();
    let credentials = STANDARD.encode(format!("lifeboat:{TOKEN}backup"));
    let request = Request::post(format!("/{REPOSITORY}/data/{}", id(b"content")))
        .header(header::AUTHORIZATION, format!("Basic {credentials}"))
        .header(header::CONTENT_LENGTH, 100)
        .body(Body::from("content"))
        .unwrap();
    let answer = world.send(request).await;
    assert_eq!((answer.status.as_u16(), world.repositories.count()), (408, 1));
}
