//! What of a Restore has no effect on its backup: gathers what the decision in `plan` asks for.

use std::collections::BTreeSet;

use lifeboat_api::velero::Restore;
use lifeboat_archive::Spool;
use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::restore::idle::{Held, warnings};

/// `homes`: the namespaces that something is restored from. `wanted`: how many items are.
pub(crate) fn idle(
    restore: &Restore,
    spool: &Spool,
    catalogue: &Catalogue,
    homes: BTreeSet<&str>,
    wanted: usize,
) -> Vec<String> {
    let mut held = Held { items: spool.len(), wanted_namespaces: homes, wanted, ..Held::default() };
    let namespaces = GroupResource::new("", "namespaces");
    for item in spool.items() {
        held.types.insert(item.resource());
        let home = if *item.resource() == namespaces { Some(item.name()) } else { item.namespace() };
        held.namespaces.extend(home);
    }
    warnings(&restore.spec, catalogue, &held)
}
