//! Runs the delete item actions, each for every item of the backup that it applies to. Without actions the archive is
//! not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::velero::Backup;
use lifeboat_archive::{BackupFiles, Item, NameError, Spool, SpoolError, StoreError};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::discovery::discover;
use lifeboat_cluster::objects;
use lifeboat_plan::items::trust::UNTRUSTED;
use lifeboat_plan::json::text;
use lifeboat_plan::velero::csi::{CONTENT_DELETER, is_of_backup};
use lifeboat_plugin::Applies;
use lifeboat_plugin::actions::{ActionError, DeleteItemAction};
use serde_json::Value;
use tokio::time::timeout;

use super::gather::Gathered;
use super::owned::{NOT_PROVEN, Owner};
use crate::applying::applying;
use crate::context::Context;
use crate::locations::{self, Location};

/// How many problems are named in the request, whose object must stay small.
const MOST: usize = 50;

/// The result of the actions.
#[derive(Default)]
pub(super) struct ActionsResult {
    /// What could not be removed, for people.
    pub(super) problems: Vec<String>,
    /// The VolumeSnapshotContents of the archive: their snapshots are deleted, or named as a problem.
    pub(super) contents: BTreeSet<String>,
    /// Whether a CSI snapshot was deleted.
    pub(super) any: bool,
    /// CSI snapshots of the archive that nothing proves, for people.
    pub(super) left: Vec<String>,
    /// Why the archive can never be read, if it is gone or damaged.
    pub(super) unread: Option<String>,
}

impl ActionsResult {
    fn problem(message: String) -> Self {
        Self { problems: vec![message], ..Self::default() }
    }

    /// Names a CSI snapshot that is left.
    fn unproven(&mut self, handle: &str) {
        if self.left.len() < MOST {
            self.left.push(format!("the CSI snapshot '{handle}' in the archive is left: {NOT_PROVEN}"));
        }
    }

    fn unread(Unread(message): Unread) -> Self {
        Self { unread: Some(message), ..Self::default() }
    }
}

pub(super) async fn run(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    location: &Location,
    owner: &Owner,
) -> ActionsResult {
    if actions.is_empty() {
        return ActionsResult::default();
    }
    match run_all(context, actions, gathered, location, owner).await {
        Ok(ran) => ran,
        Err(error) => ActionsResult::problem(error.to_string()),
    }
}

async fn run_all(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    location: &Location,
    owner: &Owner,
) -> Result<ActionsResult, NotRun> {
    let Some(object) = &gathered.backup else { return Ok(ActionsResult::default()) };
    let backup: Backup = objects::typed(object).map_err(NotRun::Backup)?;
    let catalogue = discover(&context.client).await?.catalogue;
    let (matched, problems) = applying(actions, &catalogue).await;
    if matched.is_empty() {
        return Ok(ActionsResult { problems, ..ActionsResult::default() });
    }
    let spool = match spool(context, gathered, location).await? {
        Ok(spool) => spool,
        Err(unread) => return Ok(ActionsResult { problems, ..ActionsResult::unread(unread) }),
    };
    let limit = context.settings.backup.defaults.resource_timeout;
    let mut ran = ActionsResult { problems, ..ActionsResult::default() };
    let mut left_out = 0;
    for item in spool.items() {
        if *item.resource() == lifeboat_plan::transfer::snapshots::contents() {
            ran.contents.insert(item.name().to_owned());
        }
        let labels: BTreeMap<String, String> = item.labels().iter().cloned().collect();
        let fits = |applies: &Applies| applies.is_for(item.resource(), item.namespace(), &labels);
        for one in matched.iter().filter(|one| fits(&one.applies)) {
            let problem = match execute(one.action.as_ref(), &backup, owner, &spool, &item, limit).await {
                Ok(Done::Deleted) => {
                    ran.any = true;
                    continue;
                }
                Ok(Done::Other) => continue,
                Ok(Done::Unproven(handle)) => {
                    ran.unproven(&handle);
                    continue;
                }
                Err(problem) => problem,
            };
            if ran.problems.len() < MOST {
                ran.problems.push(format!("{}: action {}: {problem}", item.id(), one.action.name()));
            } else {
                left_out += 1;
            }
        }
    }
    if left_out > 0 {
        ran.problems.push(format!(
            "and {left_out} more of the same kind; see the server's log for the plugins' messages"
        ));
    }
    Ok(ran)
}

/// Reads the archive; the inner error says why it can never be read.
async fn spool(
    context: &Context,
    gathered: &Gathered,
    location: &Location,
) -> Result<Result<Spool, Unread>, NotRun> {
    let files = BackupFiles::new(&gathered.name)?;
    let archive = match location.store.get_stream(&files.contents()).await {
        Ok(archive) => archive,
        // Nothing was written, or an earlier try deleted it.
        Err(error) if error.is_not_found() => return Ok(Err(Unread("it does not exist".to_owned()))),
        Err(error) => return Err(NotRun::Archive(error)),
    };
    let settings = &context.settings.storage;
    let untrusted = location.object.annotations().get(UNTRUSTED).is_some_and(|value| value == "true");
    let limits = settings.spool_limits();
    let limits = if untrusted { limits.untrusted() } else { limits };
    match Spool::read(archive, &settings.spool_directory, limits).await {
        Ok(spool) => Ok(Ok(spool)),
        // A damaged archive stays damaged, and a bomb stays one: a deletion that waited for it would wait for ever.
        Err(
            error @ (SpoolError::NotGzip(_)
            | SpoolError::Damaged(_)
            | SpoolError::Entry { .. }
            | SpoolError::TooLarge { .. }),
        ) => Ok(Err(Unread(error.to_string()))),
        Err(error) => Err(NotRun::Spool(error)),
    }
}

/// Why an archive can never be read.
struct Unread(String);

/// Why no action was run.
#[derive(Debug, thiserror::Error)]
enum NotRun {
    #[error("the Backup cannot be read: {0}")]
    Backup(serde_json::Error),
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("cannot read the archive: {}", locations::message(.0))]
    Archive(StoreError),
    #[error("delete item actions were not run: {0}")]
    Spool(SpoolError),
}

/// Why an action did not end well for an item.
#[derive(Debug, thiserror::Error)]
enum ItemError {
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Action(#[from] DeleteActionError),
}

/// Why a delete item action failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeleteActionError {
    #[error(transparent)]
    Failed(#[from] ActionError),
    #[error("it did not end in time (--resource-timeout)")]
    Late,
}

/// Waits for an action, at most for `limit`.
pub(super) async fn in_time(
    limit: Duration,
    action: impl Future<Output = Result<(), ActionError>>,
) -> Result<(), DeleteActionError> {
    timeout(limit, action).await.map_err(|_elapsed| DeleteActionError::Late)?.map_err(Into::into)
}

/// What an action did.
enum Done {
    /// It deleted a CSI snapshot.
    Deleted,
    Other,
    /// Nothing proves that the backup made the CSI snapshot with this handle.
    Unproven(String),
}

/// Runs one action for one item.
async fn execute(
    action: &dyn DeleteItemAction,
    backup: &Backup,
    owner: &Owner,
    spool: &Spool,
    item: &Item<'_>,
    limit: Duration,
) -> Result<Done, ItemError> {
    let _memory = spool.reserve(item.index()).await?;
    let json = spool.get(item.index()).await?;
    let json: Value = serde_json::from_slice(&json)?;
    if action.name() != CONTENT_DELETER {
        in_time(limit, action.execute(&json, backup)).await?;
        return Ok(Done::Other);
    }
    let (driver, handle) = (text(&json, "/spec/driver"), text(&json, "/status/snapshotHandle"));
    // Contents of users are in archives, too.
    if handle.is_empty() || !is_of_backup(&json, &owner.name) {
        return Ok(Done::Other);
    }
    if !owner.owns_csi(driver, handle) {
        return Ok(Done::Unproven(handle.to_owned()));
    }
    in_time(limit, action.execute(&json, backup)).await?;
    Ok(Done::Deleted)
}
