//! All controllers, run together for one term of leadership, after the repository password is seen to.

mod backup_storage_location;
mod server_status_request;
mod unsupported;

use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::password;

/// Runs every controller until `resting` is cancelled and reconciles in flight have ended.
pub(crate) async fn run(context: &Context, resting: &CancellationToken) {
    tokio::join!(
        password::ensure(context, resting),
        backup_storage_location::run(context, resting),
        server_status_request::run(context, resting),
        unsupported::run(context, resting),
    );
}
