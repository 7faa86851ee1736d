//! Hooks over HTTPS: the service has to prove who it is, by the annotations of the object with the hook. The API server plays the service:
//! it answers anybody about its health, and every namespace has its authority in ConfigMap `kube-root-ca.crt`.

use lifeboat_e2e::{RESTORE_SESSIONS, ServerCertificate, StashTest};
use rstest::rstest;
use serde_json::json;

use super::workloads::{deployment, into, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";
const CALL: &str = "httpGet: {scheme: HTTPS, host: kubernetes.default.svc, port: 443, path: /readyz}";
/// What a refusal says: the problem, and what to do about it.
const UNTRUSTED: &[&str] = &["certificate", "lifeboat.io/hook-ca", "lifeboat.io/hook-skip-verify"];
/// The authority of the API server.
const KNOWN: &str = "lifeboat.io/hook-ca: configmap/kube-root-ca.crt";

/// A BackupConfiguration with these annotations, whose hooks call the service.
fn put_configuration(test: &StashTest, name: &str, annotations: &str) {
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: repo}}
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  target: {}
  hooks: {{preBackup: {{{CALL}}}, postBackup: {{executionPolicy: OnSuccess, {CALL}}}}}
",
        deployment("app", "web")
    ));
}

/// A Deployment, a Repository, and an authority that has not signed the service's certificate.
fn shop() -> StashTest {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    let other = ServerCertificate::of("kubernetes.default.svc").authority;
    for kind in ["ConfigMap", "Secret"] {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "other"}, field: {"ca.crt": other}});
        test.tenant.apply(&object.to_string());
    }
    test
}

#[rstest]
#[case::names_its_authority(KNOWN)]
#[case::accepts_any_certificate("lifeboat.io/hook-skip-verify: 'true'")]
fn a_hook_over_https_is_called_where_the_annotation(#[case] annotation: &str) {
    let test = shop();
    put_configuration(&test, "nightly", annotation);
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    let host = &session["status"]["targets"][0]["stats"][0];
    assert_eq!((&host["preHook"], &host["postHook"]), (&"Succeeded".into(), &"Succeeded".into()), "{host}");
    assert_eq!(test.snapshots("repo"), ["app /source/data"]);
    let hooks =
        format!("  hooks: {{preRestore: {{{CALL}}}}}\n  target: {}", into("app", "Deployment", "web"));
    test.restore("back", &hooks, annotation);
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["stats"][0]["preHook"], "Succeeded", "{:#}", back["status"]);
    test.wait_for_ready("web", 1);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_hook_over_https_to_a_service_that_is_not_trusted_fails_its_host_and_says_what_to_annotate() {
    let test = shop();
    for (name, annotation, parts) in [
        ("none", "", UNTRUSTED),
        ("other-config-map", "lifeboat.io/hook-ca: configmap/other", UNTRUSTED),
        ("other-secret", "lifeboat.io/hook-ca: secret/other", UNTRUSTED),
        ("gone", "lifeboat.io/hook-ca: secret/gone", &["lifeboat.io/hook-ca", "Secret gone does not exist"]),
        ("keys", "lifeboat.io/hook-ca: secret/keys", &["Secret keys", "has no key ca.crt"]),
        ("word", "lifeboat.io/hook-ca: kube-root-ca.crt", &["expected configmap/NAME or secret/NAME"]),
    ] {
        put_configuration(&test, name, annotation);
        let session = test.run(CONFIGURATION, name, "Failed");
        let said = session["status"].to_string();
        assert!(parts.iter().all(|part| said.contains(part)), "{name}: {said}");
        let host = &session["status"]["targets"][0]["stats"][0];
        assert_eq!(
            (&host["preHook"], &host["postHook"]),
            (&"Failed".into(), &"Skipped".into()),
            "{name}: {host}"
        );
        test.delete(&["backupconfiguration", name]);
    }
    assert!(test.backups("repo").is_empty(), "a host whose hook failed is not backed up");
    // Nor is anything stopped.
    let pods = test.undisturbed();
    put_configuration(&test, "nightly", KNOWN);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let hooks =
        format!("  hooks: {{preRestore: {{{CALL}}}}}\n  target: {}", into("app", "Deployment", "web"));
    test.restore("refused", &hooks, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(UNTRUSTED.iter().all(|part| said.contains(part)), "{said}");
    pods.assert_unchanged();
    test.assert_nothing_is_left("repo");
}
