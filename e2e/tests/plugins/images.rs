//! Images of plugins, by the stock command line and by ours, in a namespace that enforces `restricted`.

use lifeboat_e2e::{Installation, get, kubectl, lifeboat, variable, velero, wait_for};
use serde_json::Value;

/// Takes an image out again, however a test ends.
struct Added(String);

impl Drop for Added {
    fn drop(&mut self) {
        lifeboat().args(["plugin", "remove", &self.0]).run();
    }
}

fn containers() -> Vec<Value> {
    let deployment = get(&["-n", "lifeboat", "deployment", "lifeboat"]);
    let list = deployment.pointer("/spec/template/spec/initContainers").and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

fn events() -> String {
    kubectl()
        .args([
            "--namespace",
            "lifeboat",
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=lifeboat",
        ])
        .ok()
}

#[test]
fn an_image_that_the_stock_command_line_adds_is_completed_and_its_plugins_are_listed() {
    Installation::ensure().leader();
    let image = variable("LIFEBOAT_PLUGIN_IMAGE");
    let _added = Added(image.clone());
    velero().args(["plugin", "add", &image, "--confirm"]).ok();
    wait_for("the completed init container", 60, || {
        let found = containers().into_iter().find(|container| container["image"] == image.as_str());
        match found {
            Some(container) if container["securityContext"]["allowPrivilegeEscalation"] == false => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    kubectl()
        .args(["--namespace", "lifeboat", "rollout", "status", "deployment/lifeboat", "--timeout", "180s"])
        .ok();
    wait_for("its plugins in the list", 60, || {
        let said = velero().args(["plugin", "get", "--timeout", "30s"]).ok();
        if said.contains("VolumeSnapshotter") { Ok(()) } else { Err(said) }
    });
}

#[test]
fn an_image_that_does_not_exist_is_told_and_the_old_server_goes_on() {
    Installation::ensure().leader();
    let image = "localhost/there-is-no-such-plugin:v0";
    let _added = Added(image.to_owned());
    velero().args(["plugin", "add", image, "--confirm"]).ok();
    wait_for("the event", 120, || {
        let said = events();
        if said.contains("PluginImageNotPulled") { Ok(()) } else { Err(said) }
    });
    let said = lifeboat().args(["plugin", "get", "--timeout", "30"]).ok();
    assert!(said.contains(image) && said.contains("PluginImageNotPulled"), "{said}");
}
