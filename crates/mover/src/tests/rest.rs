//! A repository on restic's REST server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::server::{Answer, Asked, Server};
use super::world::{World, access};
use crate::report::{Cause, Outcome};
use crate::task::{LookWork, Task, TaskWork, Transport};

/// `user:pass word` as HTTP basic authentication.
const AUTHORIZATION: &str = "Basic dXNlcjpwYXNzIHdvcmQ=";

/// Answers as restic's server does: it refuses to replace files, and has no directories before they are created.
fn answer(files: &Mutex<BTreeMap<String, Vec<u8>>>, asked: &Asked) -> Answer {
    let mut files = files.lock().unwrap();
    if asked.header("authorization") != Some(AUTHORIZATION) {
        return (401, Vec::new(), b"Unauthorized".to_vec());
    }
    let path = asked.target.strip_prefix("/shop/").unwrap();
    let is_created = files.contains_key("");
    match (asked.method.as_str(), files.get(path)) {
        ("POST", None) if path == "?create=true" => {
            files.insert(String::new(), Vec::new());
            (200, Vec::new(), Vec::new())
        }
        _ if !is_created => (404, Vec::new(), Vec::new()),
        ("POST", None) => {
            files.insert(path.to_owned(), asked.body.clone());
            (200, Vec::new(), Vec::new())
        }
        ("POST", Some(_)) => (403, Vec::new(), Vec::new()),
        ("GET", _) if path.ends_with('/') => {
            let items = files.iter().filter_map(|(name, content)| Some((name.strip_prefix(path)?, content)));
            let items =
                items.map(|(name, content)| format!(r#"{{"name":"{name}","size":{}}}"#, content.len()));
            let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
            let kind = "application/vnd.x.restic.rest.v2".to_owned();
            (200, vec![("content-type", kind)], body.into_bytes())
        }
        ("GET" | "HEAD", Some(content)) => (200, Vec::new(), content.clone()),
        ("DELETE", Some(_)) => {
            files.remove(path);
            (200, Vec::new(), Vec::new())
        }
        _ => (404, Vec::new(), Vec::new()),
    }
}

fn task(world: &World, server: &Server, work: TaskWork) -> Task {
    std::fs::write(world.path("task/rest"), "user:pass word\n").unwrap();
    let mut task = world.task("uid-1", work);
    access(&mut task).passwords = vec!["password-1".to_owned()];
    access(&mut task).transport =
        Transport::Rest { url: server.url("/shop"), credentials: Some("rest".to_owned()), ca: None };
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mover_outside_of_the_tenants_namespace_connects_to_no_address_of_its_machine() {
    let server = Server::new(|_| (404, Vec::new(), b"of the machine".to_vec())).await;
    let world = World::bare();
    for work in [TaskWork::Init, TaskWork::Look(LookWork { newest: 5 })] {
        let mut task = task(&world, &server, work);
        access(&mut task).guarded = true;
        let failure = world.run(&task).await.failed();
        assert!(failure.message.contains("an address of the machine itself"), "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_on_a_rest_server_is_created_once_and_opened_then() {
    let files = Arc::new(Mutex::new(BTreeMap::new()));
    let held = Arc::clone(&files);
    let server = Server::new(move |asked| answer(&held, asked)).await;
    let world = World::bare();
    let look = task(&world, &server, TaskWork::Look(LookWork { newest: 5 }));
    assert_eq!(world.run(&look).await.failed().cause, Cause::NoRepository);
    let mut ids = Vec::new();
    for expected in [true, false] {
        match world.run(&task(&world, &server, TaskWork::Init)).await.done() {
            Outcome::Initialized(made) => {
                assert_eq!(made.created, expected);
                ids.push(made.repository);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((ids[0].len(), &ids[0]), (64, &ids[1]));
    let Outcome::Looked(looked) = world.run(&look).await.done() else { panic!() };
    assert_eq!((looked.repository, looked.snapshots), (ids[0].clone(), 0));
    assert!(files.lock().unwrap().contains_key("config"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rest_server_that_refuses_the_user_is_a_matter_of_credentials() {
    let server = Server::new(|_| (401, Vec::new(), b"Unauthorized".to_vec())).await;
    let world = World::bare();
    let failure = world.run(&task(&world, &server, TaskWork::Init)).await.failed();
    assert_eq!(failure.cause, Cause::Credentials, "{}", failure.message);
    assert!(!failure.message.contains("pass word"), "{}", failure.message);
}
