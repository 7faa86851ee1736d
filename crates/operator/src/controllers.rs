//! All controllers, run together for one term of leadership, after the repository password was seen to. Where that does
//! not succeed at once, they start all the same and it is tried again beside them: locations can be judged without.

mod backup_repository;
mod backup_storage_location;
mod backup_sync;
mod carried;
mod delete_backup_request;
mod download_request;
mod garbage_collection;
mod own_deployment;
pub(crate) mod restore;
mod schedule;
mod server_status_request;
mod volume_snapshot_location;

use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::{backup, password};

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
        backup_repository::run(context, resting),
        backup_storage_location::run(context, resting),
        backup_sync::run(context, resting),
        carried::run(context, resting),
        delete_backup_request::run(context, resting),
        download_request::run(context, resting),
        garbage_collection::run(context, resting),
        context.movers.run(resting),
        own_deployment::run(context, resting),
        schedule::run(context, resting),
        restore::run(context, resting),
        server_status_request::run(context, resting),
        volume_snapshot_location::run(context, resting),
    );
}
