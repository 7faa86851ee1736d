//! Fine-grained filters of a resource policy, with their types resolved through the types that the cluster serves.
//! For a namespace that a policy names, its list of types is exclusive and its labels replace the spec's; an exact
//! name takes precedence over patterns, and the first matching pattern wins.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::catalogue::{Catalogue, ResourceType};

use crate::glob::Glob;
use crate::policy::{NamespacedRule, Policies, ResourceRule};

/// Rules by type (`resource.group`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    by_type: BTreeMap<String, ResourceRule>,
    /// The rule for every type without a rule of its own.
    other: Option<ResourceRule>,
}

impl Rules {
    fn rule(&self, kind: &ResourceType) -> Option<&ResourceRule> {
        self.by_type.get(&kind.id.to_string()).or(self.other.as_ref())
    }
}

/// The rule for one type in one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling<'a> {
    /// No rule applies: the spec's own filters are used.
    None,
    /// Its namespace has rules, but none for this type.
    NotListed,
    Rule(&'a ResourceRule),
}

/// All fine-grained filters of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FilterPolicies {
    cluster: Rules,
    namespaced: Vec<(Vec<Glob>, Rules)>,
    pub(super) warnings: Vec<String>,
}

impl FilterPolicies {
    pub(super) fn new(policies: Option<&Policies>, catalogue: &Catalogue) -> Self {
        let mut made = Self::default();
        let Some(policies) = policies else { return made };
        let mut warnings = BTreeSet::new();
        made.cluster = resolve(&policies.cluster_filters, catalogue, false, &mut warnings);
        made.namespaced = policies
            .namespaced_filters
            .iter()
            .map(|NamespacedRule { namespaces, resources }| {
                (namespaces.clone(), resolve(resources, catalogue, true, &mut warnings))
            })
            .collect();
        made.warnings = warnings.into_iter().collect();
        made
    }

    /// Whether lists over several namespaces must be requested without labels, because the namespaces' labels differ.
    pub(super) fn differ(&self) -> bool {
        !self.namespaced.is_empty()
    }

    /// Whether the rules include a Namespace object.
    pub(super) fn takes_namespace(&self, name: &str) -> bool {
        self.cluster.by_type.get("namespaces").is_none_or(|rule| rule.names.takes(name))
    }

    pub(super) fn ruling(&self, kind: &ResourceType, namespace: Option<&str>) -> Ruling<'_> {
        let Some(namespace) = namespace else {
            return self.cluster.rule(kind).map_or(Ruling::None, Ruling::Rule);
        };
        let named = |globs: &[Glob]| globs.iter().any(|glob| glob.as_str() == namespace);
        let fits = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(namespace));
        let exact = self.namespaced.iter().find(|(globs, _)| named(globs));
        match exact.or_else(|| self.namespaced.iter().find(|(globs, _)| fits(globs))) {
            None => Ruling::None,
            Some((_, rules)) => rules.rule(kind).map_or(Ruling::NotListed, Ruling::Rule),
        }
    }
}

fn resolve(
    rules: &[ResourceRule],
    catalogue: &Catalogue,
    namespaced: bool,
    warnings: &mut BTreeSet<String>,
) -> Rules {
    let mut made = Rules::default();
    for rule in rules {
        if rule.kinds.is_empty() {
            made.other = Some(rule.clone());
        }
        for name in &rule.kinds {
            let found = catalogue.resolve(name);
            if found.is_empty() {
                warnings.insert(format!(
                    "the resource policy has a filter for {name:?}, which the cluster does not serve"
                ));
                made.by_type.insert(name.clone(), rule.clone());
            }
            for kind in found {
                if kind.namespaced != namespaced {
                    let (is, place) = if namespaced {
                        ("cluster-scoped", "clusterScopedFilterPolicy")
                    } else {
                        ("namespaced", "namespacedFilterPolicies")
                    };
                    warnings.insert(format!(
                        "the resource policy has a filter for {name:?} where it has no effect: it is {is}; its place is {place}"
                    ));
                }
                made.by_type.insert(kind.id.to_string(), rule.clone());
            }
        }
    }
    made
}
