//! Hooks, modifiers, storage classes, status, node ports, dry runs, untrusted locations.

use lifeboat_e2e::{HostServer, Namespace, apply, delete_namespace, get, kubectl, unique, wait_for};

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: hooked
  annotations:
    init.hook.restore.velero.io/container-image: TEST_IMAGE
    init.hook.restore.velero.io/container-name: before-all
    init.hook.restore.velero.io/command: '[\"sh\", \"-c\", \"exit 0\"]'
    post.hook.restore.velero.io/container: main
    post.hook.restore.velero.io/command: '[\"sh\", \"-c\", \"echo exec >> /shared/log\"]'
    post.hook.restore.velero.io/wait-timeout: 90s
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, emptyDir: {}}]
";

#[test]
fn init_and_exec_hooks_run_in_a_restored_pod() {
    let server = HostServer::start("hooks", &[]);
    let app = Namespace::new("hooks-app");
    app.apply(POD);
    app.kubectl().args(["wait", "--for=condition=Ready", "pod/hooked", "--timeout=90s"]).ok();
    server.assert_phase(&server.backup("hooks", &["--include-namespaces", &app.name]), &["Completed"]);
    delete_namespace(&app.name);
    let made = server.restore("hooks", "hooks", &[]);
    server.assert_phase(&made, &["Completed"]);
    let pod = get(&["-n", &app.name, "pod", "hooked"]);
    assert_eq!(pod["spec"]["initContainers"][0]["name"], "before-all", "{pod}");
    let log = app.kubectl().args(["exec", "hooked", "--", "cat", "/shared/log"]).ok();
    assert_eq!(log, "exec\n");
    assert_eq!(made["status"]["hookStatus"]["hooksAttempted"], 1, "{}", made["status"]);
}

#[test]
fn a_job_that_was_at_work_is_begun_once() {
    let server = HostServer::start("job", &[]);
    let app = Namespace::new("job-app");
    app.apply(
        "
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
",
    );
    let ready = ["wait", "--for=condition=Ready", "pod", "-l", "job-name=migrate", "--timeout=90s"];
    wait_for("the pod of the job", 60, || {
        let waited = app.kubectl().args(ready).run();
        if waited.code == 0 { Ok(()) } else { Err(waited.stderr) }
    });
    server.assert_phase(&server.backup("job", &["--include-namespaces", &app.name]), &["Completed"]);
    delete_namespace(&app.name);
    server.assert_phase(&server.restore("job", "job", &[]), &["Completed"]);
    wait_for("the new pod of the job", 60, || {
        let waited = app.kubectl().args(ready).run();
        if waited.code == 0 { Ok(()) } else { Err(waited.stderr) }
    });
    let pods = get(&["-n", &app.name, "pods"]);
    assert_eq!(pods["items"].as_array().map(Vec::len), Some(1), "{pods}");
}

#[test]
fn modifiers_change_objects_and_claims_get_another_class() {
    let server = HostServer::start("modified", &[]);
    let app = Namespace::new("modified-app");
    app.apply(
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: front}}
data: {level: low, other: kept}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: box-csi, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
",
    );
    server.assert_phase(&server.backup("plain", &["--include-namespaces", &app.name]), &["Completed"]);
    delete_namespace(&app.name);
    let rules = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: configmaps, labelSelector: {matchLabels: {tier: front}}}\n  patches:\n  - {operation: replace, path: /data/level, value: high}\n";
    server
        .kubectl()
        .args(["create", "configmap", "rules", &format!("--from-literal=rules.yaml={rules}")])
        .ok();
    apply(&format!(
        "
apiVersion: v1
kind: ConfigMap
metadata:
  name: classes
  namespace: {}
  labels: {{velero.io/plugin-config: '', velero.io/change-storage-class: RestoreItemAction}}
data: {{box-csi: box-csi-node-local}}
",
        server.namespace
    ));
    let made = server.restore("changed", "plain", &["--resource-modifier-configmap", "rules"]);
    server.assert_phase(&made, &["Completed"]);
    let settings = get(&["-n", &app.name, "configmap", "settings"]);
    assert_eq!((&settings["data"]["level"], &settings["data"]["other"]), (&"high".into(), &"kept".into()));
    let claim = get(&["-n", &app.name, "pvc", "data"]);
    assert_eq!(claim["spec"]["storageClassName"], "box-csi-node-local");
}

#[test]
fn node_ports_and_status_come_back_only_when_asked_for() {
    let server = HostServer::start("kept", &[]);
    let app = Namespace::new("kept-app");
    let group = format!("{}.example.com", unique("status"));
    apply(&format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: things, singular: thing, kind: Thing}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    ));
    let definition = format!("crd/things.{group}");
    kubectl().args(["wait", "--for=condition=Established", "--timeout=30s", &definition]).ok();
    app.apply(&format!(
        "apiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: one}}\nspec: {{size: 1}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n\
         spec: {{type: NodePort, selector: {{app: web}}, ports: [{{port: 80, nodePort: 31999}}]}}\n"
    ));
    let things = format!("things.{group}");
    let state = [
        "patch",
        &things,
        "one",
        "--subresource=status",
        "--type=merge",
        "-p",
        "{\"status\":{\"phase\":\"Fine\"}}",
    ];
    app.kubectl().args(state).ok();
    server.assert_phase(&server.backup("all", &["--include-namespaces", &app.name]), &["Completed"]);
    for (name, flags, phase) in [
        ("bare", vec![], serde_json::Value::Null),
        ("whole", vec!["--preserve-nodeports", "--status-include-resources", things.as_str()], "Fine".into()),
    ] {
        delete_namespace(&app.name);
        server.assert_phase(&server.restore(name, "all", &flags), &["Completed"]);
        assert_eq!(get(&["-n", &app.name, &things, "one"])["status"]["phase"], phase, "{name}");
        let port = get(&["-n", &app.name, "service", "web"])["spec"]["ports"][0]["nodePort"].clone();
        assert!(name == "bare" || port == 31999, "{name}: {port}");
    }
    kubectl().args(["delete", &definition, "--wait=false"]).ok();
}

#[test]
fn a_dry_run_reports_the_plan_and_changes_nothing() {
    let server = HostServer::start("dry", &[]);
    let app = Namespace::new("dry-app");
    app.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: old}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n");
    server.assert_phase(&server.backup("two", &["--include-namespaces", &app.name]), &["Completed"]);
    app.kubectl().args(["delete", "configmap", "b"]).ok();
    app.kubectl().args(["patch", "configmap", "a", "--type=merge", "-p", "{\"data\":{\"v\":\"new\"}}"]).ok();
    let flags = ["--from-backup", "two", "--existing-resource-policy", "update", "--dry-run", "-o", "json"];
    let said = server.lifeboat().args(["restore", "create"]).args(flags).ok();
    let plan: serde_json::Value = serde_json::from_str(&said).unwrap();
    let action = |name: &str| {
        let item = format!("{}/{name}", app.name);
        let found = plan["items"].as_array().unwrap().iter().find(|one| one["item"] == item.as_str());
        found.unwrap_or_else(|| panic!("{item} is not in {said}"))["action"].clone()
    };
    assert_eq!((action("a"), action("b")), ("update".into(), "create".into()), "{said}");
    assert!(get(&["-n", &app.name, "configmap", "b"]).is_null(), "the dry run created something");
    let restores = get(&["-n", &server.namespace, "restores.velero.io"]);
    assert_eq!(restores["items"].as_array().map_or(0, Vec::len), 0, "the dry run made a Restore");
}

#[test]
fn an_untrusted_location_grants_no_rights() {
    let server = HostServer::start("untrusted", &[]);
    let app = Namespace::new("untrusted-app");
    app.apply(
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: harmless}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
",
    );
    server.assert_phase(&server.backup("mixed", &["--include-namespaces", &app.name]), &["Completed"]);
    delete_namespace(&app.name);
    server.kubectl().args(["annotate", "bsl", "default", "lifeboat.io/untrusted=true"]).ok();
    let made = server.restore("careful", "mixed", &[]);
    server.assert_phase(&made, &["Completed", "PartiallyFailed"]);
    assert!(!get(&["-n", &app.name, "configmap", "harmless"]).is_null());
    assert!(get(&["-n", &app.name, "role", "reader"]).is_null(), "rights came from an untrusted location");
    let said = server.lifeboat().args(["restore", "describe", "careful", "--details"]).ok();
    assert!(said.contains("reader"), "{said}");
    server.assert_phase(&server.restore("trusting", "mixed", &["--allow-privileged"]), &["Completed"]);
    assert!(!get(&["-n", &app.name, "role", "reader"]).is_null());
}
