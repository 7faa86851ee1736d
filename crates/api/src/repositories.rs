//! Group `repositories.stash.appscode.com`: Snapshot, the newest snapshots of each Repository as objects of the cluster.
//!
//! Stash serves this group by an API server of its own, which blocks the deletion of namespaces while it is down. In Lifeboat
//! Snapshots are ordinary objects that the server writes and removes; deleting one deletes no data.
#![allow(unreachable_pub, reason = "KubeSchema copies each struct, `pub` and all, into a function")]

mod snapshot;

pub use snapshot::{Snapshot, SnapshotSpec, SnapshotStatus};

use crate::definition::Crd;
use crate::stash::Strict;

/// The API group of all kinds here.
pub const GROUP: &str = "repositories.stash.appscode.com";

/// The CRDs of the group. A Snapshot is written as a whole, so it has no status subresource.
pub fn crds() -> Vec<Crd> {
    vec![Crd::of::<Strict<Snapshot>>().with_optional_spec().without_status_subresource()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_upstreams_names_and_columns() {
        let crds = crds();
        let crd = &crds[0];
        assert_eq!(crd.name(), "snapshots.repositories.stash.appscode.com");
        assert_eq!(
            (crd.versions()[0].name.as_str(), crd.definition().spec.scope.as_str()),
            ("v1alpha1", "Namespaced")
        );
        let columns = crd.versions()[0].additional_printer_columns.iter().flatten();
        let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        assert_eq!(columns, ["ID", "Repository", "Hostname", "Created-At"]);
        assert!(crd.versions()[0].subresources.is_none());
    }
}
