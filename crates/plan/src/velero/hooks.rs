//! Hooks of backups: the commands that run in a pod before and after it is backed up. Takes the Backup's spec and the pod;
//! gives the commands. Called by the backup pipeline, which records them in the journal in this form before it runs them.
//!
//! As upstream: an annotation of the pod overrides the spec, separately for pre and post hooks. What restores have in common
//! with it is in [`super::pod_hooks`].

use std::time::Duration;

use lifeboat_api::catalogue::{Catalogue, GroupResource};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{BackupResourceHook, BackupResourceHookSpec, BackupSpec, HookErrorMode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pod_hooks::{
    DEFAULT_TIMEOUT, FROM_ANNOTATION, HookAnnotations, HookRule, HookRuleError, HookScope, container,
    duration, is_secret, labels,
};
use crate::glob::GlobError;
use crate::includes::Includes;
use crate::json::text;
use crate::selector::SelectorError;

/// One command to run in one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The hook's name in the spec, or `<from-annotation>`.
    pub name: String,
    /// Empty if the pod has no container.
    pub container: String,
    pub command: Vec<String>,
    /// Whether a failure keeps the pod out of the backup.
    pub fail: bool,
    pub timeout: Duration,
    /// Whether nothing that the command prints may be written down.
    #[serde(default)]
    pub is_secret: bool,
}

impl Hook {
    /// What the log shows of a command's output.
    pub fn shown<'a>(&self, output: &'a str) -> &'a str {
        if self.is_secret && !output.is_empty() { "(secret)" } else { output }
    }
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

/// Why the hooks of a spec are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("spec.hooks[{name}]: {source}")]
    Pattern { name: String, source: GlobError },
    #[error("spec.hooks[{name}].labelSelector: {source}")]
    Selector { name: String, source: SelectorError },
}

/// The compiled hooks of a spec.
#[derive(Clone, Debug, Default)]
pub struct HookRules {
    rules: Vec<HookRule<Commands>>,
}

/// The commands of one hook.
#[derive(Clone, Debug)]
struct Commands {
    pre: Vec<BackupResourceHook>,
    post: Vec<BackupResourceHook>,
}

impl HookRules {
    pub fn new(spec: &BackupSpec, catalogue: &Catalogue) -> Result<Self, HookError> {
        let mut rules = Vec::new();
        for hook in spec.hooks.iter().flat_map(|hooks| hooks.resources.iter().flatten()) {
            let name = hook.name.clone();
            if includes_pods(hook, catalogue)
                .map_err(|source| HookError::Pattern { name: name.clone(), source })?
            {
                rules.push(rule(hook).map_err(|error| match error {
                    HookRuleError::Namespaces(source) => HookError::Pattern { name, source },
                    HookRuleError::Selector(source) => HookError::Selector { name, source },
                })?);
            }
        }
        Ok(Self { rules })
    }

    /// The hooks of a pod. A pod that has ended has none, because no command can run in it.
    pub fn of_pod(&self, pod: &Value) -> PodHooks {
        let mut hooks = PodHooks::default();
        if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            return hooks;
        }
        let first = text(pod, "/spec/containers/0/name");
        let pre = from_annotations(pod, "pre.", first, &mut hooks.warnings)
            .or_else(|| from_annotations(pod, "", first, &mut hooks.warnings));
        let post = from_annotations(pod, "post.", first, &mut hooks.warnings);
        let (namespace, labels) = (text(pod, "/metadata/namespace"), labels(pod));
        let rules: Vec<_> = self.rules.iter().filter(|rule| rule.applies_to(namespace, &labels)).collect();
        hooks.pre = match pre {
            Some(hook) => vec![hook],
            None => rules.iter().flat_map(|rule| of_spec(&rule.name, &rule.commands.pre, first)).collect(),
        };
        hooks.post = match post {
            Some(hook) => vec![hook],
            None => rules.iter().flat_map(|rule| of_spec(&rule.name, &rule.commands.post, first)).collect(),
        };
        if is_secret(pod) {
            hooks.pre.iter_mut().chain(&mut hooks.post).for_each(|hook| hook.is_secret = true);
        }
        hooks
    }
}

fn rule(hook: &BackupResourceHookSpec) -> Result<HookRule<Commands>, HookRuleError> {
    let scope = HookScope {
        included_namespaces: hook.included_namespaces.as_ref(),
        excluded_namespaces: hook.excluded_namespaces.as_ref(),
        selector: hook.label_selector.as_ref(),
    };
    let (pre, post) = (hook.pre.clone().unwrap_or_default(), hook.post.clone().unwrap_or_default());
    HookRule::new(&hook.name, scope, Commands { pre, post })
}

/// Whether the types of a hook include pods.
fn includes_pods(hook: &BackupResourceHookSpec, catalogue: &Catalogue) -> Result<bool, GlobError> {
    let included = resolved(catalogue, hook.included_resources.as_ref());
    let excluded = resolved(catalogue, hook.excluded_resources.as_ref());
    Ok(Includes::new(&included, &excluded)?.takes("pods"))
}

fn of_spec(name: &str, commands: &[BackupResourceHook], first: &str) -> Vec<Hook> {
    let hooks = commands.iter().map(|command| Hook {
        name: name.to_owned(),
        container: container(command.exec.container.as_ref(), first),
        command: command.exec.command.clone(),
        fail: command.exec.on_error == Some(HookErrorMode::Fail),
        timeout: duration(command.exec.timeout).unwrap_or(DEFAULT_TIMEOUT),
        is_secret: false,
    });
    hooks.collect()
}

/// The hook in a pod's annotations, if they have a command. `half` is `pre.` or `post.`; without it, it is a pre hook.
fn from_annotations(pod: &Value, half: &str, first: &str, warnings: &mut Vec<String>) -> Option<Hook> {
    let annotations = HookAnnotations::new(pod, format!("{half}hook.backup.velero.io/"));
    let command = annotations.command()?;
    let timeout = annotations.get("timeout").and_then(|text| match text.parse::<GoDuration>() {
        Ok(duration) => Some(duration),
        Err(error) => {
            warnings.push(format!("annotation {half}hook.backup.velero.io/timeout: {error}; 30s is used"));
            None
        }
    });
    Some(Hook {
        name: FROM_ANNOTATION.to_owned(),
        container: annotations.container(first),
        command,
        fail: annotations.fails(),
        timeout: duration(timeout).unwrap_or(DEFAULT_TIMEOUT),
        is_secret: false,
    })
}

/// The names of types, with every name of pods replaced by `pods`.
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

#[cfg(test)]
#[path = "hooks/tests.rs"]
mod tests;
