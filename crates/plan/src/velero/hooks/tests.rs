//! Hooks from annotations and from the spec.

use lifeboat_api::catalogue::ResourceType;
use rstest::rstest;
use serde_json::json;

use super::*;

fn catalogue() -> Catalogue {
    Catalogue::new(vec![ResourceType {
        id: GroupResource::new("", "pods"),
        version: "v1".into(),
        kind: "Pod".into(),
        singular: "pod".into(),
        short_names: vec!["po".into()],
        namespaced: true,
        preferred: true,
        ..ResourceType::default()
    }])
}

fn rules(hooks: &Value) -> HookRules {
    let spec: BackupSpec = serde_json::from_value(json!({"hooks": {"resources": hooks}})).unwrap();
    HookRules::new(&spec, &catalogue()).unwrap()
}

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "db-0", "namespace": "shop", "labels": {"app": "db"}, "annotations": annotations},
        "spec": {"containers": [{"name": "main"}, {"name": "side"}]},
        "status": {"phase": "Running"},
    })
}

fn one_hook() -> Value {
    json!([{"name": "freeze", "pre": [{"exec": {"command": ["sync"]}}],
        "post": [{"exec": {"command": ["thaw"], "container": "side", "onError": "Fail", "timeout": "2m"}}]}])
}

#[test]
fn a_spec_hook_runs_in_the_first_container_for_half_a_minute() {
    let hooks = rules(&one_hook()).of_pod(&pod(&json!({})));
    let expected = Hook {
        name: "freeze".into(),
        container: "main".into(),
        command: vec!["sync".into()],
        fail: false,
        timeout: Duration::from_secs(30),
        is_secret: false,
    };
    assert_eq!(hooks.pre, [expected]);
    assert!(hooks.post[0].fail && hooks.post[0].container == "side");
    assert_eq!(hooks.post[0].timeout, Duration::from_mins(2));
}

#[test]
fn a_pod_keeps_the_output_of_its_hooks_secret() {
    let shown = |annotations: Value| {
        let hooks = rules(&one_hook()).of_pod(&pod(&annotations));
        [hooks.pre[0].shown("password").to_owned(), hooks.post[0].shown("password").to_owned()]
    };
    assert_eq!(shown(json!({})), ["password", "password"]);
    assert_eq!(shown(json!({"lifeboat.io/hook-output": "secret"})), ["(secret)", "(secret)"]);
    let own = json!({"lifeboat.io/hook-output": "secret", "pre.hook.backup.velero.io/command": "sync"});
    assert_eq!(shown(own), ["(secret)", "(secret)"]);
}

#[test]
fn an_annotation_replaces_its_half_of_the_spec_only() {
    let annotations = json!({"pre.hook.backup.velero.io/command": "[\"sh\", \"-c\", \"sync\"]",
        "pre.hook.backup.velero.io/on-error": "Fail", "pre.hook.backup.velero.io/timeout": "1h"});
    let hooks = rules(&one_hook()).of_pod(&pod(&annotations));
    assert_eq!(hooks.pre[0].command, ["sh", "-c", "sync"]);
    assert_eq!(hooks.pre[0].name, "<from-annotation>");
    assert!(hooks.pre[0].fail);
    assert_eq!(hooks.post[0].name, "freeze");
}

#[rstest]
#[case::no_list("sync -f", &["sync -f"])]
#[case::broken_list("[\"a\"", &["[\"a\""])]
fn what_is_no_list_is_one_word(#[case] command: &str, #[case] expected: &[&str]) {
    // Without `pre.` or `post.`, the annotation is a pre hook.
    let hooks = rules(&json!([])).of_pod(&pod(&json!({"hook.backup.velero.io/command": command})));
    assert_eq!(hooks.pre[0].command, expected);
    assert!(hooks.post.is_empty());
}

#[test]
fn a_timeout_that_cannot_be_read_is_warned_about() {
    let annotations = json!({"post.hook.backup.velero.io/command": "thaw",
        "post.hook.backup.velero.io/timeout": "soon"});
    let hooks = rules(&json!([])).of_pod(&pod(&annotations));
    assert_eq!(hooks.post[0].timeout, Duration::from_secs(30));
    assert!(hooks.warnings[0].contains("\"soon\""), "{:?}", hooks.warnings);
}

#[test]
fn nothing_runs_in_a_pod_that_has_ended() {
    let mut ended = pod(&json!({}));
    ended["status"]["phase"] = json!("Succeeded");
    assert!(rules(&one_hook()).of_pod(&ended).is_empty());
}

#[rstest]
#[case::by_namespace(json!({"includedNamespaces": ["sh*"]}), true)]
#[case::not_its_namespace(json!({"excludedNamespaces": ["shop"]}), false)]
#[case::by_type(json!({"includedResources": ["po"]}), true)]
#[case::other_type(json!({"includedResources": ["deployments"]}), false)]
#[case::excluded_type(json!({"excludedResources": ["Pod"]}), false)]
#[case::by_label(json!({"labelSelector": {"matchLabels": {"app": "db"}}}), true)]
#[case::other_label(json!({"labelSelector": {"matchLabels": {"app": "web"}}}), false)]
fn a_spec_hook_is_for_the_pods_it_names(#[case] mut hook: Value, #[case] expected: bool) {
    hook["name"] = json!("h");
    hook["pre"] = json!([{"exec": {"command": ["x"]}}]);
    assert_eq!(!rules(&json!([hook])).of_pod(&pod(&json!({}))).pre.is_empty(), expected);
}
