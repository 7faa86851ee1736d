//! The client of crate `store` against the gateway, over TLS on loopback.

use std::time::Duration;

use lifeboat_store::{Error, RestConfig, RetryPolicy, Store, Tls, Tuning};
use secrecy::SecretString;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::gateway::{Authority, GatewaySocket, serve_gateway, server_config};

struct Served {
    world: World,
    authority: Authority,
    port: u16,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn later(days: i64) -> Timestamp {
    Timestamp::now() + jiff::SignedDuration::from_hours(24 * days)
}

impl Served {
    async fn new() -> Self {
        let world = World::new();
        let authority = Authority::new(Timestamp::now(), later(30)).unwrap();
        let names = ["localhost".to_owned()];
        let config = server_config(&authority, &names, Timestamp::now(), later(2)).unwrap();
        let socket = GatewaySocket::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let port = socket.address().unwrap().port();
        let (_sender, tls) = watch::channel(config);
        let stop = CancellationToken::new();
        tokio::spawn(serve_gateway(socket, Arc::clone(&world.gateway), tls, stop.clone()));
        Self { world, authority, port, stop }
    }

    /// The repository, as a mover with this token opens it, which trusts this authority.
    fn store_trusting(&self, token: &str, authority: &Authority) -> Store {
        let config = RestConfig {
            url: format!("https://localhost:{}/{REPOSITORY}", self.port).parse().unwrap(),
            user: Some("lifeboat".into()),
            password: Some(SecretString::from(format!("{TOKEN}{token}"))),
            ca_pem: Some(authority.certificate.clone().into_bytes()),
            tls: Tls::default(),
        };
        let retry = RetryPolicy { attempts: 1, ..RetryPolicy::probe(Duration::from_secs(20)) };
        config.open_pinned(Tuning { retry, ..Tuning::default() }).unwrap()
    }

    fn store(&self, token: &str) -> Store {
        self.store_trusting(token, &self.authority)
    }
}

fn pack(content: &[u8]) -> String {
    let id = id(content);
    format!("data/{}/{id}", &id[..2])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_movers_lists_reads_adds_and_unlocks() {
    let served = Served::new().await;
    let store = served.store("backup");
    assert_eq!(store.get("config").await.unwrap(), b"sealed config"[..]);
    let content: Vec<u8> = (0..20_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    store.put(&pack(&content), content.clone()).await.unwrap();
    let kept = served.world.repositories.get(&format!("{REPOSITORY}/data/{}", id(&content))).unwrap();
    assert!(kept == content, "storage got what was sent");
    assert_eq!(store.get_range(&pack(&content), 5..9).await.unwrap(), content[5..9]);
    assert!(store.get(&pack(&content)).await.unwrap() == content);
    let listed: Vec<_> =
        store.list_directory(&format!("data/{}/", &id(&content)[..2])).await.unwrap().objects;
    assert_eq!(listed.iter().map(|info| info.size).collect::<Vec<_>>(), [20_000_000]);
    let held = lock("user-b", "shared");
    let key = format!("locks/{}", id(&held));
    store.put(&key, held).await.unwrap();
    store.delete(&key).await.unwrap();
    assert!(!store.exists(&key).await.unwrap());
    store.delete(&key).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_a_file_again_after_a_lost_response_succeeds_and_other_content_is_refused() {
    let served = Served::new().await;
    let store = served.store("backup");
    store.put(&pack(b"content"), &b"content"[..]).await.unwrap();
    store.put(&pack(b"content"), &b"content"[..]).await.unwrap();
    let error = store.create(&pack(b"content"), &b"content"[..]).await.unwrap_err();
    assert!(error.is_already_exists(), "{error:?}");
    let error = store.put(&pack(b"other"), &b"content"[..]).await.unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_refuses_is_an_error_that_people_can_read() {
    let served = Served::new().await;
    let error = served.store("restore").put(&pack(b"x"), &b"x"[..]).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }) && error.to_string().contains("restore"), "{error}");
    let snapshot = served.world.repositories.add("snapshots", b"a snapshot");
    let key = snapshot.strip_prefix(REPOSITORY).unwrap().trim_start_matches('/');
    let error = served.store("backup").delete(key).await.unwrap_err();
    assert!(error.to_string().contains("only the server deletes"), "{error}");
    let error = served.store("expired").get("config").await.unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");
    assert!(served.world.repositories.get(&snapshot).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mover_trusts_the_authority_of_the_gateway_only() {
    let served = Served::new().await;
    let another = Authority::new(Timestamp::now(), later(30)).unwrap();
    let error = served.store_trusting("backup", &another).get("config").await.unwrap_err();
    assert_eq!(error.category(), "certificate_untrusted", "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_takes_no_new_connections() {
    let served = Served::new().await;
    served.store("backup").get("config").await.unwrap();
    served.stop.cancel();
    assert!(served.store("backup").get("config").await.is_err());
}
