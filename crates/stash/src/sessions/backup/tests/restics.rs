//! Sessions of Restics: a repository for each workload, in a directory of the Repository, with two volumes at one path.

use lifeboat_mover::task::TaskWork;
use lifeboat_plan::stash::repo_dirs::RepoDir;
use rstest::rstest;

use super::*;
use crate::repository_key::directory_key;
use crate::settings::StashSettings;
use crate::testing::PASSWORD;

const ALPHA: &str = "/apis/stash.appscode.com/v1alpha1/namespaces/shop";

/// A server that serves Restics, and Deployments `api` and `web` with the label of the selector.
async fn shop() -> Shop {
    let shop = Shop::with(StashSettings { restics: true, ..StashSettings::default() }).await;
    for name in ["web", "api"] {
        shop.put_deployment(name);
        label(&shop, name);
    }
    shop
}

fn label(shop: &Shop, deployment: &str) {
    let labels = json!({"metadata": {"labels": {"app": "demo"}}});
    shop.world.server.change(&format!("/apis/apps/v1/namespaces/shop/deployments/{deployment}"), &labels);
}

fn put_restic(shop: &Shop, name: &str, changes: &Value) {
    let directory = json!({"path": "/source/data", "retentionPolicyName": "keep"});
    let volume = json!({"name": "data", "mountPath": "/source/data", "directories": [directory]});
    let mut spec = json!({
        "targetType": "Volume", "backupType": "Scheduled", "schedule": "@every 1m", "backupAgent": "stash",
        "repository": {"name": "r"},
        "volumeSelector": {"selector": {"matchLabels": {"app": "demo"}}, "targetVolumes": [volume]},
        "retentionPolicies": [{"name": "keep", "keepLast": 1, "prune": true}],
    });
    lifeboat_cluster::testing::merge(&mut spec, changes);
    shop.world.server.put(
        &format!("{ALPHA}/restics/{name}"),
        json!({"apiVersion": "stash.appscode.com/v1alpha1", "kind": "Restic", "metadata": {"uid": format!("u-{name}")},
            "spec": spec, "status": {"phase": "Ready"}}),
    );
}

fn restic(shop: &Shop, name: &str) -> Value {
    shop.world.server.get(&format!("{ALPHA}/restics/{name}")).unwrap()
}

/// The directories on record, with the workload of each.
fn directories(shop: &Shop) -> Vec<(String, String)> {
    let status = shop.world.repository("r")["status"].clone();
    let entries = status["backupRepos"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> =
        entries.iter().map(|entry| (text(entry, "repoDir"), text(entry, "workloadName"))).collect();
    found.sort();
    found
}

/// The repository and the tags of each part that a mover stored.
fn sent(shop: &Shop) -> Vec<(String, Vec<String>)> {
    let requests = locked(&shop.movers.requests);
    let mut sent = Vec::new();
    for request in requests.iter() {
        for part in &request.task.parts {
            let TaskWork::Backup(work) = &part.work else { continue };
            assert_eq!(work.at.as_deref(), Some("/source/data"));
            sent.push((request.job.repository.clone(), work.tags.clone()));
        }
    }
    sent.sort();
    sent
}

async fn run(shop: &Shop, session: &str, restic: &str) -> Value {
    shop.put_session(session, "Restic", restic);
    shop.run(session).await
}

#[tokio::test]
async fn each_workload_of_the_selector_is_stored_in_a_directory_of_its_own() {
    let shop = shop().await;
    put_restic(&shop, "nightly", &json!({}));
    let session = run(&shop, "s", "nightly").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let dir = |name: &str| (format!("/volumes/deployment/{name}"), name.to_owned());
    assert_eq!(directories(&shop), [dir("api"), dir("web")]);
    let sent = sent(&shop);
    let keys: Vec<&str> = sent.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["stash/shop/r/volumes/deployment/api", "stash/shop/r/volumes/deployment/web"]);
    for tag in [
        "lifeboat-type=Volumes",
        "lifeboat-namespace=shop",
        "lifeboat-kind=Deployment",
        "lifeboat-name=api",
        "lifeboat-restic=nightly",
        "lifeboat-volume=data",
    ] {
        assert!(sent[0].1.iter().any(|own| own == tag), "{tag}: {:?}", sent[0].1);
    }
    for name in ["api", "web"] {
        let begin = format!("r/volumes/deployment/{name}/config");
        assert_eq!(shop.world.stores.keys("bkt", &begin).await.len(), 1, "{name} has a repository");
    }
    assert!(shop.world.stores.keys("bkt", "r/config").await.is_empty(), "the Repository itself has none");
    let stats = &host(&session, 0)["snapshots"][0];
    assert_eq!((&stats["path"], &stats["volume"]), (&json!("/source/data"), &json!("data")));
    let status = &restic(&shop, "nightly")["status"];
    assert_eq!((&status["successfulBackups"], &status["phase"]), (&json!(1), &json!("Ready")), "{status}");
    let entry = &shop.world.repository("r")["status"]["backupRepos"][0];
    assert_eq!((&entry["backupCount"], &entry["resticName"]), (&json!(1), &json!("nightly")), "{entry}");
    assert!(entry["lastBackupTime"].is_string() && entry["firstBackupTime"].is_string(), "{entry}");
}

#[tokio::test]
async fn two_volumes_at_one_path_are_two_snapshots() {
    let shop = shop().await;
    shop.world.server.remove("/apis/apps/v1/namespaces/shop/deployments/api");
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "web"}},
        {"name": "more", "persistentVolumeClaim": {"claimName": "api"}},
    ]);
    shop.world.server.change("/api/v1/namespaces/shop/pods/web-1", &json!({"spec": {"volumes": volumes}}));
    let volume = |name: &str| json!({"name": name, "mountPath": "/source/data"});
    let two = json!({"volumeSelector": {"targetVolumes": [volume("data"), volume("more")]}});
    put_restic(&shop, "nightly", &two);
    let session = run(&shop, "s", "nightly").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let snapshots = host(&session, 0)["snapshots"].as_array().unwrap();
    let mut stored: Vec<_> =
        snapshots.iter().map(|one| (one["path"].clone(), one["volume"].clone())).collect();
    stored.sort_by_key(|(_, volume)| volume.to_string());
    assert_eq!(stored, ["data", "more"].map(|volume| (json!("/source/data"), json!(volume))));
}

#[tokio::test]
async fn a_workload_without_the_volume_fails_and_the_others_go_on() {
    let shop = shop().await;
    put_restic(&shop, "nightly", &json!({}));
    let volumes = json!({"spec": {"volumes": [{"name": "logs", "emptyDir": {}}]}});
    shop.world.server.change("/api/v1/namespaces/shop/pods/api-1", &volumes);
    let session = run(&shop, "s", "nightly").await;
    assert_eq!(phase(&session), "Failed");
    let targets = session["status"]["targets"].as_array().unwrap();
    let phases: Vec<_> = targets.iter().map(|target| target["phase"].clone()).collect();
    assert_eq!(phases, ["Failed", "Succeeded"]);
    assert!(host(&session, 0)["error"].to_string().contains("expected one of logs"), "{session}");
    assert_eq!(restic(&shop, "nightly")["status"]["failedBackups"], 1);
    assert_eq!(directories(&shop).len(), 1, "only what can be stored gets a directory");
}

#[tokio::test]
async fn the_policy_of_a_directory_is_applied_to_its_volume_only() {
    let shop = shop().await;
    shop.world.server.remove("/apis/apps/v1/namespaces/shop/deployments/api");
    put_restic(&shop, "nightly", &json!({}));
    assert_eq!(phase(&run(&shop, "first", "nightly").await), "Succeeded");
    let directory = RepoDir::parse("repoDir", "/volumes/deployment/web").unwrap();
    let key = directory_key(SHOP, "r", &directory);
    let store = || shop.world.stores.bucket("bkt").below("r/volumes/deployment/web").unwrap();
    for tag in
        ["lifeboat-volume=data", "lifeboat-volume=data", "lifeboat-volume=more", "lifeboat-volume=more"]
    {
        World::snapshot_at(store(), "web", "/source/data", &[tag]).await;
    }
    let session = run(&shop, "second", "nightly").await;
    assert_eq!(condition(&session, "RetentionPolicyApplied").0, "True", "{session}");
    let left = crate::repository::snapshots(&shop.world.context, &key).await.unwrap();
    let of = |tag: &str| left.iter().filter(|snapshot| snapshot.has_tag(tag)).count();
    assert_eq!((of("lifeboat-volume=data"), of("lifeboat-volume=more")), (1, 2));
}

#[rstest]
#[case::while_it_exists(true, "Failed")]
#[case::after_it_was_deleted(false, "Succeeded")]
#[tokio::test]
async fn a_second_restic_gets_the_directories_of_the_first_only_after_that(
    #[case] exists: bool,
    #[case] expected: &str,
) {
    let shop = shop().await;
    put_restic(&shop, "nightly", &json!({}));
    assert_eq!(phase(&run(&shop, "s", "nightly").await), "Succeeded");
    if !exists {
        shop.world.server.remove(&format!("{ALPHA}/restics/nightly"));
    }
    put_restic(&shop, "weekly", &json!({}));
    let session = run(&shop, "t", "weekly").await;
    assert_eq!(phase(&session), expected, "{session}");
    let is_named = session.to_string().contains("is used by Restic shop/nightly");
    assert_eq!(is_named, exists, "{session}");
    let owner = shop.world.repository("r")["status"]["backupRepos"][0]["resticName"].clone();
    assert_eq!(owner, if exists { "nightly" } else { "weekly" });
}

/// The Repository was lost, and another one with the same backend has no record of the directories.
#[tokio::test]
async fn a_directory_that_is_not_on_record_belongs_to_the_workload_of_its_tags() {
    let shop = shop().await;
    let store =
        |name: &str| shop.world.stores.bucket("bkt").below(&format!("r/volumes/deployment/{name}")).unwrap();
    let tags = |namespace: &str| {
        ["type=Volumes", "kind=Deployment", "name=web", "restic=old", &format!("namespace={namespace}")]
            .map(|tag| format!("lifeboat-{tag}"))
    };
    World::make_in(store("web")).await;
    let of_bank = tags("bank");
    World::snapshot_in(store("web"), "web", &of_bank.each_ref().map(String::as_str)).await;
    put_restic(&shop, "nightly", &json!({}));
    let session = run(&shop, "s", "nightly").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let dir = |dir: &str, name: &str| (dir.to_owned(), name.to_owned());
    let expected = [
        dir("/volumes/deployment/api", "api"),
        dir("/volumes/deployment/web", "web"),
        dir("/volumes/shop/deployment/web", "web"),
    ];
    assert_eq!(directories(&shop), expected, "that of namespace bank is not overwritten");
}

#[tokio::test]
async fn a_session_keeps_the_workloads_with_which_it_began() {
    let shop = shop().await;
    put_restic(&shop, "nightly", &json!({}));
    shop.put_session("s", "Restic", "nightly");
    let dies = Arc::new(tokio::sync::Notify::new());
    let wake = dies.clone();
    shop.movers.meanwhile(move || wake.notify_one());
    tokio::select! {
        biased;
        () = dies.notified() => {}
        _ = shop.advance("s") => panic!("the server dies while a mover runs"),
    }
    shop.movers.meanwhile(|| {});
    let name = "aaa";
    shop.put_deployment(name);
    label(&shop, name);
    let session = shop.run("s").await;
    let targets = session["status"]["targets"].as_array().unwrap();
    let names: Vec<_> = targets.iter().map(|target| target["ref"]["name"].clone()).collect();
    assert_eq!(names, ["api", "web"]);
    assert_eq!(phase(&session), "Succeeded", "{session}");
}

#[tokio::test]
async fn a_repository_elsewhere_needs_no_usage_policy_and_one_that_refuses_wins() {
    for (policy, expected) in
        [(Value::Null, "Succeeded"), (json!({"allowedNamespaces": {"from": "Same"}}), "Skipped")]
    {
        let shop = shop().await;
        crate::gateway::serve_repositories(&shop.world.context);
        shop.world.put_secret("bank", PASSWORD);
        let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
        shop.world.put_repository_in("bank", "r", backend);
        shop.world
            .server
            .change(&crate::testing::path("bank", "r"), &json!({"spec": {"usagePolicy": policy}}));
        put_restic(&shop, "nightly", &json!({"repository": {"namespace": "bank"}}));
        let session = run(&shop, "s", "nightly").await;
        assert_eq!(phase(&session), expected, "{session}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_serve_restics_skips_their_sessions() {
    let shop = Shop::new().await;
    label(&shop, "web");
    put_restic(&shop, "nightly", &json!({}));
    let session = run(&shop, "s", "nightly").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
}
