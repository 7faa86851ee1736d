//! The Helm chart: it renders what `lifeboat install` applies and what `lifeboat crds` prints, and the API server
//! accepts it. Both are generated from one source; these tests check the results.
#![allow(clippy::unwrap_used)] // tests end by panicking

use std::collections::BTreeMap;
use std::path::Path;

use lifeboat_e2e::{Namespace, Program, kubectl, variable};
use serde_json::Value;

/// helm, with the chart of this checkout. Without a cluster helm assumes an old version, and the chart requires 1.30.
fn helm(command: &[&str], arguments: &[&str]) -> Program {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/lifeboat");
    Program::new(&variable("HELM_BIN")).args(command).arg(&chart.to_string_lossy()).args(arguments)
}

fn template(namespace: &str, values: &[&str]) -> String {
    helm(&["template", "lifeboat"], &["--namespace", namespace, "--kube-version", "1.34.0"]).args(values).ok()
}

/// Our program with its own defaults: `cargo xtask test` sets image and namespace in the environment.
fn lifeboat(arguments: &[&str]) -> String {
    Program::new("env")
        .args(["-u", "LIFEBOAT_IMAGE", "-u", "LIFEBOAT_NAMESPACE", &variable("LIFEBOAT_BIN")])
        .args(arguments)
        .ok()
}

/// The objects of `lifeboat install`, except those that Helm handles in its own way: the server's Namespace
/// (`--create-namespace`) and custom resource definitions (directory `crds`).
fn install(arguments: &[&str]) -> BTreeMap<String, Value> {
    let text = lifeboat(&[&["install", "--dry-run", "--output", "json"], arguments].concat());
    let mut objects = by_name(items(&text));
    objects.retain(|name, _| {
        let of_server = name.starts_with("Namespace/") && !name.ends_with("-movers");
        !of_server && !name.starts_with("CustomResourceDefinition/")
    });
    objects
}

fn items(list: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(list).unwrap();
    list["items"].as_array().cloned().unwrap()
}

fn documents(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// Objects by kind, namespace and name; duplicates are an error.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut named = BTreeMap::new();
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}/{}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        let before = named.insert(name.clone(), object);
        assert_eq!(before, None, "{name} is there twice");
    }
    named
}

/// Compares object by object, so that a failure shows the one that differs.
fn assert_same(chart: Vec<Value>, wanted: &BTreeMap<String, Value>) {
    let chart = by_name(chart);
    assert!(!wanted.is_empty());
    assert_eq!(chart.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, object) in wanted {
        assert_eq!(
            &chart[name], object,
            "{name}: left is the chart's, right is what `lifeboat install` applies"
        );
    }
}

#[test]
fn the_chart_passes_helms_own_lint() {
    let said = helm(&["lint"], &["--strict", "--kube-version", "1.34.0"]).ok();
    assert!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{said}");
}

#[test]
fn default_values_render_what_install_applies() {
    assert_same(documents(&template("lifeboat", &[])), &install(&[]));
}

#[test]
fn values_render_what_the_same_flags_of_install_apply() {
    let chart = template(
        "rescue",
        &[
            "--set=rbac.namespaces={shop,blog}",
            "--set=replicas=1",
            "--set=image=example.com/lifeboat:1",
            "--set=serverArgs={--log-format=json,--store-validation-frequency=10s}",
            r"--set-string=serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/backup",
            "--set-string=serviceAccount.annotations.number=1",
            "--set-string=podLabels.team=rescue",
            "--set-string=podAnnotations.number=1",
            "--set=env[0].name=HTTPS_PROXY,env[0].value=http://proxy:3128",
            "--set=plugins={docker.io/velero/velero-plugin-for-aws:v1.14.3,registry:5000/my_team/my.plugin@sha256:0123}",
            "--set-string=resources.limits.memory=2Gi,resources.requests.cpu=1",
        ],
    );
    let wanted = install(&[
        "--namespace=rescue",
        "--namespaces=shop,blog",
        "--replicas=1",
        "--image=example.com/lifeboat:1",
        "--server-arg=--log-format=json",
        "--server-arg=--store-validation-frequency=10s",
        "--sa-annotations=eks.amazonaws.com/role-arn=arn:aws:iam::1:role/backup,number=1",
        "--pod-labels=team=rescue",
        "--pod-annotations=number=1",
        "--env=HTTPS_PROXY=http://proxy:3128",
        "--pod-mem-limit=2Gi",
        "--plugins=docker.io/velero/velero-plugin-for-aws:v1.14.3,registry:5000/my_team/my.plugin@sha256:0123",
        "--pod-cpu-request=1",
    ]);
    assert_same(documents(&chart), &wanted);
}

#[test]
fn stashs_api_renders_what_install_applies_in_both_profiles() {
    for (values, flags) in [
        (&["--set=stash.enabled=true"][..], &["--stash"][..]),
        (&["--set=stash.enabled=false"], &["--stash=false"]),
        (
            &["--set=stash.enabled=true", "--set=stash.tenantNamespaces={shop,404}"],
            &["--stash", "--tenant-namespaces=shop,404"],
        ),
        (
            &["--set=stash.enabled=true", "--set=rbac.namespaces={shop,blog}"],
            &["--stash", "--namespaces=shop,blog"],
        ),
        (
            &[
                "--set=stash.enabled=true",
                "--set=rbac.namespaces={shop}",
                "--set=stash.tenantNamespaces={bank}",
            ],
            &["--stash", "--namespaces=shop", "--tenant-namespaces=bank"],
        ),
    ] {
        let chart = template("rescue", values);
        assert_same(documents(&chart), &install(&[&["--namespace=rescue"], flags].concat()));
    }
}

#[test]
fn annotations_and_labels_that_we_set_ourselves_are_settled_as_install_does() {
    let chart = template(
        "lifeboat",
        &[
            r"--set-string=podAnnotations.prometheus\.io/scrape=false",
            "--set-string=podLabels.component=other",
        ],
    );
    let wanted = install(&["--pod-annotations=prometheus.io/scrape=false", "--pod-labels=component=other"]);
    assert_same(documents(&chart), &wanted);
}

#[test]
fn namespaces_whose_names_look_like_numbers_stay_names() {
    let chart = template("2024", &["--set-string=rbac.namespaces={404}"]);
    assert_same(documents(&chart), &install(&["--namespace=2024", "--namespaces=404"]));
}

#[test]
fn the_charts_custom_resource_definitions_are_those_of_the_command() {
    let wanted = by_name(items(&lifeboat(&["crds", "--output", "json"])));
    assert_same(documents(&helm(&["show", "crds"], &[]).ok()), &wanted);
    let everything = documents(&template("lifeboat", &["--include-crds"]));
    let crds = everything.into_iter().filter(|object| object["kind"] == "CustomResourceDefinition");
    assert_same(crds.collect(), &wanted);
}

#[test]
fn the_api_server_accepts_both_profiles() {
    let (own, shop) = (Namespace::new("chart"), Namespace::new("chart-shop"));
    // A dry run creates no namespace, but the objects in it need one.
    let movers = format!("{}-movers", own.name);
    kubectl().args(["create", "namespace", &movers]).ok();
    let limited = format!("--set=rbac.namespaces={{{}}}", shop.name);
    for values in [&[][..], &[limited.as_str()][..]] {
        let objects = template(&own.name, values);
        let said = kubectl()
            .args([
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                "-",
            ])
            .input(&objects)
            .ok();
        assert_eq!(said.lines().count(), documents(&objects).len(), "{said}");
    }
    kubectl().args(["delete", "namespace", &movers, "--wait=false"]).ok();
}
