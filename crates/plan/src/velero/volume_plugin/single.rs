//! The object that stands for an operation. While a call of a plugin that makes an object of its own runs, there are two:
//! the server learns from the answer which one is the plugin's. Called by the command line, which shows one.

use serde_json::Value;

use super::{is_ours, same_plugin};

/// The objects without those of the server for whose operation a plugin has its own.
pub fn one_per_operation(objects: Vec<Value>) -> Vec<Value> {
    let own: Vec<Value> = objects.iter().filter(|object| !is_ours(object)).cloned().collect();
    let is_second = |object: &Value| is_ours(object) && own.iter().any(|own| is_same(own, object));
    objects.into_iter().filter(|object| !is_second(object)).collect()
}

/// Whether a plugin's object is about the operation of a server's object.
fn is_same(own: &Value, ours: &Value) -> bool {
    let text = |object: &Value, path: &str| {
        object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    // Only the spec of a VolumePluginRestore has the snapshot's ID.
    let of_restore = !text(ours, "/spec/snapshotID").is_empty();
    let subject = if of_restore { "/spec/snapshotID" } else { "/spec/volume" };
    let (about, backup) = (text(ours, subject), text(own, "/spec/backup"));
    !about.is_empty()
        && text(own, subject) == about
        && (backup.is_empty() || backup == text(ours, "/spec/backup"))
        && same_plugin(&text(own, "/spec/plugin"), &text(ours, "/spec/plugin"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::super::OURS;
    use super::*;

    fn object(name: &str, volume: &str, plugin: &str, ours: bool) -> Value {
        let labels = if ours { json!({OURS: "server"}) } else { json!({}) };
        json!({"metadata": {"name": name, "labels": labels},
            "spec": {"backup": "b", "volume": volume, "plugin": plugin}})
    }

    #[rstest]
    #[case::the_plugins_counts("pv-1", "velero.io/aws", &["own"])]
    #[case::of_another_volume("pv-2", "velero.io/aws", &["ours", "own"])]
    #[case::of_another_plugin("pv-1", "example.com/x", &["ours", "own"])]
    fn an_operation_is_one_object(#[case] volume: &str, #[case] plugin: &str, #[case] expected: &[&str]) {
        let objects = vec![object("ours", "pv-1", "aws", true), object("own", volume, plugin, false)];
        let left = one_per_operation(objects);
        let names: Vec<_> = left.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn what_has_no_subject_is_an_object_of_its_own() {
        let plain = |ours| object("x", "", "", ours);
        assert_eq!(one_per_operation(vec![plain(true), plain(false)]).len(), 2);
    }
}
