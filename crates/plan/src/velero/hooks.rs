//! Hooks of backups: which commands run in a pod before and after it is backed up. Takes the Backup's spec and the pod;
//! gives the commands. Called by the backup pipeline; what it is about to run goes into the journal in this form.
//!
//! As upstream: an annotation of the pod goes before the spec, for each half by itself; a command that is no JSON list is
//! one word; only the literal `Fail` stops the pod's backup.

use std::collections::BTreeMap;
use std::time::Duration;

use lifeboat_api::catalogue::{Catalogue, GroupResource};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{BackupResourceHook, BackupSpec, HookErrorMode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::glob::GlobError;
use crate::includes::Includes;
use crate::json::text;
use crate::selector::{Selector, SelectorError};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// One command to run in one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The hook's name in the spec, or `<from-annotation>`.
    pub name: String,
    /// Empty where the pod has no container.
    pub container: String,
    pub command: Vec<String>,
    /// Whether a failure keeps the pod out of the backup.
    pub fail: bool,
    pub timeout: Duration,
}

/// The hooks of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHooks {
    pub pre: Vec<Hook>,
    pub post: Vec<Hook>,
    pub warnings: Vec<String>,
}

impl PodHooks {
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.post.is_empty()
    }
}

/// What is wrong with the hooks of a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("spec.hooks[{name}]: {source}")]
    Pattern { name: String, source: GlobError },
    #[error("spec.hooks[{name}].labelSelector: {source}")]
    Selector { name: String, source: SelectorError },
}

/// The hooks of a spec, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct HookRules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    name: String,
    namespaces: Includes,
    selector: Selector,
    pre: Vec<BackupResourceHook>,
    post: Vec<BackupResourceHook>,
}

impl HookRules {
    pub fn new(spec: &BackupSpec, catalogue: &Catalogue) -> Result<Self, HookError> {
        let mut rules = Vec::new();
        for hook in spec.hooks.iter().flat_map(|hooks| hooks.resources.iter().flatten()) {
            let name = hook.name.clone();
            let pattern = |source| HookError::Pattern { name: name.clone(), source };
            let (included, excluded) =
                (resolved(catalogue, hook.included_resources.as_ref()), &hook.excluded_resources);
            let types = Includes::new(&included, &resolved(catalogue, excluded.as_ref())).map_err(pattern)?;
            if !types.takes("pods") {
                continue;
            }
            let namespaces = Includes::new(
                hook.included_namespaces.as_deref().unwrap_or_default(),
                hook.excluded_namespaces.as_deref().unwrap_or_default(),
            )
            .map_err(pattern)?;
            let selector = Selector::new(&hook.label_selector.clone().unwrap_or_default())
                .map_err(|source| HookError::Selector { name: name.clone(), source })?;
            let (pre, post) = (hook.pre.clone().unwrap_or_default(), hook.post.clone().unwrap_or_default());
            rules.push(Rule { name, namespaces, selector, pre, post });
        }
        Ok(Self { rules })
    }

    /// The hooks of a pod. One that has ended has none: nothing could run in it.
    pub fn of_pod(&self, pod: &Value) -> PodHooks {
        let mut hooks = PodHooks::default();
        if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            return hooks;
        }
        let annotations = map(pod, "/metadata/annotations");
        let first = text(pod, "/spec/containers/0/name");
        let pre = from_annotations(&annotations, "pre.", first, &mut hooks.warnings)
            .or_else(|| from_annotations(&annotations, "", first, &mut hooks.warnings));
        let post = from_annotations(&annotations, "post.", first, &mut hooks.warnings);
        let (namespace, labels) = (text(pod, "/metadata/namespace"), map(pod, "/metadata/labels"));
        let rules: Vec<_> = self
            .rules
            .iter()
            .filter(|rule| rule.namespaces.takes(namespace) && rule.selector.matches(&labels))
            .collect();
        hooks.pre = match pre {
            Some(hook) => vec![hook],
            None => rules.iter().flat_map(|rule| rule.hooks(&rule.pre, first)).collect(),
        };
        hooks.post = match post {
            Some(hook) => vec![hook],
            None => rules.iter().flat_map(|rule| rule.hooks(&rule.post, first)).collect(),
        };
        hooks
    }
}

impl Rule {
    fn hooks(&self, commands: &[BackupResourceHook], first: &str) -> Vec<Hook> {
        commands
            .iter()
            .map(|command| Hook {
                name: self.name.clone(),
                container: command
                    .exec
                    .container
                    .clone()
                    .filter(|name| !name.is_empty())
                    .unwrap_or(first.into()),
                command: command.exec.command.clone(),
                fail: command.exec.on_error == Some(HookErrorMode::Fail),
                timeout: timeout(command.exec.timeout),
            })
            .collect()
    }
}

fn timeout(given: Option<GoDuration>) -> Duration {
    GoDuration::set(given).and_then(GoDuration::to_std).unwrap_or(DEFAULT_TIMEOUT)
}

/// The hook of one half, where its command is given.
fn from_annotations(
    annotations: &BTreeMap<String, String>,
    half: &str,
    first: &str,
    warnings: &mut Vec<String>,
) -> Option<Hook> {
    let value = |key: &str| {
        let key = format!("{half}hook.backup.velero.io/{key}");
        annotations.get(&key).map(String::as_str).filter(|value| !value.is_empty())
    };
    let command = value("command")?;
    let timeout = value("timeout").and_then(|text| match text.parse::<GoDuration>() {
        Ok(duration) => Some(duration),
        Err(error) => {
            warnings.push(format!("annotation {half}hook.backup.velero.io/timeout: {error}; 30s is used"));
            None
        }
    });
    Some(Hook {
        name: "<from-annotation>".into(),
        container: value("container").unwrap_or(first).to_owned(),
        command: words(command),
        fail: value("on-error") == Some("Fail"),
        timeout: self::timeout(timeout),
    })
}

/// A JSON list of words, else one word.
fn words(command: &str) -> Vec<String> {
    let list = command.starts_with('[').then(|| serde_json::from_str(command).ok()).flatten();
    list.unwrap_or_else(|| vec![command.to_owned()])
}

fn resolved(catalogue: &Catalogue, names: Option<&Vec<String>>) -> Vec<String> {
    let pods = GroupResource::new("", "pods");
    let names = names.into_iter().flatten();
    names
        .map(|name| {
            let means_pods = catalogue.resolve(name).iter().any(|kind| kind.id == pods);
            if means_pods { "pods".to_owned() } else { name.clone() }
        })
        .collect()
}

fn map(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let pairs = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
#[path = "hooks/tests.rs"]
mod tests;
