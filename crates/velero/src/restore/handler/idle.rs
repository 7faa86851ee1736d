//! The parts of a Restore's spec that have no effect on its backup: gathers what the decision in `plan` needs.

use std::collections::BTreeSet;

use lifeboat_api::velero::Restore;
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plan::velero::restore::idle::{Held, warnings};

use lifeboat_items::source::ItemSource;

/// `homes`: the namespaces that items are restored from. `wanted`: how many items are restored.
pub(crate) fn idle(
    restore: &Restore,
    source: &dyn ItemSource,
    catalogue: &Catalogue,
    homes: BTreeSet<&str>,
    wanted: usize,
) -> Vec<String> {
    let mut held = Held { wanted_namespaces: homes, wanted, ..Held::default() };
    for head in source.heads() {
        held.items += 1;
        held.types.insert(head.resource);
        held.namespaces.extend(if head.is_namespace() { Some(head.name) } else { head.namespace });
    }
    warnings(&restore.spec, catalogue, &held)
}
