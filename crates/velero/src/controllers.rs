//! All controllers of Velero's kinds, run together for one term of leadership, after the repository password was seen to. Where that does
//! not succeed at once, they start all the same and it is tried again beside them: locations can be judged without.

use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::{
    backup, deletion, downloads, expiry, locations, own_deployment, password, repositories, restore,
    schedules, server_status, snapshot_locations, sync, transfer_kinds,
};

/// Runs every controller until `resting` is cancelled and reconciles in flight have ended.
pub(crate) async fn run(context: &Context, resting: &CancellationToken) {
    context.movers.begin_term(resting);
    let settled = tokio::select! {
        () = resting.cancelled() => return,
        settled = password::first_try(context) => settled,
    };
    let password = async {
        if !settled {
            password::ensure(context, resting).await;
        }
    };
    tokio::join!(
        password,
        password::follow(context, resting),
        backup::run(context, resting),
        repositories::controller::run(context, resting),
        locations::controller::run(context, resting),
        sync::run(context, resting),
        transfer_kinds::run(context, resting),
        deletion::run(context, resting),
        downloads::request::run(context, resting),
        expiry::run(context, resting),
        context.movers.run(resting),
        own_deployment::run(context, resting),
        schedules::run(context, resting),
        restore::run(context, resting),
        server_status::run(context, resting),
        snapshot_locations::controller::run(context, resting),
    );
}
