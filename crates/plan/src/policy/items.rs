//! Resource policies of a Restore: for namespaces and for cluster-scoped types, which kinds, names and labels are restored.
//! Takes the text of the ConfigMap that a Restore names; gives filters that go before the Restore's own selectors. What a
//! Backup's policies say about volumes has no place here, as upstream.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::common::LabelSelector;
use serde::Deserialize;

use crate::catalogue::{Catalogue, ItemId};
use crate::glob::{Glob, GlobError};
use crate::includes::Includes;
use crate::selector::{Selector, SelectorError};

/// Why a text is no policy for restores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemPolicyError {
    #[error("the text cannot be read as resource policies: {0}")]
    Yaml(String),
    #[error("version is {0:?}; only v1 is known")]
    Version(String),
    #[error("{0} is not supported for restores; only for backups")]
    NotForRestores(&'static str),
    #[error("the ConfigMap must have exactly one key with the policies; it has {0}")]
    Keys(usize),
    #[error("{place} must name at least one {what}")]
    Missing { place: String, what: &'static str },
    #[error("{place}: {problem}")]
    Wrong { place: String, problem: String },
}

/// Policies that were found to be well formed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPolicies {
    cluster: Vec<WireFilter>,
    namespaces: Vec<WireNamespaces>,
}

/// What the policies say about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// Nothing: the Restore's own selectors count.
    None,
    Take,
    LeaveType,
    LeaveLabels,
    LeaveName,
}

impl ItemPolicies {
    /// From the data of the ConfigMap.
    pub fn from_data(data: &BTreeMap<String, String>) -> Result<Self, ItemPolicyError> {
        match data.values().next() {
            Some(text) if data.len() == 1 => Self::parse(text),
            _ => Err(ItemPolicyError::Keys(data.len())),
        }
    }

    pub fn parse(text: &str) -> Result<Self, ItemPolicyError> {
        let wire: Wire =
            serde_saphyr::from_str(text).map_err(|error| ItemPolicyError::Yaml(error.to_string()))?;
        if wire.version != "v1" {
            return Err(ItemPolicyError::Version(wire.version));
        }
        if !wire.volume_policies.is_empty() {
            return Err(ItemPolicyError::NotForRestores("volumePolicies"));
        }
        if wire.include_exclude_policy.is_some() {
            return Err(ItemPolicyError::NotForRestores("includeExcludePolicy"));
        }
        if let Some(policy) = &wire.cluster_scoped_filter_policy {
            let place = "clusterScopedFilterPolicy";
            check_filters(place, &policy.resource_filters)?;
            if let Some(at) = policy.resource_filters.iter().position(WireFilter::is_catch_all) {
                let place = format!("{place}.resourceFilters[{at}]");
                return Err(ItemPolicyError::Missing { place, what: "kind" });
            }
        }
        check_namespaces(&wire.namespaced_filter_policies)?;
        Ok(Self {
            cluster: wire.cluster_scoped_filter_policy.map(|one| one.resource_filters).unwrap_or_default(),
            namespaces: wire.namespaced_filter_policies,
        })
    }

    /// The same with the names of types resolved through what the cluster serves.
    pub fn resolve(&self, catalogue: &Catalogue) -> Result<ItemFilters, ItemPolicyError> {
        let namespaces = self.namespaces.iter().enumerate().map(|(at, policy)| {
            let place = format!("namespacedFilterPolicies[{at}]");
            let patterns = policy.namespaces.iter().map(|pattern| glob(&place, pattern));
            let patterns = patterns.collect::<Result<_, _>>()?;
            Ok((patterns, Filters::new(&place, &policy.resource_filters, catalogue)?))
        });
        Ok(ItemFilters {
            cluster: Filters::new("clusterScopedFilterPolicy", &self.cluster, catalogue)?,
            namespaces: namespaces.collect::<Result<_, _>>()?,
        })
    }
}

/// Policies, ready to be asked. The default says nothing about anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemFilters {
    cluster: Filters,
    namespaces: Vec<(Vec<Glob>, Filters)>,
}

impl ItemFilters {
    pub fn is_empty(&self) -> bool {
        self.cluster.filters.is_empty() && self.namespaces.is_empty()
    }

    /// Asks for one item of a backup. A namespace that is named goes before one that a pattern matches.
    pub fn judge(&self, item: &ItemId, kind: &str, labels: &BTreeMap<String, String>) -> Opinion {
        let Some(namespace) = &item.namespace else {
            let filter = self.cluster.of(&item.resource.to_string(), kind);
            return filter.map_or(Opinion::None, |filter| filter.judge(&item.name, labels));
        };
        let named = |(globs, _): &&(Vec<Glob>, Filters)| globs.iter().any(|one| one.as_str() == namespace);
        let matched = |(globs, _): &&(Vec<Glob>, Filters)| globs.iter().any(|one| one.matches(namespace));
        let found = self.namespaces.iter().find(named).or_else(|| self.namespaces.iter().find(matched));
        let Some((_, filters)) = found else { return Opinion::None };
        match filters.of(&item.resource.to_string(), kind).or(filters.catch_all.as_ref()) {
            Some(filter) => filter.judge(&item.name, labels),
            None => Opinion::LeaveType,
        }
    }
}

/// The filters of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filters {
    filters: Vec<(Kinds, Filter)>,
    catch_all: Option<Filter>,
}

/// The names of types as they were written, in lower case, and as the cluster knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kinds {
    written: Vec<String>,
    resolved: Vec<String>,
}

impl Filters {
    fn new(place: &str, wire: &[WireFilter], catalogue: &Catalogue) -> Result<Self, ItemPolicyError> {
        let mut made = Self::default();
        let mut seen = BTreeSet::new();
        for (at, one) in wire.iter().enumerate() {
            let place = format!("{place}.resourceFilters[{at}]");
            let filter = Filter::new(&place, one)?;
            if one.is_catch_all() {
                made.catch_all = Some(filter);
                continue;
            }
            let written: Vec<String> = one.kinds.iter().map(|kind| kind.to_lowercase()).collect();
            let mut resolved = Vec::new();
            for kind in &written {
                let known = catalogue.resolve(kind);
                let names = known.iter().map(|known| known.id.to_string());
                resolved.extend(if known.is_empty() { vec![kind.clone()] } else { names.collect() });
            }
            if let Some(twice) = resolved.iter().find(|name| !seen.insert((*name).clone())) {
                return Err(wrong(&place, format!("{twice} is named twice")));
            }
            made.filters.push((Kinds { written, resolved }, filter));
        }
        Ok(made)
    }

    /// By the type's name; a type that only the backup knows, by its kind.
    fn of(&self, resource: &str, kind: &str) -> Option<&Filter> {
        let by_name = self.filters.iter().find(|(kinds, _)| kinds.resolved.iter().any(|one| one == resource));
        let by_kind = || {
            let same = |one: &String| one.eq_ignore_ascii_case(kind);
            self.filters.iter().find(|(kinds, _)| kinds.written.iter().any(same))
        };
        by_name.or_else(by_kind).map(|(_, filter)| filter)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    /// One of them has to match; empty for all labels.
    selectors: Vec<Selector>,
    names: Includes,
}

impl Filter {
    fn new(place: &str, wire: &WireFilter) -> Result<Self, ItemPolicyError> {
        let selectors = wire.label_selector.iter().chain(&wire.or_label_selectors);
        let selectors = selectors.map(Selector::new).collect::<Result<Vec<_>, _>>();
        let selectors = selectors.map_err(|error: SelectorError| wrong(place, error.to_string()))?;
        let names = Includes::new(&wire.names, &wire.excluded_names);
        Ok(Self {
            selectors: selectors.into_iter().filter(|one| !one.is_everything()).collect(),
            names: names.map_err(|error| wrong(place, error.to_string()))?,
        })
    }

    fn judge(&self, name: &str, labels: &BTreeMap<String, String>) -> Opinion {
        if !self.selectors.is_empty() && !self.selectors.iter().any(|one| one.matches(labels)) {
            return Opinion::LeaveLabels;
        }
        if self.names.takes(name) { Opinion::Take } else { Opinion::LeaveName }
    }
}

fn check_namespaces(policies: &[WireNamespaces]) -> Result<(), ItemPolicyError> {
    let mut seen = BTreeSet::new();
    for (at, policy) in policies.iter().enumerate() {
        let place = format!("namespacedFilterPolicies[{at}]");
        if policy.namespaces.is_empty() {
            return Err(ItemPolicyError::Missing { place, what: "namespace" });
        }
        for pattern in &policy.namespaces {
            if pattern.contains(['|', '(', ')', '!', '{', '}', ',']) || pattern.contains("**") {
                let problem = format!("{pattern:?} is no name or pattern of a namespace; use *, ? and […]");
                return Err(wrong(&place, problem));
            }
            glob(&place, pattern)?;
            if !seen.insert(pattern) {
                return Err(wrong(&place, format!("namespace {pattern:?} is named twice")));
            }
        }
        check_filters(&place, &policy.resource_filters)?;
    }
    Ok(())
}

fn check_filters(place: &str, filters: &[WireFilter]) -> Result<(), ItemPolicyError> {
    if filters.is_empty() {
        return Err(ItemPolicyError::Missing { place: place.to_owned(), what: "resourceFilter" });
    }
    let mut seen = BTreeSet::new();
    for (at, filter) in filters.iter().enumerate() {
        let place = format!("{place}.resourceFilters[{at}]");
        Filter::new(&place, filter)?;
        if filter.label_selector.is_some() && !filter.or_label_selectors.is_empty() {
            return Err(wrong(&place, "labelSelector and orLabelSelectors cannot stand together".to_owned()));
        }
        if filter.is_catch_all() {
            if !filter.names.is_empty() || !filter.excluded_names.is_empty() {
                return Err(wrong(&place, "a filter for all kinds takes no names".to_owned()));
            }
            if !seen.insert("*") {
                return Err(wrong(&place, "there are two filters for all kinds".to_owned()));
            }
        }
        for kind in filter.kinds.iter().filter(|kind| *kind != "*") {
            if !seen.insert(kind) {
                return Err(wrong(&place, format!("kind {kind:?} is named twice")));
            }
        }
    }
    Ok(())
}

fn glob(place: &str, pattern: &str) -> Result<Glob, ItemPolicyError> {
    Glob::new(pattern).map_err(|error: GlobError| wrong(place, error.to_string()))
}

fn wrong(place: &str, problem: String) -> ItemPolicyError {
    ItemPolicyError::Wrong { place: place.to_owned(), problem }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    version: String,
    #[serde(default)]
    volume_policies: Vec<serde_json::Value>,
    #[serde(default)]
    include_exclude_policy: Option<serde_json::Value>,
    #[serde(default)]
    cluster_scoped_filter_policy: Option<WireCluster>,
    #[serde(default)]
    namespaced_filter_policies: Vec<WireNamespaces>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireCluster {
    #[serde(default)]
    resource_filters: Vec<WireFilter>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireNamespaces {
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    resource_filters: Vec<WireFilter>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireFilter {
    kinds: Vec<String>,
    label_selector: Option<LabelSelector>,
    or_label_selectors: Vec<LabelSelector>,
    names: Vec<String>,
    excluded_names: Vec<String>,
}

impl WireFilter {
    fn is_catch_all(&self) -> bool {
        self.kinds.is_empty() || self.kinds == ["*"]
    }
}

#[cfg(test)]
mod tests;
