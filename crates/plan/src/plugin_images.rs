//! Plugin images: init containers of the server's Deployment that copy programs into its `plugins` volume. Takes
//! images, the Deployment and its pods; gives the containers to add, the fields that a container lacks for Pod
//! Security level `restricted`, and the reasons why containers do not run. Called by `install`, by `lifeboat plugin
//! …` and by the controller of the server's own Deployment.

mod complete;
mod problem;

use serde_json::{Value, json};

pub use complete::{Completion, Refusal, completion};
pub use problem::{ContainerProblem, ProblemKind, problems};

/// The volume that plugin images fill: the name that stock tools use.
pub const VOLUME: &str = "plugins";
/// Where plugin images mount that volume: upstream's path.
const TARGET: &str = "/target";
/// The maximum length of a container's name.
const LONGEST: usize = 63;

/// The init container of an image, complete for a namespace that enforces `restricted`. `taken`: names of existing
/// containers. The user is set by the pod.
pub fn container(image: &str, pull_policy: &str, taken: &[&str]) -> Value {
    json!({
        "name": name(image, taken),
        "image": image,
        "imagePullPolicy": pull_policy,
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        // The end of its log becomes the message in the pod's status, which events and `plugin get` show.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": VOLUME, "mountPath": TARGET}],
    })
}

/// Derives a container's name from its image, as upstream does: without registry, tag and digest.
fn name(image: &str, taken: &[&str]) -> String {
    let path = image.split('@').next().unwrap_or_default();
    let path = match path.rsplit_once(':') {
        // A colon before a slash separates a registry's port.
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

/// Cuts a name; all characters are ASCII here.
fn shortened(name: &str, longest: usize) -> &str {
    name.get(..longest.min(name.len())).unwrap_or(name).trim_end_matches('-')
}

/// The init containers of a Deployment.
pub fn containers(deployment: &Value) -> Vec<Value> {
    let list = deployment.pointer("/spec/template/spec/initContainers").and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// Whether a container fills the plugins volume. Lifeboat does not touch other containers.
pub fn is_plugins(container: &Value) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
    mounts.into_iter().any(|mount| text(mount, "name") == VOLUME)
}

/// A text field of a container.
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
