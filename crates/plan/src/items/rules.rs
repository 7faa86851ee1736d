//! What applies to every item of a restore: the filters, the mapping of namespaces, what an existing object means, changes by
//! rules. Made by the API that asks for the restore, from its own objects; used by the item pipeline.

use std::collections::BTreeMap;

use lifeboat_api::catalogue::GroupResource;
use lifeboat_api::velero::ExistingResourcePolicy;

use super::filter::{RestoreFilter, StatusFilter};
use super::modifiers::Modifiers;

/// The rules of one restore, found to be valid.
#[derive(Clone, Debug)]
pub struct ItemRules {
    pub filter: RestoreFilter,
    /// Which items get their status back.
    pub status: StatusFilter,
    /// Namespaces that are restored under another name.
    pub mapping: BTreeMap<String, String>,
    pub existing: Option<ExistingResourcePolicy>,
    pub modifiers: Modifiers,
    /// Types that are restored in another of their stored versions than the one that the old cluster preferred.
    pub versions: BTreeMap<GroupResource, String>,
}

impl ItemRules {
    /// The namespace that objects of `namespace` are restored into.
    pub fn target<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.mapping.get(namespace).map_or(namespace, String::as_str)
    }
}
