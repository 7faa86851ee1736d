//! The state in the backend is sealed, bounded and found again.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::state::{BackendState, read_all, write};
use crate::testing::{SHOP, World};

fn state(cluster: &str, invoker: &str, spec: &Value, hosts: usize) -> BackendState {
    let object = |kind: &str, name: &str, spec: &Value| {
        json!({"apiVersion": "v", "kind": kind, "metadata": {"namespace": SHOP, "name": name, "uid": "u",
            "managedFields": []}, "spec": spec, "status": {"secret": "CANARY"}})
    };
    let hosts: Vec<String> = (0..hosts).map(|number| format!("host-{number}")).collect();
    let (repository, invoker) =
        (object("Repository", "r", &json!({"backend": {}})), object("BackupBatch", invoker, spec));
    BackendState::new(cluster, Timestamp::UNIX_EPOCH, &repository, &invoker, &hosts)
}

#[tokio::test]
async fn a_state_is_found_again_with_the_password_and_is_not_readable_without() {
    let world = World::new().await;
    let repository = world.opened(&world.put_repository("r")).await;
    let (first, second) = (state("c", "a", &json!({"members": []}), 2), state("c", "b", &json!({}), 1));
    for state in [&first, &second, &first] {
        assert!(write(&repository, state).await.unwrap());
    }
    let mut found = read_all(&repository).await.unwrap();
    found.sort_by_key(|state| state.invoker["metadata"]["name"].to_string());
    assert_eq!(found, [first, second]);
    let listed = world.store("r").list_directory("lifeboat/state/").await.unwrap().objects;
    assert_eq!(listed.len(), 2, "one for each invoker");
    let raw = world.store("r").get(&listed[0].key).await.unwrap();
    assert!(!String::from_utf8_lossy(&raw).contains("Repository"));
    // One that was changed is left out.
    let mut changed = raw.to_vec();
    changed[20] ^= 1;
    world.store("r").put(&listed[0].key, changed).await.unwrap();
    assert_eq!(read_all(&repository).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_state_holds_neither_status_nor_more_than_its_bound() {
    let world = World::new().await;
    let repository = world.opened(&world.put_repository("r")).await;
    let huge = state("c", "a", &json!({"text": "x".repeat(100_000)}), 20_000);
    write(&repository, &huge).await.unwrap();
    let found = read_all(&repository).await.unwrap().remove(0);
    assert!(found.invoker["spec"].is_null() && found.hosts.len() == 256);
    assert!(found.invoker["status"].is_null() && found.invoker["metadata"]["uid"].is_null());
}

#[tokio::test]
async fn old_states_go() {
    let world = World::new().await;
    let repository = world.opened(&world.put_repository("r")).await;
    for number in 0..70 {
        write(&repository, &state("c", &format!("i{number}"), &json!({}), 0)).await.unwrap();
    }
    assert_eq!(read_all(&repository).await.unwrap().len(), 64);
}

#[tokio::test]
async fn files_of_others_among_the_states_stay() {
    let world = World::new().await;
    let repository = world.opened(&world.put_repository("r")).await;
    let store = world.store("r");
    for number in 0..70 {
        store.put(&format!("lifeboat/state/data/{number}"), "of another repository").await.unwrap();
    }
    write(&repository, &state("c", "a", &json!({}), 0)).await.unwrap();
    assert_eq!(world.stores.keys("bkt", "r/lifeboat/state/data/").await.len(), 70);
    assert_eq!(read_all(&repository).await.unwrap().len(), 1);
}
