//! Resource policies of a Restore: which kinds, names and labels are restored, for namespaces and for cluster-scoped
//! types. Takes the text of the ConfigMap that a Restore references; gives filters that override the Restore's own
//! selectors. Volume policies, which a Backup may have, are an error here, as upstream.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::catalogue::{Catalogue, ItemId};

use super::{NamespacedRule, Policies, PolicyError, ResourceRule};
use crate::glob::Glob;

/// Why a text is not a valid policy for restores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemPolicyError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("{0} is not supported for restores; only for backups")]
    NotForRestores(&'static str),
    #[error("{place}: {name} is named twice")]
    Twice { place: String, name: String },
}

/// Validated policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPolicies {
    cluster: Vec<ResourceRule>,
    namespaces: Vec<NamespacedRule>,
}

/// The result of the policies for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// No policy applies: the Restore's own selectors are used.
    None,
    Take,
    LeaveType,
    LeaveLabels,
    LeaveName,
}

impl ItemPolicies {
    /// Parses the data of the ConfigMap.
    pub fn from_data(data: &BTreeMap<String, String>) -> Result<Self, ItemPolicyError> {
        Self::of(Policies::from_data(data)?)
    }

    pub fn parse(text: &str) -> Result<Self, ItemPolicyError> {
        Self::of(Policies::parse(text)?)
    }

    fn of(policies: Policies) -> Result<Self, ItemPolicyError> {
        if !policies.volumes.is_empty() {
            return Err(ItemPolicyError::NotForRestores("volumePolicies"));
        }
        if policies.include_exclude.is_some() {
            return Err(ItemPolicyError::NotForRestores("includeExcludePolicy"));
        }
        Ok(Self { cluster: policies.cluster_filters, namespaces: policies.namespaced_filters })
    }

    /// Compiles the policies into filters, with names of types resolved through the types that the cluster serves.
    pub fn resolve(&self, catalogue: &Catalogue) -> Result<ItemFilters, ItemPolicyError> {
        let namespaces = self.namespaces.iter().enumerate().map(|(at, rule)| {
            let place = format!("namespacedFilterPolicies[{at}]");
            Ok((rule.namespaces.clone(), Filters::new(&place, &rule.resources, catalogue)?))
        });
        Ok(ItemFilters {
            cluster: Filters::new("clusterScopedFilterPolicy", &self.cluster, catalogue)?,
            namespaces: namespaces.collect::<Result<_, ItemPolicyError>>()?,
        })
    }
}

/// Compiled policies. The default applies to no item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemFilters {
    cluster: Filters,
    namespaces: Vec<(Vec<Glob>, Filters)>,
}

impl ItemFilters {
    pub fn is_empty(&self) -> bool {
        self.cluster.filters.is_empty() && self.namespaces.is_empty()
    }

    /// Evaluates the policies for one item of a backup. A namespace listed by name takes precedence over a pattern.
    pub fn judge(&self, item: &ItemId, kind: &str, labels: &BTreeMap<String, String>) -> Opinion {
        let Some(namespace) = &item.namespace else {
            let rule = self.cluster.of(&item.resource.to_string(), kind);
            return rule.map_or(Opinion::None, |rule| judge(rule, &item.name, labels));
        };
        let named = |(globs, _): &&(Vec<Glob>, Filters)| globs.iter().any(|one| one.as_str() == namespace);
        let matched = |(globs, _): &&(Vec<Glob>, Filters)| globs.iter().any(|one| one.matches(namespace));
        let found = self.namespaces.iter().find(named).or_else(|| self.namespaces.iter().find(matched));
        let Some((_, filters)) = found else { return Opinion::None };
        match filters.of(&item.resource.to_string(), kind).or(filters.catch_all.as_ref()) {
            Some(rule) => judge(rule, &item.name, labels),
            None => Opinion::LeaveType,
        }
    }
}

/// The filters of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filters {
    filters: Vec<(Kinds, ResourceRule)>,
    catch_all: Option<ResourceRule>,
}

/// The rules by the names of types: as written, in lower case, and as the cluster serves them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kinds {
    written: Vec<String>,
    resolved: Vec<String>,
}

impl Filters {
    fn new(place: &str, rules: &[ResourceRule], catalogue: &Catalogue) -> Result<Self, ItemPolicyError> {
        let mut made = Self::default();
        let mut seen = BTreeSet::new();
        for (at, rule) in rules.iter().enumerate() {
            if rule.kinds.is_empty() {
                made.catch_all = Some(rule.clone());
                continue;
            }
            let written: Vec<String> = rule.kinds.iter().map(|kind| kind.to_lowercase()).collect();
            let mut resolved = Vec::new();
            for kind in &written {
                let known = catalogue.resolve(kind);
                let names = known.iter().map(|known| known.id.to_string());
                resolved.extend(if known.is_empty() { vec![kind.clone()] } else { names.collect() });
            }
            if let Some(twice) = resolved.iter().find(|name| !seen.insert((*name).clone())) {
                let place = format!("{place}.resourceFilters[{at}]");
                return Err(ItemPolicyError::Twice { place, name: twice.clone() });
            }
            made.filters.push((Kinds { written, resolved }, rule.clone()));
        }
        Ok(made)
    }

    /// Finds the rule by the type's name; for a type that only the backup knows, by its kind.
    fn of(&self, resource: &str, kind: &str) -> Option<&ResourceRule> {
        let by_name = self.filters.iter().find(|(kinds, _)| kinds.resolved.iter().any(|one| one == resource));
        let by_kind = || {
            let same = |one: &String| one.eq_ignore_ascii_case(kind);
            self.filters.iter().find(|(kinds, _)| kinds.written.iter().any(same))
        };
        by_name.or_else(by_kind).map(|(_, rule)| rule)
    }
}

fn judge(rule: &ResourceRule, name: &str, labels: &BTreeMap<String, String>) -> Opinion {
    if !rule.selectors.is_empty() && !rule.selectors.iter().any(|one| one.matches(labels)) {
        return Opinion::LeaveLabels;
    }
    if rule.names.takes(name) { Opinion::Take } else { Opinion::LeaveName }
}

#[cfg(test)]
mod tests;
