//! Moving the data of CSI snapshots into repositories and back: what DataUpload and DataDownload do in their own way on the
//! way to their ends ([`crate::transfers`]): their specs, annotations and phases. What is made for a mover in its namespace, and
//! how a volume is handed over, is in crate `transfer`; everything that cannot be repeated is on record in the object before
//! it is done, so that another server goes on.

mod downloading;
mod handing;
pub(crate) mod sweep;
mod uploading;

use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::exposure::Exposures;

/// What is made in the movers' namespace.
fn exposures(work: &WorkContext) -> Exposures {
    Exposures::new(&work.core.client, &work.settings.namespace, &work.core.namespace)
}

#[cfg(test)]
mod tests;
