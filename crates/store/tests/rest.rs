//! Against restic's own rest-server (`cargo test -p lifeboat-store --features real-rest --test it rest::`).
//!
//! The environment names it: `LIFEBOAT_REST_URL`, for example of `rest-server --path DIR --no-auth --listen
//! 127.0.0.1:8000`. The tests make a new repository below that URL and remove what they wrote into it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lifeboat_store::{Error, RestConfig, Store, Tls, Tuning};
use sha2::{Digest, Sha256};

/// Reading the environment is a test's privilege.
fn config(name: &str) -> RestConfig {
    let Ok(url) = std::env::var("LIFEBOAT_REST_URL") else {
        panic!("LIFEBOAT_REST_URL is not set: see the top of tests/rest.rs");
    };
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    RestConfig {
        url: format!("{}/{name}-{moment}/", url.trim_end_matches('/')).parse().unwrap(),
        user: None,
        password: None,
        ca_pem: None,
        tls: Tls::default(),
    }
}

fn pack(content: &[u8]) -> String {
    let id = Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    format!("data/{}/{id}", &id[..2])
}

async fn keys(store: &Store, prefix: &str) -> Vec<String> {
    store.list(prefix).map_ok(|info| info.key).try_collect().await.unwrap()
}

#[tokio::test]
async fn a_repository_lives_on_a_genuine_server() {
    let config = config("life");
    let nowhere = config.clone().open(Tuning::default()).unwrap();
    assert!(nowhere.get("config").await.unwrap_err().is_not_found());
    let error = nowhere.list("snapshots/").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.category(), "bucket_not_found", "{error:?}");

    let store = config.create(Tuning::default()).await.unwrap();
    assert_eq!(keys(&store, "").await, Vec::<String>::new());
    store.create("config", "settings").await.unwrap();
    assert!(store.create("config", "others").await.unwrap_err().is_already_exists());
    assert_eq!(store.get("config").await.unwrap(), "settings");
    assert_eq!(store.get_range("config", 3..6).await.unwrap(), "tin");

    let bodies: Vec<Bytes> = (0..20_u8).map(|n| Bytes::from(vec![n; 1000 * usize::from(n) + 1])).collect();
    let before = jiff::Timestamp::now();
    stream::iter(&bodies)
        .map(|body| async { store.put(&pack(body), body.clone()).await })
        .buffer_unordered(8)
        .try_collect::<Vec<()>>()
        .await
        .unwrap();
    let mut expected: Vec<String> = bodies.iter().map(|body| pack(body)).collect();
    expected.sort();
    assert_eq!(keys(&store, "data/").await, expected);
    for info in store.list("data/").try_collect::<Vec<_>>().await.unwrap() {
        assert!(info.modified >= before, "{info:?}");
    }
    for body in &bodies {
        let key = pack(body);
        store.put(&key, body.clone()).await.unwrap();
        assert!(store.create(&key, body.clone()).await.unwrap_err().is_already_exists());
        assert_eq!(store.head(&key).await.unwrap().size, body.len() as u64);
        assert_eq!(store.get(&key).await.unwrap(), *body);
        assert_eq!(store.get_range(&key, 0..1).await.unwrap(), body.slice(0..1));
        let beyond = store.get_range(&key, 0..body.len() as u64 + 1).await.unwrap_err();
        assert!(matches!(beyond, Error::Range { .. }), "{beyond:?}");
    }
    let wrong = store.put(&pack(b"this"), "that").await.unwrap_err();
    assert_eq!(wrong.category(), "rejected", "{wrong:?}");
    assert!(store.get(&pack(b"this")).await.unwrap_err().is_not_found());

    store.delete_many(expected).await.unwrap();
    store.delete("config").await.unwrap();
    store.delete("config").await.unwrap();
    assert_eq!(keys(&store, "").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_large_pack_goes_up_and_comes_down() {
    let store = config("large").create(Tuning::default()).await.unwrap();
    let body: Vec<u8> =
        (0..128 << 20).map(|i: usize| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let (key, body) = (pack(&body), Bytes::from(body));
    store.put(&key, body.clone()).await.unwrap();
    assert!(store.get(&key).await.unwrap() == body);
    assert!(store.get_range(&key, 5..100_000_000).await.unwrap() == body.slice(5..100_000_000));
    store.delete(&key).await.unwrap();
}
