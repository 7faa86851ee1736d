//! Repositories on each backend that a test can have: the S3 server over HTTP (every other test) and TLS, restic's REST server, a claim.

use std::fs;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{
    Engine, RESTORE_SESSIONS, Repository, RestServer, StashTest, condition, contents, get, s3,
    volume_directory, wait_for,
};
use serde_json::json;

use super::workloads::{deployment, into, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";

/// A Deployment whose data is stored in Repository `repo`.
fn back_up(test: &StashTest) -> Listing {
    let before = put_deployment(test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    before
}

/// Damages the data, and brings it back from there.
fn bring_back(test: &StashTest, before: &Listing) {
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_no_mover_is_left();
}

fn assert_no_lock(repository: &Repository) {
    let locks = repository.ok(Engine::Restic, &["list", "locks", "--no-lock"]);
    assert_eq!(locks.trim(), "", "locks are left");
}

#[test]
fn data_on_a_rest_server_comes_back() {
    let test = StashTest::start();
    let directory = tempfile::tempdir().unwrap();
    let server = RestServer::for_pods(directory.path());
    let repository = test.put_rest_repository("repo", &server);
    let before = back_up(&test);
    assert_eq!(repository.hosts_and_paths(), ["app /source/data"]);
    repository.assert_holds("app", "/source/data", &before);
    bring_back(&test, &before);
    assert_no_lock(&repository);
}

#[test]
fn data_on_a_server_with_tls_comes_back_and_an_authority_that_is_not_known_is_named() {
    let test = StashTest::start();
    let s3 = s3();
    let backend = format!(
        "s3: {{endpoint: '{}', bucket: lifeboat, prefix: '{}/repo', region: {}}}",
        s3.tls_endpoint, test.tenant.name, s3.region
    );
    test.put_repository_with("repo", &backend, "");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    wait_for("the reason", 90, || {
        let found = test.invoker(CONFIGURATION, "nightly");
        let (_, message) = condition(&found, "RepositoryFound");
        let is_named =
            found["status"]["phase"] == "NotReady" && message.to_lowercase().contains("certificate");
        if is_named { Ok(()) } else { Err(found["status"].to_string()) }
    });
    let authority = fs::read_to_string(&s3.ca).unwrap();
    test.patch("secret", "keys", &json!({"stringData": {"CA_CERT_DATA": authority}}).to_string());
    let before = back_up(&test);
    test.assert_stored("repo", "app", "/source/data", &before);
    bring_back(&test, &before);
    test.assert_nothing_is_left("repo");
}

/// What only pods can open is opened by movers, for every step: they make the repository, look at it, forget and prune.
#[test]
fn data_on_a_claim_comes_back_and_its_retention_is_applied() {
    let test = StashTest::start();
    let before = put_deployment(&test, "web");
    put_vault(&test, test.pods("web")[0]["spec"]["nodeName"].as_str().unwrap());
    let backend = "local: {persistentVolumeClaim: {claimName: vault}, mountPath: /safe, subPath: restic}";
    test.put_repository_with("repo", backend, "");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let first = ids(&test);
    assert_eq!(first.len(), 1, "{first:?}");
    // Two more; the policy keeps two, so the first one goes.
    for _ in 0..2 {
        let session = test.run(CONFIGURATION, "nightly", "Succeeded");
        assert_eq!(condition(&session, "RetentionPolicyApplied").0, "True", "{session}");
    }
    let kept = ids(&test);
    assert!(kept.len() == 2 && !kept.contains(&first[0]), "{kept:?}");
    wait_for("the status of the Repository", 60, || {
        let found = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", "repo"]);
        if found["status"]["snapshotCount"] == 2 { Ok(()) } else { Err(found["status"].to_string()) }
    });
    in_the_vault(&test, |repository| repository.assert_holds("app", "/source/data", &before));
    bring_back(&test, &before);
    in_the_vault(&test, assert_no_lock);
}

/// The claim of the repository, on the node of the data: the box's volumes are on one node each.
fn put_vault(test: &StashTest, node: &str) {
    test.tenant.apply(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: vault}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
",
    );
    put_looker(test, &format!("nodeSelector: {{kubernetes.io/hostname: {node}}}"));
    test.delete(&["pod", "looker"]);
}

/// A pod that has the claim.
fn put_looker(test: &StashTest, more: &str) {
    test.tenant.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: looker}}
spec:
  {more}
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{{name: data, mountPath: /d}}]}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: vault}}}}]
"
    ));
    test.kubectl().args(["wait", "--for=condition=Ready", "pod/looker", "--timeout=90s"]).ok();
}

/// The ids of the backups in the repository on the claim.
fn ids(test: &StashTest) -> Vec<String> {
    let mut found = Vec::new();
    in_the_vault(test, |repository| {
        found = repository.list().iter().map(|one| one["id"].to_string()).collect();
    });
    found
}

/// Opens the repository on the claim with genuine restic, on this machine, while a pod has the claim.
fn in_the_vault(test: &StashTest, look: impl FnOnce(&Repository)) {
    put_looker(test, "");
    let pod = get(&["-n", &test.tenant.name, "pods", "looker"]);
    look(&Repository::local(&volume_directory(&pod, "data").join("restic")));
    test.delete(&["pod", "looker"]);
}
