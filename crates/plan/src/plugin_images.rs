//! Plugin images: init containers of the server's Deployment that copy programs into its `plugins` volume. Takes images
//! and the Deployment and its pods as they are, gives the containers to add, what a container lacks that the Pod
//! Security level `restricted` asks for, and what is wrong with those that do not run. Called by `install`, by
//! `lifeboat plugin …` and by the controller of the server's own Deployment.

mod complete;
mod trouble;

use serde_json::{Value, json};

pub use complete::{Completion, Refusal, completion};
pub use trouble::{Trouble, TroubleKind, troubles};

/// The volume that plugin images fill; stock tools call it so.
pub const VOLUME: &str = "plugins";
/// Where plugin images find that volume, upstream's place.
const TARGET: &str = "/target";
/// The longest name of a container.
const LONGEST: usize = 63;

/// The init container of an image, complete for a namespace that enforces `restricted`. `taken`: names of containers
/// that are there. Whoever runs it is the pod's business.
pub fn container(image: &str, pull_policy: &str, taken: &[&str]) -> Value {
    json!({
        "name": name(image, taken),
        "image": image,
        "imagePullPolicy": pull_policy,
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        // What it says last is in the pod's status, where events and `plugin get` find it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": VOLUME, "mountPath": TARGET}],
    })
}

/// A container's name from its image, as upstream makes it: without registry, tag and digest.
fn name(image: &str, taken: &[&str]) -> String {
    let path = image.split('@').next().unwrap_or_default();
    let path = match path.rsplit_once(':') {
        // A colon before a slash is that of a registry's port.
        Some((path, tag)) if !tag.contains('/') => path,
        _ => path,
    };
    let path = match path.split_once('/') {
        Some((_registry, rest)) if rest.contains('/') => rest,
        _ => path,
    };
    let clean = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let whole: String = path.chars().map(clean).collect();
    let whole = whole.trim_matches('-');
    let base = if whole.is_empty() { "plugin" } else { whole };
    let numbered = |number: usize| {
        let end = if number == 1 { String::new() } else { format!("-{number}") };
        format!("{}{end}", shortened(base, LONGEST - end.len()))
    };
    (1..=taken.len() + 1).map(numbered).find(|name| !taken.contains(&name.as_str())).unwrap_or_default()
}

/// All characters are ASCII here.
fn shortened(name: &str, longest: usize) -> &str {
    name.get(..longest.min(name.len())).unwrap_or(name).trim_end_matches('-')
}

/// The init containers of a Deployment.
pub fn containers(deployment: &Value) -> Vec<Value> {
    let list = deployment.pointer("/spec/template/spec/initContainers").and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Whether a container fills the volume of plugins. Others are none of Lifeboat's business.
pub fn is_plugins(container: &Value) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
    mounts.into_iter().any(|mount| text(mount, "name") == VOLUME)
}

/// A field of a container that is a text.
pub fn text<'a>(container: &'a Value, field: &str) -> &'a str {
    container.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::as_upstream("velero/velero-plugin-for-aws:v1.14.3", "velero-velero-plugin-for-aws")]
    #[case::registry("docker.io/velero/velero-plugin-for-aws:v1.14.3", "velero-velero-plugin-for-aws")]
    #[case::port("registry:5000/team/my_plugin.x", "team-my-plugin-x")]
    #[case::one_slash_keeps_all("localhost/plugin:dev", "localhost-plugin")]
    #[case::digest("r.example/a/b:v1@sha256:0123", "a-b")]
    #[case::odd("...", "plugin")]
    fn a_container_is_called_after_its_image(#[case] image: &str, #[case] expected: &str) {
        assert_eq!(name(image, &[]), expected);
    }

    #[test]
    fn names_are_short_and_never_taken() {
        let long = format!("r.example/{}/p", "x".repeat(80));
        let first = name(&long, &[]);
        let second = name(&long, &[&first]);
        assert_eq!((first.len(), second.len()), (63, 63));
        assert!(second.ends_with("x-2"), "{second}");
        assert_eq!(name("a/b", &["a-b", "a-b-2"]), "a-b-3");
    }
}
