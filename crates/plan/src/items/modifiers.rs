//! Resource modifiers: rules in a ConfigMap that change objects before they are restored. Strict YAML with upstream's
//! format and messages. Read once per restore, applied by the executor to each item after the actions.

mod error;
mod json_patch;
mod strategic;

use lifeboat_api::catalogue::GroupResource;
use lifeboat_api::common::LabelSelector;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::glob::Glob;
use crate::includes::Includes;
use crate::selector::Selector;
use json_patch::{JsonPatch, PatchError};

pub use error::ModifierError;
pub use json_patch::OperationError;

/// Validated rules. The default changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Modifiers {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    namespaces: Includes,
    group_resource: Vec<Glob>,
    name: Option<Regex>,
    selector: Option<Selector>,
    matches: Vec<JsonPatch>,
    patch: Patch,
}

#[derive(Clone, Debug)]
enum Patch {
    Json(Vec<JsonPatch>),
    Merge(Vec<Value>),
    Strategic(Vec<Value>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawModifiers {
    #[serde(default)]
    version: String,
    #[serde(default)]
    resource_modifier_rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawRule {
    #[serde(default)]
    conditions: RawConditions,
    #[serde(default)]
    patches: Vec<RawPatch>,
    #[serde(default)]
    merge_patches: Vec<RawData>,
    #[serde(default)]
    strategic_patches: Vec<RawData>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawConditions {
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    group_resource: String,
    #[serde(default)]
    resource_name_regex: String,
    label_selector: Option<LabelSelector>,
    #[serde(default)]
    matches: Vec<RawMatch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    #[serde(default)]
    path: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPatch {
    #[serde(default)]
    operation: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawData {
    #[serde(default)]
    patch_data: String,
}

impl Modifiers {
    /// Parses the single value of the ConfigMap.
    pub fn parse(yaml: &str) -> Result<Self, ModifierError> {
        let raw: RawModifiers = serde_saphyr::from_str(yaml).map_err(ModifierError::Yaml)?;
        if !raw.version.eq_ignore_ascii_case("v1") {
            return Err(ModifierError::Version(raw.version));
        }
        if raw.resource_modifier_rules.is_empty() {
            return Err(ModifierError::NoRules);
        }
        let rules = raw.resource_modifier_rules.into_iter().map(rule).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Applies every rule whose conditions the unmodified object meets. Returns a message for each rule that cannot
    /// be applied; the object then keeps the changes of the other rules.
    pub fn apply(&self, object: &mut Value, resource: &GroupResource) -> Vec<String> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let origin = object.clone();
        let mut problems = Vec::new();
        for (rule, number) in self.rules.iter().zip(1..) {
            match rule.matches(&origin, resource) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(problem) => {
                    problems.push(describe(&origin, number, &problem));
                    continue;
                }
            }
            if let Err(problem) = rule.patch.apply(object) {
                problems.push(describe(&origin, number, &problem));
            }
        }
        problems
    }
}

/// A problem prefixed with the object and the number of the rule.
fn describe(object: &Value, number: usize, problem: &str) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let name = match text("/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    format!("{kind} {name}: rule {number} of the resource modifiers: {problem}")
}

impl Rule {
    fn matches(&self, object: &Value, resource: &GroupResource) -> Result<bool, String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = text("/metadata/namespace");
        if !namespace.is_empty() && !self.namespaces.takes(namespace) {
            return Ok(false);
        }
        if !matches_type(&self.group_resource, resource) {
            return Ok(false);
        }
        if self.name.as_ref().is_some_and(|name| !name.is_match(text("/metadata/name"))) {
            return Ok(false);
        }
        if let Some(selector) = &self.selector {
            let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
            let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            if !selector.matches(&labels.collect()) {
                return Ok(false);
            }
        }
        match json_patch::apply(object, &self.matches) {
            Ok(_) => Ok(true),
            Err(PatchError::TestFailed(_) | PatchError::Missing(_)) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Patch {
    fn apply(&self, object: &mut Value) -> Result<(), String> {
        match self {
            Self::Json(patches) => match json_patch::apply(object, patches) {
                Ok(changed) => *object = changed,
                // As upstream: if a test fails, the rule changes nothing.
                Err(PatchError::TestFailed(_)) => {}
                Err(error) => return Err(format!("error in applying JSON Patch: {error}")),
            },
            Self::Merge(patches) => patches.iter().for_each(|patch| merge(object, patch)),
            Self::Strategic(patches) => {
                for patch in patches {
                    strategic::merge(object, patch)
                        .map_err(|error| format!("error in applying Strategic Patch: {error}"))?;
                }
            }
        }
        Ok(())
    }
}

/// Applies a JSON merge patch, RFC 7386.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, change) in changes {
        if change.is_null() {
            target.as_object_mut().map(|fields| fields.remove(key));
        } else {
            merge(&mut target[key], change);
        }
    }
}

fn rule(raw: RawRule) -> Result<Rule, ModifierError> {
    let RawConditions { namespaces, group_resource, resource_name_regex, label_selector, matches } =
        raw.conditions;
    if group_resource.is_empty() {
        return Err(ModifierError::NoType);
    }
    let given = [!raw.patches.is_empty(), !raw.merge_patches.is_empty(), !raw.strategic_patches.is_empty()];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(ModifierError::SeveralPatches);
    }
    let group_resource = group_resource.split('.').map(Glob::new).collect::<Result<Vec<_>, _>>();
    Ok(Rule {
        namespaces: Includes::new(&namespaces, &[])?,
        group_resource: group_resource?,
        name: (!resource_name_regex.is_empty()).then(|| Regex::new(&resource_name_regex)).transpose()?,
        selector: label_selector.map(|selector| Selector::new(&selector)).transpose()?,
        matches: matches.into_iter().map(test).collect::<Result<_, _>>()?,
        patch: patch(raw.patches, &raw.merge_patches, &raw.strategic_patches)?,
    })
}

fn patch(patches: Vec<RawPatch>, merge: &[RawData], strategic: &[RawData]) -> Result<Patch, ModifierError> {
    if !patches.is_empty() {
        let read = |raw: RawPatch| JsonPatch::new(&raw.operation, raw.from, raw.path, &raw.value);
        return Ok(Patch::Json(patches.into_iter().map(read).collect::<Result<_, _>>()?));
    }
    let data = |list: &[RawData]| list.iter().map(|raw| yaml(&raw.patch_data)).collect::<Result<Vec<_>, _>>();
    match (merge.is_empty(), strategic.is_empty()) {
        (false, _) => data(merge).map(Patch::Merge),
        (true, false) => data(strategic).map(Patch::Strategic),
        (true, true) => Err(ModifierError::NoPatch),
    }
}

fn test(raw: RawMatch) -> Result<JsonPatch, ModifierError> {
    if raw.path.is_empty() {
        return Err(ModifierError::NoMatchPath);
    }
    Ok(JsonPatch::new("test", String::new(), raw.path, &raw.value)?)
}

fn yaml(text: &str) -> Result<Value, ModifierError> {
    serde_saphyr::from_str(text).map_err(ModifierError::PatchData)
}

/// As in upstream's patterns, `*` does not match a dot; `**` does.
fn matches_type(pattern: &[Glob], resource: &GroupResource) -> bool {
    let full = resource.to_string();
    if let [only] = pattern
        && only.as_str() == "**"
    {
        return true;
    }
    let parts: Vec<&str> = full.split('.').collect();
    parts.len() == pattern.len() && parts.iter().zip(pattern).all(|(part, glob)| glob.matches(part))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main", "image": "a"}]}}}})
    }

    fn modified(rule: &str) -> (Value, Vec<String>) {
        let yaml = format!("version: v1\nresourceModifierRules:\n- {}", rule.replace('\n', "\n  "));
        let mut object = deployment();
        let problems =
            Modifiers::parse(&yaml).unwrap().apply(&mut object, &GroupResource::parse("deployments.apps"));
        (object, problems)
    }

    #[test]
    fn a_json_patch_changes_an_object_that_meets_the_conditions() {
        let rule = r#"conditions:
  groupResource: deployments.apps
  namespaces: [shop]
  resourceNameRegex: "^web-.*"
  labelSelector: {matchLabels: {app: web}}
  matches: [{path: /spec/replicas, value: "3"}]
patches:
- {operation: replace, path: /spec/replicas, value: "1"}
- {operation: add, path: /metadata/labels/copy, value: "yes"}
- {operation: add, path: /metadata/labels/number, value: "\"7\""}"#;
        let (object, problems) = modified(rule);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(object["spec"]["replicas"], 1);
        assert_eq!(object["metadata"]["labels"], json!({"app": "web", "copy": "yes", "number": "7"}));
    }

    #[rstest]
    #[case::type_of_another_group("conditions: {groupResource: \"*\"}")]
    #[case::namespace("conditions: {groupResource: \"*.apps\", namespaces: [other]}")]
    #[case::name("conditions: {groupResource: deployments.apps, resourceNameRegex: \"^db\"}")]
    #[case::labels("conditions: {groupResource: deployments.apps, labelSelector: {matchLabels: {app: db}}}")]
    #[case::value(
        "conditions: {groupResource: deployments.apps, matches: [{path: /spec/replicas, value: \"4\"}]}"
    )]
    #[case::missing(
        "conditions: {groupResource: deployments.apps, matches: [{path: /spec/paused, value: \"true\"}]}"
    )]
    fn an_object_that_does_not_meet_the_conditions_stays(#[case] conditions: &str) {
        let (object, problems) =
            modified(&format!("{conditions}\nmergePatches: [{{patchData: \"{{spec: {{replicas: 0}}}}\"}}]"));
        assert_eq!((object, problems), (deployment(), Vec::new()));
    }

    #[test]
    fn merge_and_strategic_patches_treat_lists_differently() {
        let data = r#"[{patchData: '{"spec": {"template": {"spec": {"containers": [{"name": "side"}]}}}}'}]"#;
        let (merged, _) =
            modified(&format!("conditions: {{groupResource: deployments.apps}}\nmergePatches: {data}"));
        assert_eq!(merged["spec"]["template"]["spec"]["containers"], json!([{"name": "side"}]));
        let (strategic, _) =
            modified(&format!("conditions: {{groupResource: deployments.apps}}\nstrategicPatches: {data}"));
        let names = strategic["spec"]["template"]["spec"]["containers"].as_array().unwrap().len();
        assert_eq!(names, 2);
    }

    #[test]
    fn a_failed_test_changes_nothing_and_a_missing_path_is_a_problem() {
        let conditions = "conditions: {groupResource: deployments.apps}";
        let patches = "patches: [{operation: test, path: /spec/replicas, value: \"9\"}, {operation: remove, path: /spec}]";
        assert_eq!(modified(&format!("{conditions}\n{patches}")), (deployment(), Vec::new()));
        let (_, problems) =
            modified(&format!("{conditions}\npatches: [{{operation: remove, path: /spec/nothing}}]"));
        let message =
            "Deployment shop/web-1: rule 1 of the resource modifiers: error in applying JSON Patch: ";
        assert!(problems[0].starts_with(message) && problems[0].contains("/spec/nothing"), "{problems:?}");
    }

    #[rstest]
    #[case::unknown_field("version: v1\nrules: []", "failed to decode yaml data")]
    #[case::version("version: v2", "unsupported resource modifier version v2")]
    #[case::no_rules("version: v1", "resource modifier rules cannot be empty")]
    #[case::no_type(
        "version: v1\nresourceModifierRules: [{conditions: {}, mergePatches: [{patchData: '{}'}]}]",
        "conditions.groupResource cannot be empty"
    )]
    #[case::two_kinds(
        "version: v1\nresourceModifierRules: [{conditions: {groupResource: pods}, mergePatches: [{patchData: '{}'}], strategicPatches: [{patchData: '{}'}]}]",
        "only one of patches"
    )]
    #[case::operation(
        "version: v1\nresourceModifierRules: [{conditions: {groupResource: pods}, patches: [{operation: increase, path: /a}]}]",
        "unsupported operation increase"
    )]
    #[case::regex(
        "version: v1\nresourceModifierRules: [{conditions: {groupResource: pods, resourceNameRegex: '('}, mergePatches: [{patchData: '{}'}]}]",
        "error in matching regex"
    )]
    #[case::nothing_to_do(
        "version: v1\nresourceModifierRules: [{conditions: {groupResource: pods}}]",
        "no patch data found"
    )]
    fn broken_rules_are_named(#[case] yaml: &str, #[case] expected: &str) {
        let error = Modifiers::parse(yaml).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
