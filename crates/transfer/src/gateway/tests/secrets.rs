//! The Secret that all replicas share.

use jiff::{SignedDuration, Timestamp};
use lifeboat_control::Clock;
use secrecy::ExposeSecret;

use super::super::secrets::ensure;
use super::*;

const PATH: &str = "/api/v1/namespaces/lifeboat/secrets/lifeboat-gateway";

async fn core_at(api: &ApiServer, days: i64) -> Core {
    let now = Timestamp::now() + SignedDuration::from_hours(24 * days);
    Core { clock: Clock::new(move || now), ..api.core().await }
}

#[tokio::test]
async fn it_is_made_once_and_stays_out_of_backups() {
    let api = ApiServer::default();
    let first = ensure(&api.core().await).await.unwrap();
    let made = api.get(PATH).unwrap();
    assert_eq!(made["metadata"]["labels"]["velero.io/exclude-from-backup"], "true");
    let second = ensure(&api.core().await).await.unwrap();
    assert_eq!(first.token.expose_secret(), second.token.expose_secret());
    assert_eq!((first.trusted, api.get(PATH).unwrap()), (second.trusted, made));
}

#[tokio::test]
async fn of_two_replicas_that_make_it_both_use_what_the_first_wrote() {
    let api = ApiServer::default();
    let raced = Arc::new(AtomicU8::new(0));
    let theirs = ensure(&ApiServer::default().core().await).await.unwrap();
    let other = ApiServer::default();
    let written = ensure(&other.core().await).await.unwrap();
    let content = other.get(PATH).unwrap();
    api.answer(move |server, asked| {
        if asked.method == "POST" && raced.fetch_add(1, Ordering::Relaxed) == 0 {
            server.put(PATH, content.clone());
        }
        None
    });
    let ours = ensure(&api.core().await).await.unwrap();
    assert_eq!(ours.token.expose_secret(), written.token.expose_secret());
    assert_ne!(ours.token.expose_secret(), theirs.token.expose_secret());
}

#[tokio::test]
async fn movers_trust_the_next_authority_before_it_is_used() {
    let api = ApiServer::default();
    let first = ensure(&core_at(&api, 0).await).await.unwrap();
    let count = |secrets: &GatewaySecrets| secrets.trusted.matches("BEGIN CERTIFICATE").count();
    assert_eq!(count(&first), 1);
    let prepared = ensure(&core_at(&api, 700).await).await.unwrap();
    assert_eq!(prepared.authority.certificate, first.authority.certificate);
    assert_eq!(count(&prepared), 2);
    let changed = ensure(&core_at(&api, 720).await).await.unwrap();
    assert_ne!(changed.authority.certificate, first.authority.certificate);
    assert!(prepared.trusted.contains(&changed.authority.certificate));
    assert_eq!(count(&changed), 1);
    assert_eq!(changed.token.expose_secret(), first.token.expose_secret(), "tokens stay valid");
    assert!(api.get(PATH).unwrap()["data"].get("next-ca.crt").is_none());
}

#[tokio::test]
async fn a_damaged_secret_is_repaired() {
    let api = ApiServer::default();
    let first = ensure(&api.core().await).await.unwrap();
    api.change(PATH, &serde_json::json!({"data": {"ca.key": "bm9uZQ==", "token.key": "c2hvcnQ="}}));
    let repaired = ensure(&api.core().await).await.unwrap();
    assert_ne!(repaired.token.expose_secret(), first.token.expose_secret());
    assert_ne!(repaired.authority.certificate, first.authority.certificate);
    let read = ensure(&api.core().await).await.unwrap();
    assert_eq!(read.authority.certificate, repaired.authority.certificate);
}
