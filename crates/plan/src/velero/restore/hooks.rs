//! Hooks of restores: commands to run in a pod once it is up, and init containers to add to it. A pod's annotations override
//! the Restore's spec, as upstream. The executor runs the commands; the action `init-restore-hook` adds the containers. What
//! backups have in common with it is in [`crate::velero::pod_hooks`].

use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{HookErrorMode, RestoreResourceHook, RestoreResourceHookSpec, RestoreSpec};
use serde_json::{Value, json};

use crate::items::filter::FilterError;
use crate::velero::pod_hooks::{
    DEFAULT_TIMEOUT, FROM_ANNOTATION, HookAnnotations, HookRule, HookRuleError, HookScope, container,
    duration, is_secret, labels,
};

const EXEC: &str = "post.hook.restore.velero.io/";
const INIT: &str = "init.hook.restore.velero.io/";

/// The init container that waits for volumes; it stays the first one.
const WAITS_FOR_VOLUMES: &str = "restore-wait";

/// The compiled hooks of a spec.
#[derive(Clone, Debug, Default)]
pub struct RestoreHooks {
    rules: Vec<HookRule<Vec<RestoreResourceHook>>>,
}

/// A command to run in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecHook {
    /// The hook's name in results; `<from-annotation>` if a pod's annotations define it.
    pub name: String,
    pub container: String,
    pub command: Vec<String>,
    /// Whether a failure prevents the pod's other hooks from running.
    pub fail: bool,
    pub timeout: Duration,
    /// How long to wait for the container to run; None means no limit of its own.
    pub wait: Option<Duration>,
    /// Whether to wait until the container is ready, not only running.
    pub ready: bool,
    /// Whether nothing that the command prints may be written down.
    pub is_secret: bool,
}

impl RestoreHooks {
    pub fn new(spec: &RestoreSpec) -> Result<Self, FilterError> {
        let rules = specs(spec).map(rule).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// Problems of the init containers, with upstream's message.
    pub fn problems(spec: &RestoreSpec) -> Vec<String> {
        let mut problems = Vec::new();
        for rule in specs(spec) {
            let hooks = rule.post_hooks.iter().flatten().filter_map(|hook| hook.init.as_ref());
            for container in hooks.flat_map(|init| init.init_containers.iter().flatten()) {
                let text = |field: &str| container[field].as_str().is_some_and(|text| !text.is_empty());
                let command = container["command"].as_array().is_some_and(|arguments| !arguments.is_empty());
                if !(text("name") && text("image") && command) {
                    problems.push(format!(
                        "invalid init container in restore hook {:?}: invalid InitContainer in restore hook, it doesn't have Command, Name or Image field",
                        rule.name
                    ));
                }
            }
        }
        problems
    }

    /// The commands for a created pod. `trusted`: whether its annotations, which come from the backup, are used.
    pub fn exec(&self, pod: &Value, trusted: bool) -> Vec<ExecHook> {
        let Some(first) = pod.pointer("/spec/containers/0/name").and_then(Value::as_str) else {
            return Vec::new();
        };
        if trusted && let Some(hook) = exec_of_annotations(pod, first) {
            return vec![hook];
        }
        let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let labels = labels(pod);
        let rules = self.rules.iter().filter(|rule| rule.applies_to(namespace, &labels));
        rules
            .flat_map(|rule| {
                rule.commands.iter().filter_map(|hook| exec_of_spec(&rule.name, hook, pod, first))
            })
            .collect()
    }

    /// Adds init containers to a pod that is restored into `namespace`. `unique` is part of the name if none is given.
    pub fn add_init_containers(&self, pod: &mut Value, namespace: &str, unique: &str, trusted: bool) {
        let of_annotations = if trusted { init_of_annotations(pod, unique) } else { None };
        let added: Vec<Value> = if let Some(container) = of_annotations {
            vec![container]
        } else {
            let labels = labels(pod);
            let rules = self.rules.iter().filter(|rule| rule.applies_to(namespace, &labels));
            let hooks = rules.flat_map(|rule| &rule.commands).filter_map(|hook| hook.init.as_ref());
            hooks.flat_map(|init| init.init_containers.iter().flatten().cloned()).collect()
        };
        if added.is_empty() || !pod["spec"].is_object() {
            return;
        }
        let mut containers = pod["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
        let waits = containers.first().is_some_and(|first| first["name"] == WAITS_FOR_VOLUMES);
        let place = usize::from(waits);
        containers.splice(place..place, added);
        pod["spec"]["initContainers"] = Value::Array(containers);
    }
}

/// Whether the pod's annotations define a hook.
pub fn is_in_annotations(pod: &Value) -> bool {
    let has = |prefix: &str, key: &str| HookAnnotations::new(pod, prefix).get(key).is_some();
    has(EXEC, "command") || has(INIT, "container-image")
}

fn specs(spec: &RestoreSpec) -> impl Iterator<Item = &RestoreResourceHookSpec> {
    spec.hooks.iter().flat_map(|hooks| hooks.resources.iter().flatten())
}

fn rule(hook: &RestoreResourceHookSpec) -> Result<HookRule<Vec<RestoreResourceHook>>, FilterError> {
    let scope = HookScope {
        included_namespaces: hook.included_namespaces.as_ref(),
        excluded_namespaces: hook.excluded_namespaces.as_ref(),
        selector: hook.label_selector.as_ref(),
    };
    HookRule::new(&hook.name, scope, hook.post_hooks.clone().unwrap_or_default()).map_err(|error| match error
    {
        HookRuleError::Namespaces(error) => FilterError::Pattern(error),
        HookRuleError::Selector(error) => FilterError::Selector(error),
    })
}

fn exec_of_spec(name: &str, hook: &RestoreResourceHook, pod: &Value, first: &str) -> Option<ExecHook> {
    let exec = hook.exec.as_ref()?;
    Some(ExecHook {
        name: name.to_owned(),
        container: container(exec.container.as_ref(), first),
        command: exec.command.clone(),
        fail: exec.on_error == Some(HookErrorMode::Fail),
        timeout: duration(exec.exec_timeout).unwrap_or(DEFAULT_TIMEOUT),
        wait: duration(exec.wait_timeout),
        ready: exec.wait_for_ready == Some(true),
        is_secret: is_secret(pod),
    })
}

fn exec_of_annotations(pod: &Value, first: &str) -> Option<ExecHook> {
    let annotations = HookAnnotations::new(pod, EXEC);
    // As upstream: an invalid value counts as missing.
    let time = |key: &str| duration(annotations.get(key)?.parse::<GoDuration>().ok());
    Some(ExecHook {
        name: FROM_ANNOTATION.to_owned(),
        command: annotations.command()?,
        container: annotations.container(first),
        fail: annotations.fails(),
        timeout: time("exec-timeout").unwrap_or(DEFAULT_TIMEOUT),
        wait: time("wait-timeout"),
        ready: annotations
            .get("wait-for-ready")
            .is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")),
        is_secret: is_secret(pod),
    })
}

fn init_of_annotations(pod: &Value, unique: &str) -> Option<Value> {
    let annotations = HookAnnotations::new(pod, INIT);
    let image = annotations.get("container-image")?;
    let name = annotations
        .get("container-name")
        .map_or_else(|| format!("velero-restore-init-{unique}"), str::to_owned);
    let mut container = json!({"name": name, "image": image});
    if let Some(command) = annotations.command() {
        container["command"] = json!(command);
    }
    Some(container)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(value: &Value) -> RestoreHooks {
        let spec: RestoreSpec = serde_json::from_value(json!({"hooks": {"resources": value}})).unwrap();
        RestoreHooks::new(&spec).unwrap()
    }

    fn pod(annotations: &Value) -> Value {
        json!({"metadata": {"namespace": "shop", "labels": {"app": "db"}, "annotations": annotations},
            "spec": {"containers": [{"name": "main"}, {"name": "side"}]}})
    }

    #[test]
    fn commands_of_a_spec_run_where_they_apply() {
        let hooks = hooks(&json!([
            {"name": "here", "includedNamespaces": ["sh*"], "labelSelector": {"matchLabels": {"app": "db"}},
             "postHooks": [{"exec": {"command": ["a", "b"], "onError": "Fail", "execTimeout": "0s", "waitTimeout": "5m"}},
                           {"init": {}}]},
            {"name": "elsewhere", "excludedNamespaces": ["shop"], "postHooks": [{"exec": {"command": ["c"]}}]},
        ]));
        let found = hooks.exec(&pod(&json!({})), true);
        assert_eq!(found.len(), 1);
        let expected = ExecHook {
            name: "here".into(),
            container: "main".into(),
            command: vec!["a".into(), "b".into()],
            fail: true,
            timeout: DEFAULT_TIMEOUT,
            wait: Some(Duration::from_mins(5)),
            ready: false,
            is_secret: false,
        };
        assert_eq!(found[0], expected);
    }

    #[test]
    fn a_pods_own_command_goes_before_the_spec_unless_it_is_not_trusted() {
        let hooks = hooks(&json!([{"name": "spec", "postHooks": [{"exec": {"command": ["s"]}}]}]));
        let pod = pod(&json!({
            "post.hook.restore.velero.io/command": "[\"sh\", \"-c\", \"true\"]",
            "post.hook.restore.velero.io/container": "side",
            "post.hook.restore.velero.io/wait-for-ready": "true",
            "post.hook.restore.velero.io/exec-timeout": "soon",
        }));
        let found = hooks.exec(&pod, true);
        assert_eq!((found[0].container.as_str(), found[0].command.len(), found[0].ready), ("side", 3, true));
        assert_eq!(found[0].timeout, DEFAULT_TIMEOUT);
        assert_eq!(hooks.exec(&pod, false)[0].name, "spec");
        assert!(is_in_annotations(&pod));
    }

    #[test]
    fn init_containers_go_ahead_of_all_but_the_one_that_waits_for_volumes() {
        let hooks = hooks(&json!([{"name": "h", "includedNamespaces": ["copy"],
            "postHooks": [{"init": {"initContainers": [{"name": "mine", "image": "i", "command": ["c"]}]}}]}]));
        let mut given = pod(&json!({}));
        given["spec"]["initContainers"] = json!([{"name": "restore-wait"}, {"name": "own"}]);
        let names = |pod: &Value| -> Vec<String> {
            let all = pod["spec"]["initContainers"].as_array().unwrap();
            all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        hooks.add_init_containers(&mut given, "shop", "abc", true);
        assert_eq!(names(&given), ["restore-wait", "own"]);
        hooks.add_init_containers(&mut given, "copy", "abc", true);
        assert_eq!(names(&given), ["restore-wait", "mine", "own"]);
        let mut annotated = pod(&json!({"init.hook.restore.velero.io/container-image": "busybox"}));
        hooks.add_init_containers(&mut annotated, "copy", "abc", true);
        assert_eq!(names(&annotated), ["velero-restore-init-abc"]);
    }
}
