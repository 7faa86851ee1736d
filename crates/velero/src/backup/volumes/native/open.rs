//! Opens the snapshotters of a pass.

use lifeboat_plugin::host::Session;

use crate::backup::attempt::Ready;
use crate::backup::volumes::native::Snapshotters;
use crate::context::Context;
use crate::snapshot_locations;

/// The snapshotters of a backup's snapshot locations, with what an interrupted attempt made.
pub(in crate::backup) async fn open(context: &Context, session: &Session, ready: &Ready) -> Snapshotters {
    let leave_csi = context.settings.backup.has_feature("EnableCSI");
    let mut all = Snapshotters::new(&context.namespace, leave_csi, ready.earlier.clone());
    for location in &ready.valid.snapshot_locations {
        let opened = snapshot_locations::open(context, session, location).await;
        all.add(location, opened);
    }
    all
}
