//! Restore hooks: commands to run in a pod when it is up, and init containers to put into it. A pod's annotations go before
//! the Restore's spec, as upstream has it. The executor runs the commands; the action `init-restore-hook` adds the
//! containers.

use std::collections::BTreeMap;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{HookErrorMode, RestoreResourceHook, RestoreResourceHookSpec, RestoreSpec};
use serde_json::{Value, json};

use crate::includes::Includes;
use crate::items::filter::FilterError;
use crate::selector::Selector;

const EXEC: &str = "post.hook.restore.velero.io/";
const INIT: &str = "init.hook.restore.velero.io/";

/// The init container that waits for volumes, which stays the first.
const WAITS_FOR_VOLUMES: &str = "restore-wait";

/// How long a command may take where no timeout is set.
const EXEC_TIMEOUT: Duration = Duration::from_secs(30);

/// The hooks of a spec, compiled.
#[derive(Clone, Debug, Default)]
pub struct RestoreHooks {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    name: String,
    namespaces: Includes,
    selector: Selector,
    hooks: Vec<RestoreResourceHook>,
}

/// A command to run in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecHook {
    /// Its name in results; `<from-annotation>` for one of the pod itself.
    pub name: String,
    pub container: String,
    pub command: Vec<String>,
    /// Whether a failure keeps the pod's other hooks from running.
    pub fail: bool,
    pub timeout: Duration,
    /// How long the container may take to be up; None for as long as the restore may.
    pub wait: Option<Duration>,
    /// Whether to wait until the container is ready, not only running.
    pub ready: bool,
}

impl RestoreHooks {
    pub fn new(spec: &RestoreSpec) -> Result<Self, FilterError> {
        let rules = specs(spec).map(rule).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// What is wrong with the init containers, in upstream's words.
    pub fn problems(spec: &RestoreSpec) -> Vec<String> {
        let mut problems = Vec::new();
        for rule in specs(spec) {
            let hooks = rule.post_hooks.iter().flatten().filter_map(|hook| hook.init.as_ref());
            for container in hooks.flat_map(|init| init.init_containers.iter().flatten()) {
                let text = |field: &str| container[field].as_str().is_some_and(|text| !text.is_empty());
                let command = container["command"].as_array().is_some_and(|words| !words.is_empty());
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

    /// The commands for a pod as it was created. `trusted`: whether its annotations, which come from the backup, count.
    pub fn exec(&self, pod: &Value, trusted: bool) -> Vec<ExecHook> {
        let Some(first) = pod.pointer("/spec/containers/0/name").and_then(Value::as_str) else {
            return Vec::new();
        };
        if trusted && let Some(hook) = exec_of_annotations(&annotations(pod), first) {
            return vec![hook];
        }
        let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let labels = labels(pod);
        let rules = self.rules.iter().filter(|rule| rule.takes(namespace, &labels));
        rules
            .flat_map(|rule| rule.hooks.iter().filter_map(|hook| exec_of_spec(&rule.name, hook, first)))
            .collect()
    }

    /// Puts init containers into a pod that goes into `namespace`. `unique` makes a name where none is given.
    pub fn add_init_containers(&self, pod: &mut Value, namespace: &str, unique: &str, trusted: bool) {
        let of_annotations = if trusted { init_of_annotations(&annotations(pod), unique) } else { None };
        let added: Vec<Value> = if let Some(container) = of_annotations {
            vec![container]
        } else {
            let labels = labels(pod);
            let rules = self.rules.iter().filter(|rule| rule.takes(namespace, &labels));
            let hooks = rules.flat_map(|rule| &rule.hooks).filter_map(|hook| hook.init.as_ref());
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

impl Rule {
    fn takes(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.takes(namespace) && self.selector.matches(labels)
    }
}

/// Whether the pod itself brings a hook.
pub fn is_in_annotations(pod: &Value) -> bool {
    let annotations = annotations(pod);
    [format!("{EXEC}command"), format!("{INIT}container-image")]
        .iter()
        .any(|key| annotations.get(key.as_str()).is_some_and(|text| !text.is_empty()))
}

fn specs(spec: &RestoreSpec) -> impl Iterator<Item = &RestoreResourceHookSpec> {
    spec.hooks.iter().flat_map(|hooks| hooks.resources.iter().flatten())
}

fn rule(spec: &RestoreResourceHookSpec) -> Result<Rule, FilterError> {
    let list = |names: &Option<Vec<String>>| names.clone().unwrap_or_default();
    Ok(Rule {
        name: spec.name.clone(),
        namespaces: Includes::new(&list(&spec.included_namespaces), &list(&spec.excluded_namespaces))?,
        selector: spec.label_selector.as_ref().map(Selector::new).transpose()?.unwrap_or_default(),
        hooks: spec.post_hooks.clone().unwrap_or_default(),
    })
}

fn exec_of_spec(name: &str, hook: &RestoreResourceHook, first: &str) -> Option<ExecHook> {
    let exec = hook.exec.as_ref()?;
    let time = |field: Option<GoDuration>| GoDuration::set(field).and_then(GoDuration::to_std);
    Some(ExecHook {
        name: name.to_owned(),
        container: exec.container.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| first.to_owned()),
        command: exec.command.clone(),
        fail: exec.on_error == Some(HookErrorMode::Fail),
        timeout: time(exec.exec_timeout).unwrap_or(EXEC_TIMEOUT),
        wait: time(exec.wait_timeout),
        ready: exec.wait_for_ready == Some(true),
    })
}

fn exec_of_annotations(annotations: &BTreeMap<&str, &str>, first: &str) -> Option<ExecHook> {
    let get =
        |key: &str| annotations.get(format!("{EXEC}{key}").as_str()).copied().filter(|text| !text.is_empty());
    // As upstream: a time or a word that cannot be read is as none.
    let time = |key: &str| get(key)?.parse::<GoDuration>().ok()?.to_std();
    Some(ExecHook {
        name: "<from-annotation>".to_owned(),
        command: words(get("command")?),
        container: get("container").unwrap_or(first).to_owned(),
        fail: get("on-error") == Some("Fail"),
        timeout: time("exec-timeout").filter(|time| !time.is_zero()).unwrap_or(EXEC_TIMEOUT),
        wait: time("wait-timeout").filter(|time| !time.is_zero()),
        ready: get("wait-for-ready")
            .is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")),
    })
}

fn init_of_annotations(annotations: &BTreeMap<&str, &str>, unique: &str) -> Option<Value> {
    let get =
        |key: &str| annotations.get(format!("{INIT}{key}").as_str()).copied().filter(|text| !text.is_empty());
    let name = get("container-name").map_or_else(|| format!("velero-restore-init-{unique}"), str::to_owned);
    let mut container = json!({"name": name, "image": get("container-image")?});
    if let Some(command) = get("command") {
        container["command"] = json!(words(command));
    }
    Some(container)
}

/// A JSON list of words, or one word.
fn words(text: &str) -> Vec<String> {
    if text.starts_with('[')
        && let Ok(words) = serde_json::from_str(text)
    {
        return words;
    }
    vec![text.to_owned()]
}

fn annotations(pod: &Value) -> BTreeMap<&str, &str> {
    let map = pod.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

fn labels(pod: &Value) -> BTreeMap<String, String> {
    let map = pod.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
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
            timeout: EXEC_TIMEOUT,
            wait: Some(Duration::from_mins(5)),
            ready: false,
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
        assert_eq!(found[0].timeout, EXEC_TIMEOUT);
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
