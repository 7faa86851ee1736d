use lifeboat_api::common::{NamespaceName, TaskId};
use lifeboat_mover::task::Transport;
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner};
use lifeboat_transfer::MoverSettings;
use lifeboat_transfer::repositories::{Key, RepositoryProblem};
use rstest::rstest;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::*;
use crate::testing::{PASSWORD, SHOP, World};

/// A Repository of namespace `bank` with this usagePolicy.
async fn bank(policy: &Value) -> (World, RepositoryKey) {
    let world = World::new().await;
    world.put_secret("bank", PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    let key = world.put_repository_in("bank", "r", backend);
    let path = "/apis/stash.appscode.com/v1alpha1/namespaces/bank/repositories/r";
    world.server.change(path, &json!({"spec": {"usagePolicy": policy}}));
    world.server.change("/api/v1/namespaces/shop", &json!({"metadata": {"labels": {"team": "a"}}}));
    (world, key)
}

/// What the mover of a backup in namespace `shop` gets.
async fn keys(world: &World, key: &RepositoryKey) -> Result<Key, RepositoryProblem> {
    let job = MoverJob {
        task: TaskId::new("u.0.ab-1"),
        owner: Owner {
            kind: "BackupSession".into(),
            namespace: NamespaceName::new(SHOP),
            name: "s".into(),
            uid: "u".into(),
        },
        place: MoverPlace::Anywhere,
        repository: key.to_string(),
        group: "g".into(),
        deadline_seconds: 60,
        namespace: NamespaceName::new(SHOP),
        pod: MoverSettings::default().pod("lifeboat"),
    };
    world.context.gateway.pass(Rights::Backup).keys(key, &job, world.context.now()).read().await
}

#[rstest]
#[case::all(json!({"allowedNamespaces": {"from": "All"}}), true)]
#[case::label(json!({"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}}), true)]
#[case::other_label(json!({"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}}), false)]
#[case::same(json!({"allowedNamespaces": {"from": "Same"}}), false)]
#[case::none(json!(null), false)]
#[tokio::test]
async fn a_mover_elsewhere_gets_a_pass_if_the_policy_allows_its_namespace(
    #[case] policy: Value,
    #[case] expected: bool,
) {
    let (world, key) = bank(&policy).await;
    match pass(&world.context, &key, SHOP, Rights::Backup).await {
        Ok(pass) => assert!(expected && pass.is_some(), "{policy}"),
        Err(NoPass::NotAllowed(message)) => {
            assert!(!expected && message.contains("Repository bank/r") && message.contains("usagePolicy"));
        }
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn keys_go_into_the_namespace_of_the_repository_and_of_lifeboats_movers_only() {
    let (world, key) = bank(&json!(null)).await;
    for namespace in ["bank", "lifeboat-movers"] {
        let pass = pass(&world.context, &key, namespace, Rights::Backup).await;
        assert!(pass.is_ok_and(|pass| pass.is_none()), "{namespace}");
    }
}

#[tokio::test]
async fn a_repository_that_is_gone_is_named() {
    let world = World::new().await;
    let gone = crate::repository::key_of("bank", "gone");
    let problem = pass(&world.context, &gone, SHOP, Rights::Restore).await.err().unwrap();
    assert_eq!(
        problem.to_string(),
        "Repository bank/gone does not exist; create it, or correct spec.repository"
    );
}

/// What a mover gets: see also the tests of the gateway itself, in crate `transfer`.
#[tokio::test]
async fn a_mover_elsewhere_gets_the_password_and_no_key_of_the_storage() {
    let (world, key) = bank(&json!({"allowedNamespaces": {"from": "All"}})).await;
    serve_repositories(&world.context);
    let got = keys(&world, &key).await.unwrap();
    let Transport::Gateway { url, .. } = got.repository.unwrap().transport else { panic!() };
    assert_eq!(url, "https://lifeboat-gateway.lifeboat.svc:8087/stash/bank/r/");
    let all: Vec<String> = got
        .files
        .values()
        .map(|content| String::from_utf8_lossy(content.expose_secret()).into_owned())
        .collect();
    assert!(all.iter().any(|content| content == PASSWORD));
    assert!(!all.iter().any(|content| content.contains("aws_")), "no file has keys of the storage");
}

#[tokio::test]
async fn a_repository_on_a_volume_cannot_be_shared() {
    let (world, _) = bank(&json!(null)).await;
    let local = json!({"local": {"mountPath": "/safe", "persistentVolumeClaim": {"claimName": "c"}}});
    let key = world.put_repository_in("bank", "local", local);
    serve_repositories(&world.context);
    let problem = keys(&world, &key).await.err().unwrap();
    assert!(matches!(problem, RepositoryProblem::MoversOnly(_)), "{problem}");
}
