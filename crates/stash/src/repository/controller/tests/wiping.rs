//! wipeOut deletes the data of a Repository that alone uses it, and nothing else.

use lifeboat_api::stash::InvokerKind;
use lifeboat_plan::stash::repository::wipe_out::WIPING;
use lifeboat_plan::stash::reservation::{Claim, RepositoryName};

use super::*;
use crate::repository::reservations::{self, ReservedId};
use crate::repository::{key_of, ready, state as backend_state};

/// A Repository with data and wipeOut, with its finalizer.
async fn prepared(world: &World) -> RepositoryKey {
    let key = world.put_repository("r");
    world.snapshot(&key, "app", &[]).await;
    world.change("r", &json!({"spec": {"wipeOut": true}}));
    let object = reconciled(world, &state(), "r").await;
    assert_eq!(object["metadata"]["finalizers"], json!(["lifeboat.io/wipe-out"]));
    key
}

fn delete(world: &World, name: &str) {
    world.change(name, &json!({"metadata": {"deletionTimestamp": "2026-11-18T12:00:00Z"}}));
}

async fn files(world: &World, name: &str) -> Vec<String> {
    use futures::TryStreamExt;
    let listed: Vec<_> = world.store(name).list("").try_collect().await.unwrap();
    listed.into_iter().map(|info| info.key).collect()
}

/// Why the data stays, and that it does.
async fn refused(world: &World) -> String {
    let object = reconciled(world, &state(), "r").await;
    let (status, message) = condition(&object, "DataWipedOut");
    assert_eq!(status, "False", "{object}");
    assert!(world.store("r").exists("config").await.unwrap(), "{message}");
    assert_eq!(object["metadata"]["finalizers"], json!(["lifeboat.io/wipe-out"]));
    message
}

#[tokio::test]
async fn the_data_goes_with_the_object_and_other_files_stay() {
    let world = World::new().await;
    prepared(&world).await;
    let store = world.store("r");
    store.put("nested/config", "another repository").await.unwrap();
    store.put("readme.txt", "of a person").await.unwrap();
    world.stores.bucket("bkt").put("rother/config", "a prefix that begins alike").await.unwrap();
    delete(&world, "r");
    let object = reconciled(&world, &state(), "r").await;
    assert!(object.is_null(), "the object is let go: {object}");
    assert_eq!(files(&world, "r").await, ["nested/config", "readme.txt"]);
    assert!(world.stores.bucket("bkt").exists("rother/config").await.unwrap());
}

#[tokio::test]
async fn without_wipe_out_the_data_stays() {
    let world = World::new().await;
    prepared(&world).await;
    world.change("r", &json!({"spec": {"wipeOut": false}}));
    assert_eq!(reconciled(&world, &state(), "r").await["metadata"]["finalizers"], json!([]));
    // An object of upstream's operator is let go, too.
    world.change("r", &json!({"metadata": {"finalizers": ["stash"]}}));
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert!(world.store("r").exists("config").await.unwrap());
}

fn configuration_path(namespace: &str, name: &str) -> String {
    format!("/apis/stash.appscode.com/v1beta1/namespaces/{namespace}/backupconfigurations/{name}")
}

/// A BackupConfiguration that uses Repository `shop/r`; its UID is its name.
fn put_configuration(world: &World, namespace: &str, name: &str) {
    let object = json!({
        "apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupConfiguration",
        "metadata": {"uid": name},
        "spec": {"repository": {"name": "r", "namespace": SHOP}, "schedule": "@daily"},
    });
    world.server.put(&configuration_path(namespace, name), object);
}

#[tokio::test]
async fn the_data_stays_while_an_invoker_uses_it() {
    let world = World::new().await;
    let key = prepared(&world).await;
    let ready = ready(&world.context, &key).await.unwrap();
    let id = ReservedId::new(&ready.access, SHOP, &ready.id);
    let claim = |namespace: &str, name: &str| Claim {
        kind: InvokerKind::BackupConfiguration,
        namespace: namespace.into(),
        name: name.into(),
        uid: name.into(),
        created: "2026-11-18T12:00:00Z".parse().unwrap(),
        repository: RepositoryName { namespace: SHOP.into(), name: "r".into() },
        hosts: Vec::new(),
    };
    for (namespace, name) in [(SHOP, "nightly"), ("bank", "vault")] {
        put_configuration(&world, namespace, name);
        reservations::claim(&world.context, &id, &claim(namespace, name)).await.unwrap();
    }
    delete(&world, "r");
    let message = refused(&world).await;
    assert!(message.contains("BackupConfiguration nightly") && !message.contains("vault"), "{message}");
    assert_eq!(world.server.events(), ["DataNotDeleted"]);
    reservations::release(&world.context, &id, |_| true).await.unwrap();
    assert!(refused(&world).await.contains("BackupConfiguration nightly"), "its spec names the Repository");
    for (namespace, name) in [(SHOP, "nightly"), ("bank", "vault")] {
        world.server.remove(&configuration_path(namespace, name));
    }
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert_eq!(files(&world, "r").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_data_stays_while_another_repository_or_cluster_has_it() {
    let world = World::new().await;
    let key = prepared(&world).await;
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "r"}});
    world.put_repository_in("bank", "secret", backend);
    delete(&world, "r");
    let message = refused(&world).await;
    assert!(message.contains("in another namespace") && !message.contains("secret"), "{message}");
    world.server.remove(&path("bank", "secret"));
    // A session of another cluster left its state.
    world.change("r", &json!({"metadata": {"deletionTimestamp": null}}));
    let opened = world.opened(&key).await;
    let object = world.repository("r");
    let other = backend_state::BackendState::new("other-cluster", world.context.now(), &object, &object, &[]);
    backend_state::write(&opened, &other).await.unwrap();
    delete(&world, "r");
    let message = refused(&world).await;
    assert!(message.contains("another cluster"), "{message}");
}

#[tokio::test]
async fn the_data_stays_while_it_is_locked_or_is_not_the_repository_on_record() {
    let world = World::new().await;
    let key = prepared(&world).await;
    let opened = world.opened(&key).await;
    let lock = Lock::acquire(&opened, LockKind::Shared, &LockOptions::default()).await.unwrap();
    delete(&world, "r");
    let message = refused(&world).await;
    assert!(message.contains("holds a lock"), "{message}");
    lock.release().await;
    let id = json!({"metadata": {"annotations": {"lifeboat.io/repository-id": "0".repeat(64)}}});
    world.change("r", &id);
    assert!(refused(&world).await.contains("is on record"));
    world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    assert!(refused(&world).await.contains("Secret 'keys' does not exist"));
}

/// The Secret is deleted first, and no new one can be created in the namespace.
#[tokio::test]
async fn a_namespace_that_is_being_deleted_is_not_held_for_a_secret_that_is_gone() {
    let world = World::new().await;
    let opened = world.opened(&prepared(&world).await).await;
    let secret = "/api/v1/namespaces/shop/secrets/keys";
    let kept = world.server.get(secret).unwrap();
    world.server.remove(secret);
    delete(&world, "r");
    assert!(refused(&world).await.contains("Secret 'keys' does not exist"), "the namespace stays");
    let ending = json!({"metadata": {"deletionTimestamp": "2026-11-18T12:00:00Z"}});
    world.server.change("/api/v1/namespaces/shop", &ending);
    // With its Secret the data is deleted, also at the end of the namespace.
    world.server.put(secret, kept);
    let lock = Lock::acquire(&opened, LockKind::Shared, &LockOptions::default()).await.unwrap();
    assert!(refused(&world).await.contains("holds a lock"));
    lock.release().await;
    world.server.remove(secret);
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert!(world.store("r").exists("config").await.unwrap(), "its data stays");
    assert_eq!(world.server.events().last().map(String::as_str), Some("DataNotDeleted"));
}

#[tokio::test]
async fn a_repository_that_was_never_opened_goes_and_takes_nothing_along() {
    let world = World::new().await;
    world.put_repository("r");
    world.change(
        "r",
        &json!({"spec": {"wipeOut": true}, "metadata": {"finalizers": ["lifeboat.io/wipe-out"]}}),
    );
    world.store("r").put("readme.txt", "of a person").await.unwrap();
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert_eq!(files(&world, "r").await, ["readme.txt"]);
}

#[tokio::test]
async fn a_deletion_that_was_interrupted_goes_on_although_the_keys_are_gone() {
    let world = World::new().await;
    prepared(&world).await;
    let store = world.store("r");
    let config = store.get("config").await.unwrap();
    let digest = {
        use sha2::{Digest, Sha256};
        Sha256::digest(&config).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    };
    let keys = store.list_directory("keys/").await.unwrap().objects;
    store.delete_many(keys.iter().map(|info| &info.key)).await.unwrap();
    world.change("r", &json!({"metadata": {"annotations": {WIPING: digest}}}));
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert_eq!(files(&world, "r").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_deletion_that_was_interrupted_stops_at_another_repository() {
    let world = World::new().await;
    let key = prepared(&world).await;
    world.change("r", &json!({"metadata": {"annotations": {WIPING: "another"}}}));
    delete(&world, "r");
    assert!(refused(&world).await.contains("another repository now"));
    assert_eq!(key, key_of(SHOP, "r"));
}

#[tokio::test]
async fn of_a_repository_without_a_prefix_the_data_of_others_below_it_stays_and_is_named() {
    let world = World::new().await;
    let backend = |prefix: &str| json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": prefix}});
    let root = world.put_backend("r", backend(""));
    world.snapshot(&root, "app", &[]).await;
    let mut kept = Vec::new();
    for (name, prefix) in
        [("below", "data"), ("deeper", "data/ab"), ("keys", "keys"), ("own", "lifeboat/state")]
    {
        let key = world.put_backend(name, backend(prefix));
        world.snapshot(&key, "app", &[]).await;
        kept.extend(world.stores.keys("bkt", &format!("{prefix}/config")).await);
    }
    assert_eq!(kept, ["data/config", "data/ab/config", "keys/config", "lifeboat/state/config"]);
    let bucket = world.stores.bucket("bkt");
    bucket.put("photos/a.jpg", "of a person").await.unwrap();
    let before = world.stores.keys("bkt", "").await;
    world.change(
        "r",
        &json!({"spec": {"wipeOut": true}, "metadata": {"finalizers": ["lifeboat.io/wipe-out"]}}),
    );
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    let after = world.stores.keys("bkt", "").await;
    assert!(!after.contains(&"config".to_owned()) && after.len() < before.len());
    for name in ["below", "deeper", "keys", "own"] {
        let opened = world.opened(&key_of(SHOP, name)).await;
        let snapshots = opened.load_snapshots().await.unwrap();
        assert_eq!(snapshots.len(), 1, "{name}");
        for file in after.iter().filter(|key| key.contains("/data/")) {
            assert!(before.contains(file));
        }
    }
    assert!(after.contains(&"photos/a.jpg".to_owned()));
    assert_eq!(world.server.events(), ["OtherFilesLeft"]);
}

#[tokio::test]
async fn nobody_reserves_a_repository_whose_data_is_being_deleted() {
    let world = World::new().await;
    let key = prepared(&world).await;
    let opened = ready(&world.context, &key).await.unwrap();
    let id = ReservedId::new(&opened.access, SHOP, &opened.id);
    let other = Claim {
        kind: InvokerKind::BackupConfiguration,
        namespace: "bank".into(),
        name: "vault".into(),
        uid: "vault".into(),
        created: "2026-11-18T12:00:00Z".parse().unwrap(),
        repository: RepositoryName { namespace: "bank".into(), name: "other".into() },
        hosts: Vec::new(),
    };
    let (context, seen) = (world.context.clone(), Arc::new(Mutex::new(Vec::new())));
    let (tried, noted) = (seen.clone(), other.clone());
    // What a claim would get while the data is deleted: the record says so from the first file on.
    world.server.on_write(move |server, write| {
        if write.path.contains("/configmaps/") {
            locked(&tried)
                .extend(server.get(&write.path).map(|map| map["data"]["reservations.json"].clone()));
        }
    });
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    let records = locked(&seen).clone();
    let record = lifeboat_plan::stash::reservation::Record::decode(records[0].as_str().unwrap()).unwrap();
    let standing = record.with(&noted).standing("vault");
    assert!(format!("{standing:?}").contains("Deletion"), "{standing:?}");
    // Afterwards the place is free.
    let standing = reservations::claim(&context, &id, &other).await.unwrap();
    assert_eq!(standing, lifeboat_plan::stash::reservation::Standing::Holds);
}

/// A deletion that is noted is not judged again: somebody who reserved the repository before the note would lose the data.
#[tokio::test]
async fn a_deletion_is_noted_only_when_the_repository_is_held() {
    let world = World::new().await;
    prepared(&world).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let was_noted = seen.clone();
    world.server.on_write(move |server, write| {
        if write.path.contains("/configmaps/") {
            let object = server.get(&path(SHOP, "r")).unwrap_or_default();
            locked(&was_noted).push(!object["metadata"]["annotations"][WIPING].is_null());
        }
    });
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert_eq!(locked(&seen).first(), Some(&false));
}

#[tokio::test]
async fn a_repository_in_one_place_is_known_however_its_address_is_written() {
    let world = World::new().await;
    prepared(&world).await;
    // It was never opened, so its ID is not on record.
    let backend = json!({"s3": {"endpoint": "http://minio:9000/", "bucket": "bkt", "prefix": "/r/"}});
    world.put_repository_in("bank", "secret", backend);
    delete(&world, "r");
    assert!(refused(&world).await.contains("in another namespace"));
}

/// The account of a container is in the Secret.
#[tokio::test]
async fn a_container_of_that_name_in_another_account_is_another_place() {
    let world = World::new().await;
    for (namespace, account) in [(SHOP, "YWNtZQ=="), ("bank", "YmFuaw==")] {
        world.put_secret(namespace, crate::testing::PASSWORD);
        let keys = json!({"data": {"AZURE_ACCOUNT_NAME": account, "AZURE_ACCOUNT_KEY": "a2V5"}});
        world.server.change(&format!("/api/v1/namespaces/{namespace}/secrets/keys"), &keys);
    }
    let backend = json!({"azure": {"container": "bkt", "prefix": "r"}});
    let key = world.put_backend("r", backend.clone());
    world.snapshot(&key, "app", &[]).await;
    world.change("r", &json!({"spec": {"wipeOut": true}}));
    reconciled(&world, &state(), "r").await;
    world.put_repository_in("bank", "theirs", backend);
    delete(&world, "r");
    let same = json!({"data": {"AZURE_ACCOUNT_NAME": "YWNtZQ=="}});
    let other = json!({"data": {"AZURE_ACCOUNT_NAME": "YmFuaw=="}});
    world.server.change("/api/v1/namespaces/bank/secrets/keys", &same);
    assert!(refused(&world).await.contains("in another namespace"));
    world.server.change("/api/v1/namespaces/bank/secrets/keys", &other);
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
}

#[tokio::test]
async fn a_claim_of_an_object_that_is_gone_keeps_no_data() {
    let world = World::new().await;
    let key = prepared(&world).await;
    put_configuration(&world, SHOP, "nightly");
    let opened = ready(&world.context, &key).await.unwrap();
    let id = ReservedId::new(&opened.access, SHOP, &opened.id);
    let claim = Claim {
        kind: InvokerKind::BackupConfiguration,
        namespace: SHOP.into(),
        name: "nightly".into(),
        uid: "nightly".into(),
        created: "2026-11-18T12:00:00Z".parse().unwrap(),
        repository: RepositoryName { namespace: SHOP.into(), name: "r".into() },
        hosts: Vec::new(),
    };
    reservations::claim(&world.context, &id, &claim).await.unwrap();
    world.server.remove(&configuration_path(SHOP, "nightly"));
    delete(&world, "r");
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert_eq!(files(&world, "r").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_deletion_that_is_called_off_goes_no_further_and_frees_the_repository() {
    let world = World::new().await;
    prepared(&world).await;
    let lock_holder = world.opened(&key_of(SHOP, "r")).await;
    let lock = Lock::acquire(&lock_holder, LockKind::Shared, &LockOptions::default()).await.unwrap();
    delete(&world, "r");
    refused(&world).await;
    world.change("r", &json!({"spec": {"wipeOut": false}}));
    assert!(reconciled(&world, &state(), "r").await.is_null(), "the object is let go");
    assert!(world.store("r").exists("config").await.unwrap());
    assert_eq!(world.server.paths("/configmaps/"), Vec::<String>::new());
    lock.release().await;
}
