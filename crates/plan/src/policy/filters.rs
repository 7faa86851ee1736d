//! Filters of a policy for single namespaces and for cluster-scoped types: which types, labels and names are
//! included. Takes the parsed YAML; gives validated rules, with upstream's semantics.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;

use super::PolicyError;
use crate::glob::Glob;
use crate::includes::Includes;
use crate::selector::Selector;

/// The rule for some types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// Names of types as written; empty for every type that no other rule names.
    pub kinds: Vec<String>,
    /// At least one of them must match; empty means that labels are not checked.
    pub selectors: Vec<Selector>,
    pub names: Includes,
}

/// The rules for some namespaces: an exclusive list of types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespacedRule {
    pub namespaces: Vec<Glob>,
    pub resources: Vec<ResourceRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WireCluster {
    #[serde(default)]
    resource_filters: Vec<WireFilter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WireNamespaced {
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    resource_filters: Vec<WireFilter>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireFilter {
    kinds: Vec<String>,
    label_selector: Option<WireSelector>,
    or_label_selectors: Vec<WireSelector>,
    names: Vec<String>,
    excluded_names: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<WireRequirement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireRequirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

/// An error with its position in the text.
fn wrong(at: impl Into<String>, problem: impl Into<String>) -> PolicyError {
    PolicyError::Filter { at: at.into(), problem: problem.into() }
}

impl WireCluster {
    pub(super) fn compile(self) -> Result<Vec<ResourceRule>, PolicyError> {
        let at = "clusterScopedFilterPolicy";
        if self.resource_filters.is_empty() {
            return Err(wrong(at, "it needs at least one of resourceFilters; without any, leave it out"));
        }
        let rules = rules(at, self.resource_filters)?;
        match rules.iter().position(|rule| rule.kinds.is_empty()) {
            Some(place) => {
                Err(wrong(format!("{at}.resourceFilters[{place}]"), "kinds other than '*' are required here"))
            }
            None => Ok(rules),
        }
    }
}

pub(super) fn namespaced(wire: Vec<WireNamespaced>) -> Result<Vec<NamespacedRule>, PolicyError> {
    let mut seen = BTreeSet::new();
    let mut compiled = Vec::new();
    for (place, policy) in wire.into_iter().enumerate() {
        let at = format!("namespacedFilterPolicies[{place}]");
        if policy.namespaces.is_empty() || policy.resource_filters.is_empty() {
            return Err(wrong(at, "it needs at least one of namespaces and of resourceFilters"));
        }
        let mut namespaces = Vec::new();
        for name in &policy.namespaces {
            if !seen.insert(name.clone()) {
                return Err(wrong(at, format!("the namespace {name:?} is named twice")));
            }
            if name.is_empty() || name.contains("**") || name.contains(['|', '(', ')', '!', '{', '}', ',']) {
                return Err(wrong(at, format!("{name:?} is neither a namespace nor a namespace pattern")));
            }
            namespaces.push(Glob::new(name).map_err(|error| wrong(&at, error.to_string()))?);
        }
        compiled.push(NamespacedRule { namespaces, resources: rules(&at, policy.resource_filters)? });
    }
    Ok(compiled)
}

fn rules(at: &str, filters: Vec<WireFilter>) -> Result<Vec<ResourceRule>, PolicyError> {
    let mut kinds = BTreeSet::new();
    let mut compiled = Vec::new();
    for (place, filter) in filters.into_iter().enumerate() {
        let here = format!("{at}.resourceFilters[{place}]");
        let rule = filter.compile(&here)?;
        for kind in &rule.kinds {
            if !kinds.insert(kind.clone()) {
                return Err(wrong(here, format!("the kind {kind:?} is in two resourceFilters")));
            }
        }
        if rule.kinds.is_empty() && !kinds.insert("*".to_owned()) {
            return Err(wrong(here, "only one of resourceFilters may be for every kind"));
        }
        compiled.push(rule);
    }
    Ok(compiled)
}

impl WireFilter {
    fn compile(self, at: &str) -> Result<ResourceRule, PolicyError> {
        let every = self.kinds.is_empty() || self.kinds == ["*"];
        if every && !(self.names.is_empty() && self.excluded_names.is_empty()) {
            return Err(wrong(at, "names and excludedNames need kinds that they are for"));
        }
        let single = self.label_selector.filter(|selector| !selector.is_empty());
        if single.is_some() && !self.or_label_selectors.is_empty() {
            return Err(wrong(at, "labelSelector and orLabelSelectors cannot both be given"));
        }
        let any = self.or_label_selectors.into_iter().filter(|selector| !selector.is_empty());
        let selectors = single.into_iter().chain(any).map(|selector| {
            Selector::new(&selector.into_selector()).map_err(|error| wrong(at, error.to_string()))
        });
        Ok(ResourceRule {
            kinds: if every {
                Vec::new()
            } else {
                self.kinds.into_iter().filter(|kind| kind != "*").collect()
            },
            selectors: selectors.collect::<Result<_, _>>()?,
            names: Includes::new(&self.names, &self.excluded_names)
                .map_err(|error| wrong(at, error.to_string()))?,
        })
    }
}

impl WireSelector {
    fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    fn into_selector(self) -> LabelSelector {
        let expressions = self.match_expressions.into_iter().map(|one| LabelSelectorRequirement {
            key: one.key,
            operator: one.operator,
            values: Some(one.values).filter(|values| !values.is_empty()),
        });
        LabelSelector {
            match_labels: Some(self.match_labels),
            match_expressions: Some(expressions.collect()),
        }
    }
}
