//! The wait for additional items: an item is created when its plugin reports them ready, or when the timeout expires;
//! all other items continue meanwhile.

use std::fs;

use lifeboat_e2e::{HostServer, Namespace, apply, delete_namespace, get, kubectl, recorded_item, wait_for};
use serde_json::json;

use super::{recorder, unrelated};

fn exists(namespace: &str, name: &str) -> bool {
    !get(&["-n", namespace, "configmap", name]).is_null()
}

/// Backs up, deletes the namespace and starts to restore it.
fn begin(server: &HostServer, app: &Namespace, name: &str) {
    server.assert_phase(&server.backup(name, &["--include-namespaces", &app.name]), &["Completed"]);
    delete_namespace(&app.name);
    server.lifeboat().args(["restore", "create", name, "--from-backup", name]).ok();
}

fn wait_until_asked(server: &HostServer, times: usize) {
    wait_for("questions whether items are ready", 60, || {
        let asked = server.recorded("restore-v2", "AreAdditionalItemsReady").len();
        if asked >= times { Ok(()) } else { Err(format!("{asked} times")) }
    });
}

#[test]
fn an_item_waits_for_its_additional_item_while_a_hundred_others_are_restored() {
    let mut server = recorder("waits", &[]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "waiting", "gate-one", &[("wait", "yes")]);
    unrelated(&app, 100);
    begin(&server, &app, "gated");
    wait_until_asked(&server, 1);
    wait_for("a hundred other objects", 60, || {
        let maps = get(&["-n", &app.name, "configmaps"]);
        let maps = maps["items"].as_array().unwrap().iter();
        let count = maps.filter(|map| map["metadata"]["name"].as_str().unwrap().starts_with("map-")).count();
        if count == 100 { Ok(()) } else { Err(format!("{count}")) }
    });
    assert!(!get(&["-n", &app.name, "secret", "gate-one"]).is_null(), "the additional item comes first");
    assert!(!exists(&app.name, "waiting"), "it was not reported ready yet");
    let asked = server.recorded("restore-v2", "AreAdditionalItemsReady");
    assert_eq!(asked[0]["items"], json!([format!("secrets {}/gate-one", app.name)]));
    // `describe` shows what the restore waits for.
    let described = wait_for("the wait in describe", 30, || {
        let text = server.described("restore", "gated");
        if text.contains("configmaps") && text.contains("example.io/restore-v2") {
            Ok(text)
        } else {
            Err(text)
        }
    });
    assert!(described.contains("gate-one"), "{described}");

    // A server that is killed meanwhile asks the plugin again.
    let before = asked.len();
    server.kill_and_restart();
    wait_until_asked(&server, before + 1);
    assert!(!exists(&app.name, "waiting"));
    fs::write(server.beside_recorded("gate-one"), "").unwrap();
    server.assert_phase(&server.ended("restore", "gated"), &["Completed"]);
    assert!(exists(&app.name, "waiting"));
}

#[test]
fn the_time_is_the_servers_unless_the_plugin_gives_its_own() {
    let server = recorder("waits-time", &["--additional-items-ready-timeout", "4s"]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "globally", "never-one", &[("wait", "yes")]);
    recorded_item(&app, "overridden", "never-two", &[("wait", "yes"), ("wait-timeout", "1s")]);
    recorded_item(&app, "refused", "error-one", &[("wait", "yes")]);
    recorded_item(&app, "unasked", "never-three", &[]);
    begin(&server, &app, "late");
    let restore = server.ended("restore", "late");
    server.assert_phase(&restore, &["PartiallyFailed"]);
    assert_eq!(restore["status"]["errors"], 3, "{}", restore["status"]);
    for name in ["globally", "overridden", "refused", "unasked"] {
        assert!(exists(&app.name, name), "{name} is attempted all the same");
    }
    let described = server.described("restore", "late");
    for text in ["globally", "overridden", "refused", "told to fail for error-one"] {
        assert!(described.contains(text), "{text:?} is missing in:\n{described}");
    }
    let asked = server.recorded("restore-v2", "AreAdditionalItemsReady");
    let about = |secret: &str| {
        asked
            .iter()
            .filter(|call| call["items"][0].as_str().is_some_and(|item| item.ends_with(secret)))
            .count()
    };
    assert_eq!(about("never-three"), 0, "no wait was requested");
    assert_eq!(about("error-one"), 1);
    assert!(about("never-one") > about("never-two"), "{asked:?}");
}

#[test]
fn items_that_failed_are_left_out_of_the_question() {
    let server = recorder("waits-failed", &[]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "waiting", "password", &[("wait", "yes")]);
    server.assert_phase(&server.backup("failed", &["--include-namespaces", &app.name]), &["Completed"]);
    delete_namespace(&app.name);
    kubectl().args(["create", "namespace", &app.name]).ok();
    apply(&format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: no-secrets, namespace: {}}}\nspec: {{hard: {{secrets: '0'}}}}\n",
        app.name
    ));
    wait_for("the quota", 60, || {
        let quota = get(&["-n", &app.name, "resourcequota", "no-secrets"]);
        if quota["status"]["hard"]["secrets"] == "0" { Ok(()) } else { Err(quota.to_string()) }
    });
    let restore = server.restore("failed", "failed", &[]);
    server.assert_phase(&restore, &["PartiallyFailed"]);
    assert!(exists(&app.name, "waiting"));
    let asked = server.recorded("restore-v2", "AreAdditionalItemsReady");
    assert!(!asked.is_empty(), "the wait was requested, so the plugin is asked");
    assert!(asked.iter().all(|call| call["items"].as_array().is_none_or(Vec::is_empty)), "{asked:?}");
}

#[test]
fn a_cancelled_restore_waits_no_longer_and_names_are_those_of_the_backup() {
    let server = recorder("waits-cancelled", &[]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "waiting", "never-one", &[("wait", "yes")]);
    server.assert_phase(&server.backup("cancelled", &["--include-namespaces", &app.name]), &["Completed"]);
    let copy = Namespace::new("recorder-copy");
    let mapping = format!("{}:{}", app.name, copy.name);
    let create = ["restore", "create", "cancelled", "--from-backup", "cancelled", "--namespace-mappings"];
    server.lifeboat().args(create).arg(&mapping).ok();
    wait_until_asked(&server, 1);
    let asked = server.recorded("restore-v2", "AreAdditionalItemsReady");
    assert_eq!(asked[0]["items"], json!([format!("secrets {}/never-one", app.name)]));
    assert!(!get(&["-n", &copy.name, "secret", "never-one"]).is_null(), "it is in the other namespace");
    server.lifeboat().args(["restore", "cancel", "cancelled"]).ok();
    let restore = server.ended("restore", "cancelled");
    assert_ne!(restore["status"]["phase"], "Completed", "{}", restore["status"]);
    server.no_plugin_runs();
}
