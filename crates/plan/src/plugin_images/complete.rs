//! Completes init containers of the server's Deployment for Pod Security level `restricted`: stock `velero plugin
//! add` writes no securityContext, so no new pod would be admitted. Takes the Deployment, gives the patch, and the
//! containers that require more than `restricted` allows.

use serde_json::{Map, Value, json};

use super::{containers, is_plugins, text};

/// The user of plugin init containers if the pod does not set one: the image's unprivileged user.
const USER: u64 = 65532;

/// The change to a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// A strategic merge patch with init containers only.
    pub patch: Option<Value>,
    /// The containers that it completes: name and image.
    pub completed: Vec<(String, String)>,
    /// Containers that a patch cannot make compliant and whose pods the cluster has rejected.
    pub refused: Vec<Refusal>,
}

/// A container that requires something that the namespace forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub container: String,
    pub image: String,
    /// The message for users, with the next step.
    pub message: String,
}

pub fn completion(deployment: &Value) -> Completion {
    let empty = json!({});
    let pod = deployment.pointer("/spec/template/spec/securityContext").unwrap_or(&empty);
    let mut completion = Completion::default();
    let mut patches = Vec::new();
    for container in containers(deployment).into_iter().filter(is_plugins) {
        let (name, image) = (text(&container, "name").to_owned(), text(&container, "image").to_owned());
        let own = container.get("securityContext").unwrap_or(&empty);
        let asks = asks(own);
        if !asks.is_empty() {
            if is_held_up(deployment) {
                let message = refusal(&name, &image, &asks);
                completion.refused.push(Refusal { container: name, image, message });
            }
            continue;
        }
        let lacks = lacks(own, pod);
        if !lacks.is_empty() {
            patches.push(json!({
                "name": name,
                "securityContext": lacks,
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }));
            completion.completed.push((name, image));
        }
    }
    if !patches.is_empty() {
        completion.patch = Some(json!({"spec": {"template": {"spec": {"initContainers": patches}}}}));
    }
    completion
}

/// The settings of a container that `restricted` forbids. They are reported, never removed, because the user set
/// them.
fn asks(own: &Value) -> Vec<&'static str> {
    let is = |pointer: &str, value: &Value| own.pointer(pointer) == Some(value);
    let added = own.pointer("/capabilities/add").and_then(Value::as_array).into_iter().flatten();
    let more = added.filter(|capability| **capability != "NET_BIND_SERVICE").count() > 0;
    let asked = [
        (is("/privileged", &json!(true)), "privileged: true"),
        (is("/allowPrivilegeEscalation", &json!(true)), "allowPrivilegeEscalation: true"),
        (is("/runAsNonRoot", &json!(false)), "runAsNonRoot: false"),
        (is("/runAsUser", &json!(0)), "runAsUser: 0"),
        (is("/seccompProfile/type", &json!("Unconfined")), "seccompProfile Unconfined"),
        (more, "more capabilities"),
    ];
    asked.into_iter().filter(|(is, _)| *is).map(|(_, setting)| setting).collect()
}

fn lacks(own: &Value, pod: &Value) -> Map<String, Value> {
    let mut lacks = Map::new();
    if own.get("allowPrivilegeEscalation").is_none_or(Value::is_null) {
        lacks.insert("allowPrivilegeEscalation".to_owned(), json!(false));
    }
    let dropped = own.pointer("/capabilities/drop").and_then(Value::as_array);
    if !dropped.is_some_and(|dropped| dropped.iter().any(|capability| capability == "ALL")) {
        lacks.insert("capabilities".to_owned(), json!({"drop": ["ALL"]}));
    }
    let needs = [
        ("runAsNonRoot", json!(true)),
        ("runAsUser", json!(USER)),
        ("seccompProfile", json!({"type": "RuntimeDefault"})),
    ];
    for (field, value) in needs {
        let says = |context: &Value| context.get(field).is_some_and(|value| !value.is_null());
        if !says(own) && !says(pod) {
            lacks.insert(field.to_owned(), value);
        }
    }
    lacks
}

/// Whether the cluster rejects the pods of the Deployment as it is.
fn is_held_up(deployment: &Value) -> bool {
    let conditions = deployment.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True")
}

fn refusal(name: &str, image: &str, asks: &[&str]) -> String {
    format!(
        "init container '{name}' (image {image}) asks for {}, which Pod Security level 'restricted' of this namespace \
         forbids: no new server pod starts, the old one keeps running; remove it with `lifeboat plugin remove {name}` and use an \
         image that runs as any user",
        asks.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::container;
    use super::*;
    use crate::install::{InstallOptions, objects};

    /// Lifeboat's own Deployment with these init containers.
    fn deployment(containers: &Value) -> Value {
        let mut made = objects(&InstallOptions::new("lifeboat", "i")).into_iter();
        let mut deployment = made.find(|object| object["kind"] == "Deployment").unwrap();
        deployment["spec"]["template"]["spec"]["initContainers"] = containers.clone();
        deployment
    }

    /// The container that stock `velero plugin add` appends.
    fn stock() -> Value {
        json!({"name": "velero-plugin-for-aws", "image": "velero/velero-plugin-for-aws:v1.14.3", "resources": {},
            "imagePullPolicy": "IfNotPresent", "volumeMounts": [{"name": "plugins", "mountPath": "/target"}]})
    }

    #[test]
    fn a_stock_container_gets_what_the_pod_does_not_say_already() {
        let made = completion(&deployment(&json!([stock()])));
        let expected = json!([{
            "name": "velero-plugin-for-aws",
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }]);
        assert_eq!(made.patch.unwrap()["spec"]["template"]["spec"]["initContainers"], expected);
        assert_eq!(made.completed.len(), 1);
    }

    #[test]
    fn a_pod_that_says_nothing_leaves_all_to_the_container() {
        let mut deployment = deployment(&json!([stock()]));
        deployment["spec"]["template"]["spec"]["securityContext"] = Value::Null;
        let patch = completion(&deployment).patch.unwrap();
        let context = &patch["spec"]["template"]["spec"]["initContainers"][0]["securityContext"];
        assert_eq!(context["runAsNonRoot"], true);
        assert_eq!(context["runAsUser"], 65532);
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    }

    #[test]
    fn a_complete_container_and_none_at_all_are_left_alone() {
        let ours = container("velero/velero-plugin-for-aws:v1.14.3", "Always", &[]);
        for containers in [json!([ours]), json!([]), Value::Null] {
            assert_eq!(completion(&deployment(&containers)), Completion::default());
        }
    }

    #[test]
    fn an_init_container_that_is_not_a_plugin_image_is_left_alone() {
        let other = json!({"name": "vault-agent", "image": "vault", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]});
        let made = completion(&deployment(&json!([other, {"name": "bare", "image": "x"}])));
        assert_eq!(made, Completion::default());
    }

    #[rstest]
    #[case::user(json!({"runAsUser": 0}), "runAsUser: 0")]
    #[case::root(json!({"runAsNonRoot": false}), "runAsNonRoot: false")]
    #[case::privileged(json!({"privileged": true, "allowPrivilegeEscalation": true}), "privileged: true, allow")]
    #[case::capabilities(json!({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}}), "more capabilities")]
    #[case::seccomp(json!({"seccompProfile": {"type": "Unconfined"}}), "seccompProfile")]
    fn a_container_that_asks_for_more_is_refused_once_its_pods_are(
        #[case] context: Value,
        #[case] expected: &str,
    ) {
        let mut asking = stock();
        asking["securityContext"] = context;
        let mut deployment = deployment(&json!([asking]));
        assert_eq!(completion(&deployment), Completion::default());
        deployment["status"] = json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]});
        let made = completion(&deployment);
        assert_eq!(made.patch, None);
        let message = &made.refused[0].message;
        assert!(
            message.contains(expected) && message.contains("plugin remove velero-plugin-for-aws"),
            "{message}"
        );
    }
}
