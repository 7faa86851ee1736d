//! Delete item actions: each runs for every item of the backup that it is for. Without actions the archive is not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lifeboat_api::velero::Backup;
use lifeboat_archive::{BackupFiles, Item, Spool, SpoolError};
use lifeboat_cluster::discovery::discover;
use lifeboat_cluster::objects;
use lifeboat_plugin::Applies;
use lifeboat_plugin::actions::DeleteItemAction;
use tokio::time::timeout;

use super::gather::Gathered;
use crate::applying::applying;
use crate::context::Context;
use crate::locations::{self, Location};

/// So many problems are named in the request; its object must stay small.
const MOST: usize = 50;

/// What the actions gave.
#[derive(Default)]
pub(super) struct Ran {
    /// What could not be removed, for people.
    pub(super) problems: Vec<String>,
    /// The VolumeSnapshotContents of the archive: their snapshots are gone, or named as a problem.
    pub(super) contents: BTreeSet<String>,
    /// Why the archive can never be read, where it is gone or broken.
    pub(super) unread: Option<String>,
}

impl Ran {
    fn problem(message: String) -> Self {
        Self { problems: vec![message], ..Self::default() }
    }

    fn unread(message: String) -> Self {
        Self { unread: Some(message), ..Self::default() }
    }
}

pub(super) async fn run(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    location: &Location,
) -> Ran {
    if actions.is_empty() {
        return Ran::default();
    }
    match run_all(context, actions, gathered, location).await {
        Ok(ran) => ran,
        Err(problem) => Ran::problem(problem),
    }
}

async fn run_all(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    location: &Location,
) -> Result<Ran, String> {
    let Some(object) = &gathered.backup else { return Ok(Ran::default()) };
    let backup: Backup =
        objects::typed(object).map_err(|error| format!("the Backup cannot be read: {error}"))?;
    let catalogue = discover(&context.client).await.map_err(|error| error.chain())?.catalogue;
    let (matched, mut problems) = applying(actions, &catalogue).await;
    if matched.is_empty() {
        return Ok(Ran { problems, ..Ran::default() });
    }
    let files = BackupFiles::new(&gathered.name).map_err(|error| error.to_string())?;
    let archive = match location.store.get_stream(&files.contents()).await {
        Ok(archive) => archive,
        // Nothing was written, or an earlier try came further.
        Err(error) if error.is_not_found() => return Ok(Ran::unread("it is not there".to_owned())),
        Err(error) => return Err(format!("cannot read the archive: {}", locations::message(&error))),
    };
    let settings = &context.settings.storage;
    let spool = Spool::read(archive, &settings.spool_directory, settings.spool_limits()).await;
    let spool = match spool {
        Ok(spool) => spool,
        // It will not come back: a deletion that waited for it would wait for ever.
        Err(error @ (SpoolError::NotGzip(_) | SpoolError::Damaged(_) | SpoolError::Entry { .. })) => {
            return Ok(Ran { problems, ..Ran::unread(error.to_string()) });
        }
        Err(error) => return Err(format!("delete item actions were not run: {error}")),
    };
    let limit = context.settings.backup.defaults.resource_timeout;
    let (mut left_out, mut contents) = (0, BTreeSet::new());
    for item in spool.items() {
        if *item.resource() == lifeboat_plan::transfer::snapshots::contents() {
            contents.insert(item.name().to_owned());
        }
        let labels: BTreeMap<String, String> = item.labels().iter().cloned().collect();
        let fits = |applies: &Applies| applies.is_for(item.resource(), item.namespace(), &labels);
        for one in matched.iter().filter(|one| fits(&one.applies)) {
            let Err(problem) = execute(one.action.as_ref(), &backup, &spool, &item, limit).await else {
                continue;
            };
            if problems.len() < MOST {
                problems.push(format!("{}: action {}: {problem}", item.id(), one.action.name()));
            } else {
                left_out += 1;
            }
        }
    }
    if left_out > 0 {
        problems.push(format!(
            "and {left_out} more of the same kind; the server's log has the plugins' own words"
        ));
    }
    Ok(Ran { problems, contents, unread: None })
}

/// One action for one item.
async fn execute(
    action: &dyn DeleteItemAction,
    backup: &Backup,
    spool: &Spool,
    item: &Item<'_>,
    limit: Duration,
) -> Result<(), String> {
    let json = spool.get(item.index()).await.map_err(|error| error.to_string())?;
    let json = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    match timeout(limit, action.execute(&json, backup)).await {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_elapsed) => Err("it did not end in time (--resource-timeout)".to_owned()),
    }
}
