//! Moves the data of CSI snapshots into repositories and back: the steps in which DataUploads and DataDownloads
//! differ from other transfers ([`crate::transfers`]), and their specs, annotations and phases. Crate `transfer`
//! creates the objects for a mover in its namespace and hands volumes over. Every step that cannot be repeated is
//! recorded in the object first, so that another server can continue.

mod downloading;
mod handing;
pub(crate) mod sweep;
mod uploading;

use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::exposure::Exposures;

/// Access to the objects in the movers' namespace.
fn exposures(work: &WorkContext) -> Exposures {
    Exposures::new(&work.core.client, &work.settings.namespace, &work.core.namespace)
}

#[cfg(test)]
mod tests;
