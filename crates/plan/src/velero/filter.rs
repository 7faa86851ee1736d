//! What a backup includes: namespaces, types, labels, and exclusions of single objects. Takes a Backup's spec, the
//! types that the cluster serves and the existing namespaces; gives a [`Filter`] that the pipeline applies to each
//! type and each object.
//!
//! There are upstream's two ways to select types: the older one (`includedResources`, `excludedResources`,
//! `includeClusterResources`) and the newer one, with separate lists for cluster-scoped and namespace-scoped types. A
//! spec without any of them uses the newer one.

mod namespaces;
mod policies;
#[cfg(test)]
mod tests;
mod types;
pub(crate) mod unknown;

use std::collections::BTreeMap;

use lifeboat_api::catalogue::{Catalogue, GroupResource, ResourceType};
use lifeboat_api::velero::BackupSpec;
use lifeboat_api::velero::names::EXCLUDE_FROM_BACKUP;

pub use namespaces::{NamespaceError, NamespaceFilter, NamespacesToList};
use policies::{FilterPolicies, Ruling};
pub use types::{TypeFilter, uses_old_filters};

use crate::facts::ObjectFacts;
use crate::glob::GlobError;
use crate::own::LeftOutOwn;
use crate::policy::{Policies, ResourceRule};
use crate::selector::{Selector, SelectorError};

/// Types that backups do not list: they are included as additional items of their volumes, or not at all.
pub const ALWAYS_EXCLUDED: [&str; 2] =
    ["volumesnapshots.snapshot.storage.k8s.io", "volumesnapshotcontents.snapshot.storage.k8s.io"];

/// Why a filter cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("{field}: {source}")]
    Pattern { field: &'static str, source: GlobError },
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("{field}: {source}")]
    Selector { field: &'static str, source: SelectorError },
}

/// Whether an object is included; if not, the reason for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Take,
    Leave(&'static str),
}

/// About the server's own keys and the parts of its movers, also where an action requires them.
const OWN: Verdict = Verdict::Leave(
    "it is a key of Lifeboat or belongs to a mover; a backup that names its namespace and its type has it",
);

/// A compiled filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    namespaces: NamespaceFilter,
    types: TypeFilter,
    /// At least one of them must match; empty means that labels are not checked.
    selectors: Vec<Selector>,
    policies: FilterPolicies,
    own: LeftOutOwn,
}

impl Filter {
    /// `live`: the names of all existing namespaces; wildcards are matched against them.
    pub fn new(
        spec: &BackupSpec,
        catalogue: &Catalogue,
        live: &[String],
        policies: Option<&Policies>,
    ) -> Result<Self, FilterError> {
        let namespaces = NamespaceFilter::new(
            spec.included_namespaces.as_deref().unwrap_or_default(),
            spec.excluded_namespaces.as_deref().unwrap_or_default(),
            live,
        )?;
        let lists = policies.and_then(|policies| policies.include_exclude.as_ref());
        let types = TypeFilter::new(spec, catalogue, namespaces.is_everything(), lists)?;
        let mut policies = FilterPolicies::new(policies, catalogue);
        policies.warnings.extend(unknown::warnings(spec, catalogue));
        Ok(Self { namespaces, types, selectors: selectors(spec)?, policies, own: LeftOutOwn::default() })
    }

    /// Leaves out the server's own keys and the parts of its movers.
    pub(crate) fn without(self, own: LeftOutOwn) -> Self {
        Self { own, ..self }
    }

    pub fn namespaces(&self) -> &NamespaceFilter {
        &self.namespaces
    }

    pub fn types(&self) -> &TypeFilter {
        &self.types
    }

    /// Whether the backup may lose objects because the server of an API group does not answer.
    pub fn may_miss(&self, group: &str, types: &[ResourceType], catalogue: &Catalogue) -> bool {
        self.types.may_miss(group, types, |name| unknown::is_served(name, catalogue))
    }

    /// Warnings about parts of the resource policy and of the included types that have no effect.
    pub fn warnings(&self) -> &[String] {
        &self.policies.warnings
    }

    /// The label selectors to list a type with, one list request each; an empty one selects everything.
    pub fn queries(&self, kind: &ResourceType) -> Vec<String> {
        let selectors = match self.policies.ruling(kind, None) {
            _ if kind.namespaced && self.policies.differ() => &[],
            Ruling::Rule(rule) if !kind.namespaced => rule.selectors.as_slice(),
            _ => self.selectors.as_slice(),
        };
        if selectors.is_empty() {
            return vec![String::new()];
        }
        selectors.iter().map(Selector::to_query).collect()
    }

    /// Whether the backup is restricted by labels.
    pub fn has_selectors(&self) -> bool {
        self.selectors.iter().any(|selector| !selector.is_everything())
    }

    /// Whether an object that was listed with [`Filter::queries`] is included.
    pub fn takes_listed(&self, kind: &ResourceType, object: &ObjectFacts<'_>) -> Verdict {
        if self.own.leaves(&kind.id, object) {
            return OWN;
        }
        let (selectors, rule) = match self.policies.ruling(kind, object.namespace) {
            Ruling::NotListed => {
                return Verdict::Leave("the resource policy does not list its type for its namespace");
            }
            Ruling::None => (&self.selectors, None),
            Ruling::Rule(rule) => (&rule.selectors, Some(rule)),
        };
        let labelled = |labels| selectors.is_empty() || selectors.iter().any(|one| one.matches(labels));
        if !object.labels.is_none_or(labelled) {
            return Verdict::Leave("it does not have the labels that are asked for");
        }
        match named(rule, object) {
            Verdict::Take => self.takes_any(object),
            leave @ Verdict::Leave(_) => leave,
        }
    }

    /// The checks for both listed and additional items.
    fn takes_any(&self, object: &ObjectFacts<'_>) -> Verdict {
        if object.labels.is_some_and(is_excluded) {
            return Verdict::Leave("it has the label velero.io/exclude-from-backup=true");
        }
        if object.namespace.is_some_and(|namespace| !self.namespaces.takes(namespace)) {
            return Verdict::Leave("its namespace is excluded");
        }
        alive(object)
    }

    /// Whether an additional or related item is included. Cluster-scoped ones are left out only if they are excluded.
    /// `must`: an action requires it in the backup regardless of the filters.
    pub fn takes_additional(&self, kind: &ResourceType, object: &ObjectFacts<'_>, must: bool) -> Verdict {
        if self.own.leaves(&kind.id, object) {
            return OWN;
        }
        if must {
            return alive(object);
        }
        let namespaces = GroupResource::new("", "namespaces");
        match object.namespace {
            None if kind.id != namespaces && self.types.excludes(kind) => {
                Verdict::Leave("its type is cluster-scoped and excluded")
            }
            Some(_) if !self.types.takes(kind) => Verdict::Leave("its type is excluded"),
            // Types that a policy does not list are included all the same, so that related items stay together, as
            // upstream.
            _ => match self.policies.ruling(kind, object.namespace) {
                Ruling::Rule(rule) if named(Some(rule), object) != Verdict::Take => named(Some(rule), object),
                _ => self.takes_any(object),
            },
        }
    }

    /// Whether a Namespace object is included: it must be selected and Active. If the backup is restricted by labels
    /// and the namespace is not included by name, it must also match them or contain an included object.
    pub fn takes_namespace_object(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        active: bool,
        holds_items: bool,
    ) -> Verdict {
        if !active {
            return Verdict::Leave("it is not Active");
        }
        if !self.namespaces.takes(name) {
            return Verdict::Leave("it is excluded");
        }
        if !self.policies.takes_namespace(name) {
            return Verdict::Leave("the resource policy leaves its name out");
        }
        let by_name = !self.namespaces.is_everything();
        let by_label = self.selectors.is_empty() || self.selectors.iter().any(|one| one.matches(labels));
        if by_name || by_label || holds_items {
            return Verdict::Take;
        }
        Verdict::Leave("neither it nor anything in it has the labels that are asked for")
    }
}

/// Whether an object's labels exclude it from backups.
pub fn is_excluded(labels: &BTreeMap<String, String>) -> bool {
    labels.get(EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true")
}

fn named(rule: Option<&ResourceRule>, object: &ObjectFacts<'_>) -> Verdict {
    if rule.is_none_or(|rule| rule.names.takes(object.name)) {
        return Verdict::Take;
    }
    Verdict::Leave("the resource policy leaves its name out")
}

fn alive(object: &ObjectFacts<'_>) -> Verdict {
    if object.deleting { Verdict::Leave("it is being deleted") } else { Verdict::Take }
}

fn selectors(spec: &BackupSpec) -> Result<Vec<Selector>, FilterError> {
    let one = spec.label_selector.iter().map(|selector| ("spec.labelSelector", selector));
    let any = spec.or_label_selectors.iter().flatten();
    one.chain(any.map(|selector| ("spec.orLabelSelectors", selector)))
        .map(|(field, selector)| {
            Selector::new(selector).map_err(|source| FilterError::Selector { field, source })
        })
        .collect()
}
