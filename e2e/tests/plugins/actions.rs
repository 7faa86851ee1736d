//! Every method of every kind of action, called by a complete backup, restore and deletion.

use lifeboat_e2e::{Namespace, delete_namespace, get, recorded_item, wait_for};
use serde_json::{Value, json};

use super::recorder;

fn mark(object: &Value, name: &str) -> Value {
    object["metadata"]["annotations"][format!("recorder.lifeboat.dev/{name}")].clone()
}

#[test]
fn every_action_in_go_is_called_by_backup_restore_and_deletion() {
    let server = recorder("go-actions", &[]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "settings", "password", &[("operation", "op-1"), ("wait", "yes")]);
    let item = format!("{}/settings", app.name);

    let backup = server.backup("all", &["--include-namespaces", &app.name]);
    server.assert_phase(&backup, &["Completed"]);
    assert_eq!(backup["status"]["backupItemOperationsAttempted"], 1, "{}", backup["status"]);
    assert_eq!(backup["status"]["backupItemOperationsCompleted"], 1, "{}", backup["status"]);
    for (plugin, call) in [("block", "GetRelatedItems"), ("backup-v1", "Execute"), ("backup-v2", "Execute")] {
        let calls = server.recorded(plugin, call);
        assert!(calls.iter().any(|call| call["item"] == item.as_str()), "{plugin} {call}: {calls:?}");
        assert!(calls.iter().all(|call| call["backup"] == "all"), "{plugin} {call}: {calls:?}");
    }
    // Items named by an operation are read again at its end, and their actions run.
    assert!(server.recorded("backup-v2", "Progress").len() >= 3);
    let log = server.logs("backup", "all");
    assert!(log.contains("pluginName=recorder"), "the plugin's own lines are in the log:\n{log}");

    delete_namespace(&app.name);
    let restore = server.restore("all", "all", &[]);
    server.assert_phase(&restore, &["Completed"]);
    let restored = get(&["-n", &app.name, "configmap", "settings"]);
    for (name, by) in
        [("backup-v1", "all"), ("backup-v2", "all"), ("restore-v1", "all"), ("restore-v2", "all")]
    {
        assert_eq!(mark(&restored, name), by, "{name}: {restored}");
    }
    for plugin in ["restore-v1", "restore-v2"] {
        let calls = server.recorded(plugin, "Execute");
        assert_eq!(calls.len(), 1, "{plugin}: {calls:?}");
        assert_eq!((&calls[0]["item"], &calls[0]["fromBackup"]), (&json!(item), &json!(item)));
    }
    let asked = server.recorded("restore-v2", "AreAdditionalItemsReady");
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[0]["items"], json!([format!("secrets {}/password", app.name)]));
    assert!(server.recorded("restore-v1", "AreAdditionalItemsReady").is_empty());
    assert!(server.recorded("restore-v2", "Progress").len() >= 3);

    server.lifeboat().args(["backup", "delete", "all", "--confirm", "--wait"]).ok();
    assert_eq!(server.recorded("delete", "Execute")[0]["item"], item.as_str());
    server.no_plugin_runs();
}

#[test]
fn operations_that_never_end_are_cancelled_and_those_that_fail_are_named() {
    let server = recorder("go-operations", &[]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "endless", "one", &[("operation", "endless-1")]);
    recorded_item(&app, "broken", "two", &[("operation", "broken-1")]);
    let flags = ["--include-namespaces", &app.name, "--item-operation-timeout", "15s"];
    let backup = server.backup("slow", &flags);
    server.assert_phase(&backup, &["PartiallyFailed"]);
    let cancelled = server.recorded("backup-v2", "Cancel");
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert_eq!(cancelled[0]["operation"], "endless-1");
    let described = server.described("backup", "slow");
    for text in ["endless-1", "did not end in time", "broken-1", "the recorder was told to fail"] {
        assert!(described.contains(text), "{text:?} is missing in:\n{described}");
    }
    delete_namespace(&app.name);
    let restore = server.restore("slow", "slow", &["--item-operation-timeout", "5s"]);
    server.assert_phase(&restore, &["PartiallyFailed"]);
    assert_eq!(server.recorded("restore-v2", "Cancel")[0]["operation"], "endless-1");
    assert!(!get(&["-n", &app.name, "configmap", "endless"]).is_null(), "the item itself is there");
    server.no_plugin_runs();
}

#[test]
fn a_backup_killed_with_its_server_leaves_no_process_and_ends_after_it() {
    let mut server = recorder("go-killed", &[]);
    let app = Namespace::new("recorder");
    recorded_item(&app, "settings", "password", &[("fail", "hang")]);
    server.lifeboat().args(["backup", "create", "killed", "--include-namespaces", &app.name]).ok();
    wait_for("the plugin that hangs", 60, || {
        let calls = server.recorded("block", "GetRelatedItems");
        if calls.is_empty() { Err("not called".to_owned()) } else { Ok(()) }
    });
    assert!(!server.plugin_processes().is_empty());
    server.kill();
    server.no_plugin_runs();
    app.kubectl().args(["annotate", "configmap", "settings", "recorder.lifeboat.dev/fail-"]).ok();
    server.kill_and_restart();
    server.assert_phase(&server.ended("backup", "killed"), &["Completed"]);
}
