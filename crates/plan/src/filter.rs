//! What a backup takes: its namespaces, its types, its labels, and the exceptions of single objects. Takes a Backup's
//! spec, what the cluster serves and the namespaces that exist; gives a [`Filter`] that the pipeline asks for each type
//! and each object.
//!
//! There are upstream's two ways to choose types: the older one (`includedResources`, `excludedResources`,
//! `includeClusterResources`) and the newer one, with lists of their own for cluster-scoped and namespace-scoped types.
//! A spec that uses neither is of the newer way.

mod namespaces;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;

use lifeboat_api::velero::BackupSpec;

pub use namespaces::{NamespaceError, NamespaceFilter, NamespacesToList};
pub use types::{TypeFilter, uses_old_filters};

use crate::catalogue::{Catalogue, GroupResource, ResourceType};
use crate::glob::GlobError;
use crate::policy::IncludeExcludePolicy;
use crate::selector::{Selector, SelectorError};

/// Why a spec is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("{field}: {source}")]
    Pattern { field: &'static str, source: GlobError },
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("{field}: {source}")]
    Selector { field: &'static str, source: SelectorError },
}

/// What is asked of a single object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts<'a> {
    pub namespace: Option<&'a str>,
    /// Whether it carries `velero.io/exclude-from-backup=true`.
    pub excluded: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Whether an object is taken; where not, why, in words for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Take,
    Leave(&'static str),
}

/// A spec's choice, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    namespaces: NamespaceFilter,
    types: TypeFilter,
    /// Empty: all labels. Else one of them has to match.
    selectors: Vec<Selector>,
}

impl Filter {
    /// `live`: the names of all namespaces that exist; wildcards are matched against them.
    pub fn new(
        spec: &BackupSpec,
        catalogue: &Catalogue,
        live: &[String],
        policy: Option<&IncludeExcludePolicy>,
    ) -> Result<Self, FilterError> {
        let namespaces = NamespaceFilter::new(
            spec.included_namespaces.as_deref().unwrap_or_default(),
            spec.excluded_namespaces.as_deref().unwrap_or_default(),
            live,
        )?;
        let types = TypeFilter::new(spec, catalogue, namespaces.is_everything(), policy)?;
        Ok(Self { namespaces, types, selectors: selectors(spec)? })
    }

    pub fn namespaces(&self) -> &NamespaceFilter {
        &self.namespaces
    }

    pub fn types(&self) -> &TypeFilter {
        &self.types
    }

    /// The label selectors to list with, one list for each; an empty one is everything.
    pub fn queries(&self) -> Vec<String> {
        if self.selectors.is_empty() {
            return vec![String::new()];
        }
        self.selectors.iter().map(Selector::to_query).collect()
    }

    /// Whether labels narrow the backup down.
    pub fn has_selectors(&self) -> bool {
        self.selectors.iter().any(|selector| !selector.is_everything())
    }

    /// Whether an object that was listed with [`Filter::queries`] is taken.
    pub fn takes_listed(&self, object: &ObjectFacts<'_>) -> Verdict {
        if object.excluded {
            return Verdict::Leave("it has the label velero.io/exclude-from-backup=true");
        }
        if object.namespace.is_some_and(|namespace| !self.namespaces.takes(namespace)) {
            return Verdict::Leave("its namespace is excluded");
        }
        alive(object)
    }

    /// Whether an additional or related item is taken. Cluster-scoped ones stay out only where they are excluded.
    /// `must`: an action wants it in the backup whatever the filters say.
    pub fn takes_additional(&self, kind: &ResourceType, object: &ObjectFacts<'_>, must: bool) -> Verdict {
        if must {
            return alive(object);
        }
        let namespaces = GroupResource::new("", "namespaces");
        match object.namespace {
            None if kind.id != namespaces && self.types.excludes(kind) => {
                Verdict::Leave("its type is cluster-scoped and excluded")
            }
            Some(_) if !self.types.takes(kind) => Verdict::Leave("its type is excluded"),
            _ => self.takes_listed(object),
        }
    }

    /// Whether a Namespace object is taken: it has to be chosen and alive; where labels narrow the backup down and its
    /// name is not what chose it, it has to match them or to hold something that was taken.
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
        let by_name = !self.namespaces.is_everything();
        let by_label = self.selectors.is_empty() || self.selectors.iter().any(|one| one.matches(labels));
        if by_name || by_label || holds_items {
            return Verdict::Take;
        }
        Verdict::Leave("neither it nor anything in it has the labels that are asked for")
    }
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
