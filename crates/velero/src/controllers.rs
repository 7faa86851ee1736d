//! Runs all controllers of Velero's kinds together for one term of leadership, after the repository password was
//! checked. If that check does not succeed at once, the controllers start nevertheless and the check is repeated
//! beside them, because locations can be validated without the password.

use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::{
    backup, deletion, downloads, expiry, locations, own_deployment, password, repositories, restore,
    schedules, server_status, snapshot_locations, sync, transfer_kinds,
};

/// Runs every controller until `shutdown` is cancelled and reconciles in flight have ended.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let settled = tokio::select! {
        () = shutdown.cancelled() => return,
        settled = password::first_try(context) => settled,
    };
    let password = async {
        if !settled {
            password::ensure(context, shutdown).await;
        }
    };
    tokio::join!(
        password,
        password::follow(context, shutdown),
        backup::run(context, shutdown),
        repositories::controller::run(context, shutdown),
        locations::controller::run(context, shutdown),
        sync::run(context, shutdown),
        transfer_kinds::run(context, shutdown),
        deletion::run(context, shutdown),
        downloads::request::run(context, shutdown),
        expiry::run(context, shutdown),
        own_deployment::run(context, shutdown),
        schedules::run(context, shutdown),
        restore::run(context, shutdown),
        server_status::run(context, shutdown),
        snapshot_locations::controller::run(context, shutdown),
    );
}
