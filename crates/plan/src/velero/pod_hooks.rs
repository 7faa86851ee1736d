//! The part that hooks of backups ([`super::hooks`]) and of restores ([`super::restore::hooks`]) share: which pods a hook
//! of a spec applies to, how a pod's annotations define a hook, and the defaults of a command. As upstream: a command that
//! is not a JSON list is a single argument, and only the literal `Fail` makes a failure count.

use std::collections::BTreeMap;
use std::time::Duration;

use lifeboat_api::common::{GoDuration, LabelSelector};
use serde_json::Value;

use crate::glob::GlobError;
use crate::includes::Includes;
use crate::selector::{Selector, SelectorError};

/// The name of a hook that a pod's annotations define.
pub(super) const FROM_ANNOTATION: &str = "<from-annotation>";
/// The time limit of a command without one of its own.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Annotation of a pod, `secret`: the output of its hooks is not in the log, which is stored in the bucket.
const HOOK_OUTPUT: &str = "lifeboat.io/hook-output";

/// Whether nothing that the hooks of a pod print may be written down.
pub(super) fn is_secret(pod: &Value) -> bool {
    pod["metadata"]["annotations"][HOOK_OUTPUT] == "secret"
}

/// A hook of a spec, and the pods that it applies to. `C` holds its commands.
#[derive(Clone, Debug)]
pub(super) struct HookRule<C> {
    pub(super) name: String,
    namespaces: Includes,
    selector: Selector,
    pub(super) commands: C,
}

/// Why a hook of a spec cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookRuleError {
    Namespaces(GlobError),
    Selector(SelectorError),
}

/// The fields of a spec that say which pods a hook applies to.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookScope<'a> {
    pub(super) included_namespaces: Option<&'a Vec<String>>,
    pub(super) excluded_namespaces: Option<&'a Vec<String>>,
    pub(super) selector: Option<&'a LabelSelector>,
}

impl<C> HookRule<C> {
    pub(super) fn new(name: &str, scope: HookScope<'_>, commands: C) -> Result<Self, HookRuleError> {
        let list = |names: Option<&Vec<String>>| names.cloned().unwrap_or_default();
        let (included, excluded) = (list(scope.included_namespaces), list(scope.excluded_namespaces));
        let namespaces = Includes::new(&included, &excluded).map_err(HookRuleError::Namespaces)?;
        let selector = scope.selector.map(Selector::new).transpose().map_err(HookRuleError::Selector)?;
        Ok(Self { name: name.to_owned(), namespaces, selector: selector.unwrap_or_default(), commands })
    }

    /// Whether the hook applies to a pod with these labels.
    pub(super) fn applies_to(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.takes(namespace) && self.selector.matches(labels)
    }
}

/// The annotations of a pod that define one hook: those with a prefix such as `post.hook.restore.velero.io/`.
pub(super) struct HookAnnotations<'a> {
    pod: &'a Value,
    prefix: String,
}

impl<'a> HookAnnotations<'a> {
    pub(super) fn new(pod: &'a Value, prefix: impl Into<String>) -> Self {
        Self { pod, prefix: prefix.into() }
    }

    /// The value of a key; an empty one counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        let value = self.pod["metadata"]["annotations"][format!("{}{key}", self.prefix)].as_str();
        value.filter(|value| !value.is_empty())
    }

    pub(super) fn command(&self) -> Option<Vec<String>> {
        self.get("command").map(arguments)
    }

    /// The container to run the command in; `first` is the default.
    pub(super) fn container(&self, first: &str) -> String {
        self.get("container").unwrap_or(first).to_owned()
    }

    pub(super) fn fails(&self) -> bool {
        self.get("on-error") == Some("Fail")
    }
}

/// The container that a spec names; `first` is the default.
pub(super) fn container(given: Option<&String>, first: &str) -> String {
    given.filter(|name| !name.is_empty()).map_or_else(|| first.to_owned(), Clone::clone)
}

/// A duration that is set: neither missing nor zero nor negative.
pub(super) fn duration(given: Option<GoDuration>) -> Option<Duration> {
    GoDuration::set(given).and_then(GoDuration::to_std)
}

/// The labels of a pod.
pub(super) fn labels(pod: &Value) -> BTreeMap<String, String> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The arguments of a command: the elements of a JSON list, or the text as a single one.
fn arguments(command: &str) -> Vec<String> {
    let list = command.starts_with('[').then(|| serde_json::from_str(command).ok()).flatten();
    list.unwrap_or_else(|| vec![command.to_owned()])
}
