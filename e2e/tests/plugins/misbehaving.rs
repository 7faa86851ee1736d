//! Misbehaving plugin programs: only their own items fail, and the results say so.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lifeboat_e2e::{HostServer, Namespace, delete_namespace, get, variable, wait_for};

/// ConfigMaps with the annotation that controls the misbehaving plugin.
fn failing(namespace: &Namespace, kinds: &[&str]) {
    let maps: Vec<String> = kinds
        .iter()
        .map(|kind| {
            let name = kind.replace(' ', "-");
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{name}', annotations: {{fail: '{kind}'}}}}\ndata: {{a: b}}\n")
        })
        .collect();
    namespace.apply(&maps.join("---\n"));
}

#[test]
fn each_wrong_answer_costs_one_item_and_is_named() {
    let plugin = variable("LIFEBOAT_MISBEHAVING_PLUGIN");
    let server = HostServer::with_plugins("misbehaving", &[], &[("misbehaving", &plugin)]);
    let app = Namespace::new("misbehaving-app");
    let wrong = ["error", "panic", "crash", "huge", "other kind", "no object", "escape", "too many"];
    let borne = ["flood", "itself", "thousands", "unknown type", "nothing"];
    failing(&app, &[&wrong[..], &borne[..]].concat());
    let backup =
        server.backup("wrong", &["--include-namespaces", &app.name, "--include-resources", "configmaps"]);
    server.assert_phase(&backup, &["PartiallyFailed"]);
    let described = server.described("backup", "wrong");
    for kind in wrong {
        let name = kind.replace(' ', "-");
        assert!(described.contains(&name), "{name} is not named in:\n{described}");
    }
    delete_namespace(&app.name);
    let restore = server.restore("wrong", "wrong", &[]);
    server.assert_phase(&restore, &["Completed", "PartiallyFailed"]);
    for kind in borne {
        let name = kind.replace(' ', "-");
        assert!(!get(&["-n", &app.name, "configmap", &name]).is_null(), "{name} is missing");
    }
    server.no_plugin_runs();
}

#[test]
fn a_plugin_that_hangs_holds_a_backup_no_longer_than_its_time() {
    let plugin = variable("LIFEBOAT_MISBEHAVING_PLUGIN");
    let flags = ["--plugin-call-timeout", "3s"];
    let server = HostServer::with_plugins("hanging", &flags, &[("misbehaving", &plugin)]);
    let app = Namespace::new("hanging-app");
    failing(&app, &["hang", "nothing"]);
    let backup = server.backup("hung", &["--include-namespaces", &app.name]);
    server.assert_phase(&backup, &["PartiallyFailed"]);
    let described = server.described("backup", "hung");
    assert!(described.contains("took longer than 3s"), "{described}");
}

#[test]
fn what_is_no_plugin_is_named_and_the_others_are_used() {
    let recorder = variable("LIFEBOAT_GO_PLUGIN");
    let good = variable("LIFEBOAT_WAITING_PLUGIN");
    let mut server = HostServer::with_plugins("strange", &[], &[("waiting", &good)]);
    server.kill();
    let script = |name: &str, text: &str| {
        let path = server.plugins().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("exits", "exit 0");
    script("garbage", "head -c 100000 /dev/zero | tr '\\0' x; exec sleep 100");
    script("cookie", "echo 'this program is a plugin' >&2; exit 1");
    script("protocol", "echo '1|99|unix|/tmp/none|grpc'; exec sleep 100");
    script("old", "echo '7|2|unix|/tmp/none|grpc'; exec sleep 100");
    fs::write(server.plugins().join("text"), "not a program").unwrap();
    fs::set_permissions(server.plugins().join("text"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(server.plugins().join("README"), "no plugin, and not executable").unwrap();
    for name in ["twice-1", "twice-2"] {
        std::os::unix::fs::symlink(&recorder, server.plugins().join(name)).unwrap();
    }
    server.kill_and_restart();
    let listed = wait_for("the list of plugins", 90, || {
        let output = server.lifeboat().args(["plugin", "get"]).run();
        if output.code == 0 { Ok(output.stdout) } else { Err(output.stderr) }
    });
    assert!(listed.contains("example.io/wait-for-database"), "{listed}");
    for name in ["exits", "garbage", "cookie", "protocol", "old", "text", "twice-1"] {
        assert!(listed.contains(name), "{name} is not named in:\n{listed}");
    }
    assert!(!listed.contains("README"), "{listed}");
    let app = Namespace::new("strange-app");
    failing(&app, &["nothing"]);
    server.assert_phase(&server.backup("strange", &["--include-namespaces", &app.name]), &["Completed"]);
    server.no_plugin_runs();
}
