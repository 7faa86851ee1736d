//! Ordered resources: hooks in the pods write the time of each step into one file, which shows the order.

use lifeboat_e2e::{Namespace, assert_restores, lifeboat, wait_for};
use rstest::rstest;

use super::{backup_and_compare, installed, unique};

/// A pod with a claim `c-POD`, whose hooks append to a log on the node that all pods of the test share.
fn pod(name: &str, log: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: c-{name}}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations:
    pre.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo $(date +%s%N) {name} pre >> /log/{log}\"]'
    post.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo $(date +%s%N) {name} post >> /log/{log}\"]'
spec:
  nodeSelector: {{kubernetes.io/hostname: NODE}}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{{name: log, mountPath: /log}}, {{name: data, mountPath: /data}}]
  volumes:
  - name: data
    persistentVolumeClaim: {{claimName: c-{name}}}
  - name: log
    hostPath: {{path: /tmp/lifeboat-order, type: DirectoryOrCreate}}
---
"
    )
}

/// The order must hold with several workers, which could overtake each other.
fn assert_workers() {
    let server = lifeboat_e2e::get(&["-n", "lifeboat", "deployment", "lifeboat"]);
    let arguments = server["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(arguments.contains("--item-block-worker-count=8"), "{arguments}");
}

fn node() -> String {
    let nodes = lifeboat_e2e::get(&["nodes"]);
    nodes["items"][0]["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Pods in two namespaces and one backup of both; returns `pod step` lines sorted by time.
fn steps(test: &str, ordered: &dyn Fn(&str, &str) -> String) -> Vec<String> {
    installed();
    let (one, two) = (Namespace::new(&format!("{test}-a")), Namespace::new(&format!("{test}-b")));
    let log = unique(test);
    let node = node();
    for (namespace, names) in [(&one, ["a1", "a2", "a3"]), (&two, ["b1", "b2", "b3"])] {
        let pods: String = names.iter().map(|name| pod(name, &log)).collect();
        namespace.apply(&pods.replace("NODE", &node));
        namespace.kubectl().args(["wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s"]).ok();
    }
    let name = unique(test);
    let order = ordered(&one.name, &two.name);
    assert_workers();
    backup_and_compare(&name, &[&one.name, &two.name], &["--ordered-resources", &order]);
    logged(&one, "a1", &log)
}

/// The `pod step` lines of the hooks, sorted by time.
fn logged(namespace: &Namespace, pod: &str, log: &str) -> Vec<String> {
    let said = wait_for("the log of the hooks", 10, || {
        let read = namespace.kubectl().args(["exec", pod, "--", "cat", &format!("/log/{log}")]).run();
        if read.code == 0 { Ok(read.stdout) } else { Err(read.stderr) }
    });
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    lines.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

/// The names in the lines of a backup's log that contain a text.
fn named(backup: &str, text: &str) -> Vec<String> {
    let log = lifeboat().args(["backup", "logs", backup]).ok();
    let lines = log.lines().filter(|line| line.contains(text));
    lines.map(|line| line.split(" name=").nth(1).unwrap().split(' ').next().unwrap().to_owned()).collect()
}

/// Ready pods in a namespace, on one node.
fn ready(namespace: &Namespace, pods: &str) {
    namespace.apply(&pods.replace("NODE", &node()));
    namespace.kubectl().args(["wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s"]).ok();
}

#[test]
fn csi_snapshots_are_taken_in_the_order_of_the_volumes() {
    installed();
    let (namespace, log) = (Namespace::new("order-volumes"), unique("order-volumes"));
    ready(&namespace, &["p1", "p2", "p3"].map(|name| pod(name, &log)).concat());
    let volume = |claim: &str| {
        let claim = lifeboat_e2e::get(&["-n", &namespace.name, "pvc", claim]);
        claim["spec"]["volumeName"].as_str().unwrap().to_owned()
    };
    let order = format!("persistentvolumes={},{},{}", volume("c-p3"), volume("c-p1"), volume("c-p2"));
    let name = unique("order-volumes");
    assert_workers();
    backup_and_compare(&name, &[&namespace.name], &["--ordered-resources", &order]);
    assert_eq!(named(&name, "Took CSI snapshot"), ["c-p3", "c-p1", "c-p2"]);
    let log = lifeboat().args(["backup", "logs", &name]).ok();
    assert!(!log.contains("orderedResources"), "nothing contradicts the order:\n{log}");
}

#[test]
fn a_claim_that_listed_and_unlisted_pods_share_is_snapshotted_while_all_are_quiet() {
    installed();
    let (namespace, log) = (Namespace::new("order-shared"), unique("order-shared"));
    let pods = ["p1", "p2", "p3"].map(|name| pod(name, &log)).concat();
    ready(&namespace, &pods.replace("claimName: c-p3", "claimName: c-p1"));
    let name = unique("order-shared");
    let order = format!("pods={0}/p1,{0}/p2", namespace.name);
    backup_and_compare(&name, &[&namespace.name], &["--ordered-resources", &order]);
    let mut steps = logged(&namespace, "p1", &log);
    assert_eq!(steps.split_off(4), ["p2 pre", "p2 post"]);
    assert_eq!(steps, ["p1 pre", "p3 pre", "p1 post", "p3 post"]);
    let described = lifeboat().args(["backup", "describe", &name, "--details"]).ok();
    for word in ["Quiesced", "p3", "p2"] {
        assert!(described.contains(word), "{word} is not in:\n{described}");
    }
    assert_eq!(named(&name, "Backing up ordered item"), ["p1", "p2"]);
}

/// Checks that each listed pod is finished before the next one starts, and all of them before any other pod starts.
fn assert_order(steps: &[String], listed: &[&str]) {
    let expected: Vec<String> =
        listed.iter().flat_map(|pod| [format!("{pod} pre"), format!("{pod} post")]).collect();
    assert_eq!(steps[..expected.len()], expected[..], "all steps: {steps:?}");
    assert_eq!(steps.len(), 12, "{steps:?}");
}

#[rstest]
#[case::singular("pod")]
#[case::plural("pods")]
#[case::short_name("po")]
#[case::kind("Pod")]
fn pods_are_finished_in_the_order_of_the_list(#[case] key: &str) {
    let test = format!("order-{}", key.to_lowercase());
    let order = |one: &str, two: &str| format!("{key}={two}/b2,{one}/a3,{two}/b1");
    assert_order(&steps(&test, &order), &["b2", "a3", "b1"]);
}

#[test]
fn globs_and_regular_expressions_name_pods() {
    let order = |one: &str, two: &str| format!("pods={two}/b?,~{one}/a[13]");
    assert_order(&steps("order-pattern", &order), &["b1", "b2", "b3", "a1", "a3"]);
}

#[rstest]
#[case::plural("persistentvolumeclaims")]
#[case::short_name("pvc")]
fn claims_alone_order_the_pods_that_mount_them(#[case] key: &str) {
    let order = |one: &str, two: &str| format!("{key}={two}/c-b3,{one}/c-a2,{two}/c-b1");
    assert_order(&steps(&format!("order-{key}"), &order), &["b3", "a2", "b1"]);
}

#[test]
fn an_explicit_order_of_pods_comes_before_that_of_claims() {
    let order = |one: &str, two: &str| format!("pods={one}/a3,{two}/b1;pvc={two}/c-b2,{one}/c-a1");
    assert_order(&steps("order-both", &order), &["a3", "b1", "b2", "a1"]);
}

#[test]
fn namespaces_and_claims_without_pods_are_taken_in_order() {
    installed();
    let (one, two) = (Namespace::new("order-ns-a"), Namespace::new("order-ns-b"));
    for namespace in [&one, &two] {
        let claim = |name: &str| {
            format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\n\
                 spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}\n"
            )
        };
        namespace.apply(&format!("{}---\n{}", claim("first"), claim("second")));
    }
    let name = unique("order-ns");
    let order = format!("namespaces={1},{0};pvc={1}/second,{0}/first", one.name, two.name);
    backup_and_compare(&name, &[&one.name, &two.name], &["--ordered-resources", &order]);
    let log = lifeboat().args(["backup", "logs", &name]).ok();
    let of = |kind: &str| -> Vec<String> {
        let field = format!("resource={kind}");
        let lines =
            log.lines().filter(|line| line.contains("Backing up ordered item") && line.contains(&field));
        lines.map(|line| line.split(" name=").nth(1).unwrap().split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(of("persistentvolumeclaims"), ["second", "first"], "{log}");
    assert_eq!(of("namespaces"), [two.name.clone(), one.name.clone()], "{log}");
}

#[test]
fn null_is_no_order() {
    installed();
    let namespace = Namespace::new("order-null");
    namespace.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\n");
    let name = unique("order-null");
    lifeboat_e2e::apply(&format!(
        "apiVersion: velero.io/v1\nkind: Backup\nmetadata: {{name: {name}, namespace: lifeboat}}\n\
         spec: {{includedNamespaces: [{}], orderedResources: null}}\n",
        namespace.name
    ));
    assert_restores(&lifeboat, "lifeboat", &super::ended("backup", &name), &[&namespace.name]);
}

#[test]
fn what_does_not_exist_is_a_warning() {
    installed();
    let namespace = Namespace::new("order-unknown");
    namespace.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\n");
    let name = unique("order-unknown");
    let order = format!("configmaps={0}/gone,{0}/there;widgets=x;secrets=", namespace.name);
    let made = backup_and_compare(&name, &[&namespace.name], &["--ordered-resources", &order]);
    assert!(made["status"]["warnings"].as_i64().unwrap() >= 3, "{}", made["status"]);
    let described = lifeboat().args(["backup", "describe", &name]).ok();
    for word in ["gone", "widgets", "secrets"] {
        assert!(described.contains(word), "{word} is not in:\n{described}");
    }
}

#[test]
fn malformed_text_is_refused_before_anything_is_made() {
    installed();
    let refused = lifeboat().args(["backup", "create", "malformed", "--ordered-resources", "pods=a;b"]).run();
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("ordered"), "{}", refused.stderr);
    assert_eq!(
        lifeboat_e2e::get(&["-n", "lifeboat", "backups.velero.io", "malformed"]),
        serde_json::Value::Null
    );
}
