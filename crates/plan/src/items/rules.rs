//! The rules that apply to every item of a restore: filters, namespace mapping, policy for existing objects, resource
//! modifiers. Built by the API that owns the restore; used by the item pipeline.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::GroupResource;

use super::existing::ExistingPolicy;
use super::filter::{RestoreFilter, StatusFilter};
use super::modifiers::Modifiers;
use crate::own::LeftOutOwn;

/// The validated rules of one restore.
#[derive(Clone, Debug)]
pub struct ItemRules {
    pub filter: RestoreFilter,
    /// The types whose status is restored.
    pub status: StatusFilter,
    /// Namespaces that are restored under another name.
    pub mapping: BTreeMap<String, String>,
    pub existing: Option<ExistingPolicy>,
    pub modifiers: Modifiers,
    /// Types that are restored in a stored version other than the one that the source cluster preferred.
    pub versions: BTreeMap<GroupResource, String>,
    /// Keys of the server and parts of its movers, which are not restored.
    pub own: LeftOutOwn,
    /// The labels that [`super::sanitise::mark`] sets. An object that differs only in them is the same.
    pub own_labels: &'static [&'static str],
}

impl ItemRules {
    /// The namespace into which objects of `namespace` are restored.
    pub fn target<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.mapping.get(namespace).map_or(namespace, String::as_str)
    }
}
