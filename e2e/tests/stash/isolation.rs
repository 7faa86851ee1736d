//! A user of one namespace gets nothing of another's: by a Repository, an AppBinding, a hook, a hostPath or a link, the token of a mover, or
//! the server's own identity.

use std::fs;
use std::os::unix::fs::symlink;

use lifeboat_e2e::{Engine, Fault, RESTORE_SESSIONS, StashTest, User, condition, contents, s3, wait_for};
use serde_json::Value;

use super::databases::MARIADB;
use super::gateway::Token;
use super::workloads::{NodeDirectory, deployment, into, member, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";

/// Two namespaces of one server: `repo` with its keys in the first, none in the second.
fn vault_and_shop() -> (StashTest, StashTest) {
    let vault = StashTest::start();
    let shop = vault.beside();
    shop.delete(&["secret", "keys"]);
    vault.put_repository("repo");
    (vault, shop)
}

/// A BackupConfiguration `nightly` of Deployment `web`, on the Repository of the other namespace.
pub(crate) fn configuration_elsewhere(vault: &StashTest) -> String {
    format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: nightly}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: repo, namespace: {}}}
  backupHistoryLimit: 20
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  target: {}
",
        vault.tenant.name,
        deployment("app", "web")
    )
}

/// A RestoreSession `back` from there.
pub(crate) fn restore_elsewhere(vault: &StashTest) -> String {
    format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: back}}
spec:
  repository: {{name: repo, namespace: {}}}
  target: {}
",
        vault.tenant.name,
        into("app", "Deployment", "web")
    )
}

/// Lets the second namespace use the Repository of the first.
pub(crate) fn allow(vault: &StashTest, shop: &StashTest) {
    let selector = format!(r#"{{"matchLabels": {{"kubernetes.io/metadata.name": "{}"}}}}"#, shop.tenant.name);
    let policy = format!(
        r#"{{"spec": {{"usagePolicy": {{"allowedNamespaces": {{"from": "Selector", "selector": {selector}}}}}}}}}"#
    );
    vault.patch("repository.stash.appscode.com", "repo", &policy);
}

#[test]
fn a_repository_elsewhere_is_used_where_it_allows_that_and_its_keys_stay_there() {
    let (vault, shop) = vault_and_shop();
    let before = put_deployment(&shop, "web");
    shop.tenant.apply(&configuration_elsewhere(&vault));
    wait_for("the refusal", 60, || {
        let found = shop.invoker(CONFIGURATION, "nightly");
        let (status, message) = condition(&found, "RepositoryFound");
        let is_refused = status == "False" && message.contains("does not allow namespace");
        if is_refused && found["status"]["phase"] == "NotReady" {
            Ok(())
        } else {
            Err(found["status"].to_string())
        }
    });
    let skipped = shop.ended(&shop.begin(CONFIGURATION, "nightly"));
    assert_eq!(skipped["status"]["phase"], "Skipped", "{skipped}");
    allow(&vault, &shop);
    shop.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    // While a mover is at work, nothing in its namespace has the keys.
    vault.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let session = shop.begin(CONFIGURATION, "nightly");
    vault.storage.wait_until_reached(90);
    assert_without_identity(&shop.wait_for_movers(1)[0]);
    shop.assert_no_credentials();
    vault.storage.open();
    let session = shop.ended(&session);
    assert_eq!(session["status"]["phase"], "Succeeded", "{:#}", session["status"]);
    shop.assert_no_credentials();
    assert_eq!(vault.snapshots("repo"), ["app /source/data"]);
    vault.assert_stored("repo", "app", "/source/data", &before);

    fs::write(shop.directory("web", 0, "data").join("which"), "damaged").unwrap();
    vault.storage.close("GET", "/data/", Fault::Hold, 1000);
    shop.tenant.apply(&restore_elsewhere(&vault));
    vault.storage.wait_until_reached(120);
    shop.assert_no_credentials();
    vault.storage.open();
    shop.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    shop.wait_for_ready("web", 1);
    before.assert_same(&contents(&shop.directory("web", 0, "data")), "restored through the gateway");
    shop.assert_no_credentials();
    shop.assert_no_mover_is_left();
    vault.repository("repo").ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    vault.assert_nothing_is_left("repo");
}

/// A mover is nobody in the cluster: it has no token.
fn assert_without_identity(pod: &Value) {
    let spec = &pod["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false, "{spec:#}");
    assert_eq!(spec["serviceAccountName"], "default", "{spec:#}");
    let volumes = spec["volumes"].to_string();
    assert!(!volumes.contains("serviceAccountToken") && !volumes.contains("hostPath"), "{volumes}");
}

#[test]
fn a_restore_from_a_repository_that_does_not_allow_it_reads_nothing() {
    let (vault, shop) = vault_and_shop();
    let secret = put_deployment(&vault, "web");
    vault.put_configuration("nightly", &deployment("app", "web"), "");
    vault.run(CONFIGURATION, "nightly", "Succeeded");
    let own = put_deployment(&shop, "web");
    fs::write(shop.directory("web", 0, "data").join("which"), "of the shop").unwrap();
    shop.tenant.apply(&restore_elsewhere(&vault));
    wait_for("the refusal", 60, || {
        let found = shop.restore_now(RESTORE_SESSIONS, "back");
        let (status, message) = condition(&found, "RepositoryFound");
        let is_refused = status == "False" && message.contains("does not allow namespace");
        if is_refused { Ok(()) } else { Err(found["status"].to_string()) }
    });
    assert!(shop.movers().is_empty());
    let which = fs::read_to_string(shop.directory("web", 0, "data").join("which")).unwrap();
    assert_eq!(which, "of the shop");
    let said = shop.restore_now(RESTORE_SESSIONS, "back").to_string();
    for snapshot in vault.backups("repo") {
        let id = &snapshot["id"].as_str().unwrap()[..8];
        assert!(!said.contains(id), "the status tells what the repository has: {said}");
    }
    assert_eq!(secret.0.len(), own.0.len());
}

#[test]
fn an_app_binding_elsewhere_needs_the_right_to_use_it_and_its_secret_stays_there() {
    let bank = StashTest::start();
    let shop = bank.beside();
    bank.delete(&["secret", "keys"]);
    MARIADB.put_as(&bank, "db");
    MARIADB.fill_of(&bank, "db");
    // The mover runs beside the database, and the password of the repository goes there.
    let allows = "  usagePolicy: {allowedNamespaces: {from: All}}\n";
    shop.put_repository_with("repo", &shop.s3_backend("repo"), allows);
    let user = User::new();
    user.grant(&shop.tenant.name, "admin");
    let configuration = |hooks: &str| {
        format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: nightly}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: repo}}
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  task: {{name: mariadb-backup-10.11}}
  target: {{alias: db, ref: {{apiVersion: appcatalog.appscode.com/v1alpha1, kind: AppBinding, name: db, namespace: {}}}}}
{hooks}",
            bank.tenant.name
        )
    };
    let refused = user.may_not_create(&shop.tenant.name, &configuration(""));
    assert!(refused.contains("use appbindings") && refused.contains(&bank.tenant.name), "{refused}");
    user.grant_rules(&bank.tenant.name, &[["appcatalog.appscode.com", "appbindings", "use"]]);
    // A command would run in the database's pod.
    let with_hook = "  hooks: {preBackup: {exec: {command: [cat, /etc/shadow]}}}\n";
    wait_for("the right to use it", 20, || {
        let refused = user.may_not_create(&shop.tenant.name, &configuration(with_hook));
        if refused.contains("pods/exec") { Ok(()) } else { Err(refused) }
    });
    user.may_create(&shop.tenant.name, &configuration(""));
    let session = shop.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(session["status"]["targets"][0]["stats"][0]["hostname"], "db");
    assert_eq!(shop.snapshots("repo"), ["db /dumpfile.sql"]);
    let of_database = shop.decoded_secrets().iter().any(|(_, text)| text.contains("not-a-real-secret"));
    assert!(!of_database, "the database's Secret stays in its namespace");
    bank.assert_no_credentials();
    bank.assert_no_mover_is_left();
    shop.assert_nothing_is_left("repo");
}

#[test]
fn a_target_of_another_namespace_is_invalid() {
    let (vault, shop) = vault_and_shop();
    let namespace = format!("namespace: {}, kind: Deployment", vault.tenant.name);
    let elsewhere = deployment("app", "web").replace("kind: Deployment", &namespace);
    shop.put_configuration("nightly", &elsewhere, "");
    wait_for("the refusal", 60, || {
        let found = shop.invoker(CONFIGURATION, "nightly");
        let (status, message) = condition(&found, "ValidationPassed");
        let is_refused = status == "False" && message.contains("only an AppBinding may be elsewhere");
        if is_refused { Ok(()) } else { Err(found["status"].to_string()) }
    });
}

/// The movers' namespace may have pods with hostPath; a namespace of users may not, and gets none through the server.
#[test]
fn a_node_directory_is_read_only_where_the_namespace_may_mount_it() {
    let test = StashTest::start();
    let host = NodeDirectory::new();
    fs::write(host.path().join("of-the-node"), "a secret of the node").unwrap();
    test.tenant.apply(&format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{{name: data, mountPath: /source/data}}]}}
      volumes: [{{name: data, hostPath: {{path: {}, type: Directory}}}}]
",
        host.path().display()
    ));
    test.wait_for_ready("web", 1);
    test.put_repository("repo");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let read = ["dump", "latest", "/source/data/of-the-node", "--host", "app", "--no-lock"];
    assert_eq!(test.repository("repo").ok(Engine::Restic, &read), "a secret of the node");
    // The pod runs on; the namespace admits no further one like it.
    let level = r#"{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}"#;
    test.patch("namespace", &test.tenant.name, level);
    let session = test.run(CONFIGURATION, "nightly", "Failed");
    let error = session["status"]["targets"][0]["stats"][0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("hostPath") && error.contains("baseline"), "{error}");
    assert_eq!(test.snapshots("repo").len(), 1, "nothing more was read");
    // Nor as the place of a repository.
    let local = format!("local: {{hostPath: {{path: {}}}, mountPath: /safe}}", host.path().display());
    test.put_repository_with("node", &local, "");
    test.put_batch_on("node", "other", &[member(&deployment("app", "web"))], "");
    wait_for("the refusal", 120, || {
        let found = test.invoker("BackupBatch", "other");
        let said = found["status"].to_string();
        if found["status"]["phase"] == "NotReady" && said.contains("hostPath") { Ok(()) } else { Err(said) }
    });
    let files = fs::read_dir(host.path()).unwrap().count();
    assert_eq!(files, 1, "no repository was made on the node");
}

/// A link in a volume leads nowhere: neither out of the volume on the node, nor into the mover's own files.
#[test]
fn a_link_in_a_volume_leads_out_of_it_for_nobody() {
    let test = StashTest::start();
    let host = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(host.path().join("passwd"), "a secret of the node").unwrap();
    test.tenant.apply(
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{name: data, mountPath: /source/data}]}
      volumes: [{name: data, emptyDir: {}}]
",
    );
    test.wait_for_ready("web", 1);
    let directory = test.directory("web", 0, "data");
    symlink(host.path(), directory.join("to-the-node")).unwrap();
    symlink("/etc", directory.join("to-the-mover")).unwrap();
    symlink("../../../../../../../../../../../etc", directory.join("upwards")).unwrap();
    test.put_repository("repo");
    let mut members = Vec::new();
    for (number, link) in ["to-the-node", "to-the-mover", "upwards"].into_iter().enumerate() {
        let path = format!("paths: [/source/data/{link}/passwd]");
        members.push(deployment(&format!("path-{number}"), "web").replace("paths: [/source/data]", &path));
        let mount = format!("mountPath: /source/data, subPath: {link}}}");
        let of_mount =
            deployment(&format!("mount-{number}"), "web").replace("mountPath: /source/data}", &mount);
        members.push(of_mount);
    }
    let members: Vec<String> = members.iter().map(|target| member(target)).collect();
    test.put_batch("all", &members, "");
    let session = test.run("BackupBatch", "all", "Failed");
    for number in [0, 2, 4] {
        assert_eq!(session["status"]["targets"][number]["phase"], "Failed", "{session}");
    }
    for snapshot in test.backups("repo") {
        let id = snapshot["id"].as_str().unwrap();
        let files = test.repository("repo").ok(Engine::Restic, &["ls", id, "--no-lock"]);
        assert!(!files.contains("passwd"), "{files}");
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn the_token_of_a_mover_opens_nothing_but_its_own_repository_for_its_own_work() {
    let (vault, shop) = vault_and_shop();
    put_deployment(&shop, "web");
    // Another repository of the vault, which the shop may not use.
    put_deployment(&vault, "web");
    vault.put_repository("own");
    vault.put_batch_on("own", "all", &[member(&deployment("app", "web"))], "");
    vault.run("BackupBatch", "all", "Succeeded");
    allow(&vault, &shop);
    shop.tenant.apply(&configuration_elsewhere(&vault));
    shop.run(CONFIGURATION, "nightly", "Succeeded");
    // The Secret of the first session's mover goes a little after the session, and its token opens nothing any more.
    shop.assert_no_mover_is_left();
    vault.storage.close("PUT", "/data/", Fault::Hold, 1000);
    fs::write(shop.directory("web", 0, "data").join("which"), "changed").unwrap();
    let session = shop.begin(CONFIGURATION, "nightly");
    vault.storage.wait_until_reached(90);
    let token = Token::of(&shop);
    let snapshot = vault.backups("repo")[0]["id"].as_str().unwrap().to_owned();
    let other = token.repository().replace("/repo", "/own");
    assert_ne!(other, token.repository());
    assert_eq!(token.get(&format!("{}/config", token.repository())), 200, "its own repository");
    for (method, path, expected) in [
        ("GET", format!("{other}/config"), 403),
        ("GET", format!("{other}/keys/"), 403),
        ("GET", format!("{}/../own/config", token.repository()), 404),
        ("DELETE", format!("{}/snapshots/{snapshot}", token.repository()), 403),
        ("DELETE", format!("{}/config", token.repository()), 403),
        ("POST", format!("{}/?create=true", token.repository()), 403),
        ("POST", format!("{}/config", token.repository()), 403),
        ("POST", format!("{}/keys/{snapshot}", token.repository()), 403),
    ] {
        assert_eq!(token.send(method, &path), expected, "{method} {path}");
    }
    // A name that is not the hash of the content is refused.
    assert_eq!(token.send("POST", &format!("{}/data/{snapshot}", token.repository())), 400);
    assert_eq!(token.altered().get(&format!("{}/config", token.repository())), 401, "a forged token");
    assert_eq!(Token::none(&token).get(&format!("{}/config", token.repository())), 401, "no token");
    vault.storage.open();
    assert_eq!(shop.ended(&session)["status"]["phase"], "Succeeded");
    // The work is over, and with it the token.
    wait_for("the end of the token", 60, || match token.get(&format!("{}/config", token.repository())) {
        401 | 403 => Ok(()),
        status => Err(status.to_string()),
    });
    assert_eq!(vault.backups("repo").len(), 2);
    vault.assert_nothing_is_left("repo");
}

/// The server of these tests has the keys of the storage in its own environment; the Secret has none.
#[test]
fn a_repository_without_keys_is_not_opened_with_the_servers_own() {
    assert!(!s3().access_key.is_empty());
    let test = StashTest::start();
    put_deployment(&test, "web");
    test.put_repository("repo");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    // Another user of the cluster finds the place, and knows the password, but has no keys.
    let thief = test.beside();
    thief.delete(&["secret", "keys"]);
    thief.tenant.apply(
        "{apiVersion: v1, kind: Secret, metadata: {name: keys}, stringData: {RESTIC_PASSWORD: correct horse}}",
    );
    let there = test.s3_backend("repo");
    thief.put_repository_with("stolen", &there, "");
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    put_deployment(&thief, "web");
    fs::write(thief.directory("web", 0, "data").join("which"), "of the thief").unwrap();
    thief.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: back}}
spec:
  repository: {{name: stolen}}
  timeOut: 60s
{spec}
"
    ));
    thief.restored_as(RESTORE_SESSIONS, "back", "Failed");
    let which = fs::read_to_string(thief.directory("web", 0, "data").join("which")).unwrap();
    assert_eq!(which, "of the thief");
    let repository =
        lifeboat_e2e::get(&["-n", &thief.tenant.name, "repositories.stash.appscode.com", "stolen"]);
    assert_ne!(condition(&repository, "RepositoryReachable").0, "True", "{repository}");
    assert!(repository["status"]["snapshotCount"].is_null(), "{repository}");
    thief.assert_no_credentials();
    assert_eq!(test.backups("repo").len(), 1);
}
