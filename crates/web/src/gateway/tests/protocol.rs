//! What restic's clients ask for, and what they get.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn files_are_listed_with_names_or_with_names_and_sizes() {
    let world = World::new();
    world.repositories.add("data", b"a pack");
    let path = format!("/{REPOSITORY}/data/");
    let one = world.ask("restore", "GET", &path, b"").await;
    assert_eq!(one.header("content-type"), "application/vnd.x.restic.rest.v1");
    assert_eq!(serde_json::from_slice::<Value>(&one.body).unwrap(), json!([id(b"a pack")]));
    let accept = [("accept", "application/vnd.x.restic.rest.v2")];
    let two = world.ask_with("restore", "GET", &path, b"", &accept).await;
    assert_eq!(two.header("content-type"), "application/vnd.x.restic.rest.v2");
    let expected = json!([{"name": id(b"a pack"), "size": 6}]);
    assert_eq!(serde_json::from_slice::<Value>(&two.body).unwrap(), expected);
    let empty = world.ask("restore", "GET", &format!("/{REPOSITORY}/snapshots/"), b"").await;
    assert_eq!((empty.status, empty.text().as_str()), (StatusCode::OK, "[]"));
}

#[rstest]
#[case::all(None, 200, "0123456789", "", "10")]
#[case::some(Some("bytes=2-4"), 206, "234", "bytes 2-4/10", "3")]
#[case::to_the_end(Some("bytes=7-"), 206, "789", "bytes 7-9/10", "3")]
#[case::the_end(Some("bytes=-2"), 206, "89", "bytes 8-9/10", "2")]
#[case::not_one_range(Some("bytes=0-1,3-4"), 200, "0123456789", "", "10")]
#[tokio::test]
async fn a_file_is_sent_whole_or_in_part(
    #[case] range: Option<&str>,
    #[case] status: u16,
    #[case] body: &str,
    #[case] content_range: &str,
    #[case] length: &str,
) {
    let world = World::new();
    let path = format!("/{}", world.repositories.add("data", b"0123456789"));
    let headers: Vec<_> = range.map(|range| ("range", range)).into_iter().collect();
    let answer = world.ask_with("restore", "GET", &path, b"", &headers).await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (status, body));
    assert_eq!((answer.header("content-range"), answer.header("content-length")), (content_range, length));
}

#[tokio::test]
async fn a_range_outside_of_the_file_says_how_large_the_file_is() {
    let world = World::new();
    let path = format!("/{}", world.repositories.add("data", b"0123456789"));
    let answer = world.ask_with("restore", "GET", &path, b"", &[("range", "bytes=10-12")]).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-range")), (416, "bytes */10"));
}

#[tokio::test]
async fn a_look_at_a_file_gives_its_size_and_no_content() {
    let world = World::new();
    let answer = world.ask("restore", "HEAD", &format!("/{REPOSITORY}/config"), b"").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-length")), (200, "13"));
    assert!(answer.body.is_empty());
    let missing = world.ask("restore", "HEAD", &format!("/{REPOSITORY}/keys/{}", id(b"x")), b"").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[rstest]
#[case::pack("data", 300_000)]
#[case::small_pack("data", 7)]
#[case::index("index", 4000)]
#[case::snapshot("snapshots", 400)]
#[tokio::test]
async fn a_backup_adds_files(#[case] directory: &str, #[case] size: usize) {
    let world = World::new();
    let content = vec![7; size];
    let path = format!("{REPOSITORY}/{directory}/{}", id(&content));
    let answer = world.ask("backup", "POST", &format!("/{path}"), &content).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(world.repositories.get(&path).unwrap(), content);
    assert_eq!(std::fs::read_dir(world.spool.path()).unwrap().count(), 0);
    let text = world.metrics.render();
    assert!(text.contains(&format!("lifeboat_gateway_bytes_total{{direction=\"in\"}} {size}")), "{text}");
    assert!(text.contains("operation=\"add\",outcome=\"done\"} 1"), "{text}");
}

#[rstest]
#[case::backup("backup", "user-b")]
#[case::restore("restore", "user-r")]
#[tokio::test]
async fn a_task_adds_a_lock_and_removes_it(#[case] token: &str, #[case] user: &str) {
    let world = World::new();
    let content = lock(user, "shared");
    let path = format!("{REPOSITORY}/locks/{}", id(&content));
    let made = world.ask(token, "POST", &format!("/{path}"), &content).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text());
    assert!(world.repositories.get(&path).is_some());
    let removed = world.ask(token, "DELETE", &format!("/{path}"), b"").await;
    assert_eq!(removed.status, StatusCode::OK, "{}", removed.text());
    assert!(world.repositories.get(&path).is_none());
    let again = world.ask(token, "DELETE", &format!("/{path}"), b"").await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_task_that_has_ended_removes_its_lock_and_nothing_else() {
    let world = World::new();
    let path = world.repositories.add("locks", &lock("user-b", "shared"));
    let read = world.ask("ended", "GET", &format!("/{REPOSITORY}/config"), b"").await;
    assert_eq!(read.status, StatusCode::FORBIDDEN);
    assert!(read.text().contains("has ended"), "{}", read.text());
    let removed = world.ask("ended", "DELETE", &format!("/{path}"), b"").await;
    assert_eq!(removed.status, StatusCode::OK, "{}", removed.text());
}
