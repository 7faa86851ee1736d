//! Which directories of a bucket are read in a sync. A directory that was found to be no backup is not read again until
//! its listing changes, and only some of them are listed again in each sync: a bucket may have any number of them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt, stream};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::velero::Schedule;
use lifeboat_archive::BackupFiles;
use lifeboat_cluster::{ApiError, Attempt};

use super::bring::{Brought, Here, bring_one};
use super::{Past, SyncError};
use crate::context::Context;
use crate::locations::Location;
use crate::ownership;

/// How many backups are read at once.
const AT_ONCE: usize = 8;

/// How many of the directories that are no backups are listed again in one sync.
const LISTED_AGAIN: usize = 64;

/// How many problems get an event of their own in one sync.
const EVENTS: usize = 10;

/// A directory that has no object in the cluster.
#[derive(Clone)]
pub(super) struct Looked {
    /// Its listing when it was read; None if it is read in any case.
    listing: Option<u64>,
    /// The sync in which it was listed last.
    sync: u64,
}

/// What a sync found in a directory.
struct Found {
    listing: u64,
    brought: Result<Brought, SyncError>,
}

/// Creates objects for those backups of `missing` that are complete. A backup that cannot be synced does not hold up
/// the others; its problem is reported once.
pub(super) async fn bring(
    context: &Context,
    location: &Location,
    missing: &BTreeSet<&String>,
    past: &mut Past,
) -> Result<(), SyncError> {
    past.syncs += 1;
    past.looked.retain(|name, _| missing.contains(name));
    past.reported.retain(|name, _| missing.contains(name));
    let due = due(missing, &past.looked);
    if due.is_empty() {
        return Ok(());
    }
    let here = Here { schedules: schedules(context).await?, keys: ownership::keys(context).await? };
    let tasks: Vec<_> = due
        .into_iter()
        .map(|name| {
            let known = past.looked.get(name).and_then(|looked| looked.listing);
            look(context, location, name, known, &here).map(move |found| (name, found)).boxed()
        })
        .collect();
    let outcomes: Vec<_> = stream::iter(tasks).buffer_unordered(AT_ONCE).collect().await;
    let (mut came, mut new) = (0, Vec::new());
    for (name, found) in outcomes {
        let problem = match found {
            // Its listing is the same as before.
            Ok(None) => {
                if let Some(looked) = past.looked.get_mut(name) {
                    looked.sync = past.syncs;
                }
                continue;
            }
            Ok(Some(Found { listing, brought })) => {
                came += usize::from(matches!(brought, Ok(Brought::Created)));
                past.note(name, listing, &brought);
                brought.err()
            }
            Err(error) => Some(error),
        };
        match problem.map(|error| error.to_string()) {
            None => drop(past.reported.remove(name)),
            Some(problem) if past.reported.get(name) == Some(&problem) => {}
            Some(problem) => {
                past.reported.insert(name.clone(), problem.clone());
                new.push((name, problem));
            }
        }
    }
    report(context, location, &new).await;
    if came > 0 {
        tracing::info!(location = location.name, backups = came, "synced backups into the cluster");
    }
    Ok(())
}

impl Past {
    /// Remembers what was found in a directory.
    fn note(&mut self, name: &str, listing: u64, brought: &Result<Brought, SyncError>) {
        let listing = match brought {
            Ok(Brought::Incomplete) => Some(listing),
            Ok(Brought::NotYet) => None,
            Err(error) if error.is_lasting() => Some(listing),
            // Storage or the API server may answer the next time.
            Ok(Brought::Created | Brought::Exists) | Err(_) => {
                self.looked.remove(name);
                return;
            }
        };
        self.looked.insert(name.to_owned(), Looked { listing, sync: self.syncs });
    }
}

/// New directories, and those of the others that were listed longest ago.
fn due<'a>(missing: &BTreeSet<&'a String>, looked: &BTreeMap<String, Looked>) -> Vec<&'a String> {
    let (known, mut due): (Vec<&String>, Vec<&String>) =
        missing.iter().copied().partition(|name| looked.contains_key(*name));
    let mut known: Vec<_> = known.into_iter().map(|name| (looked[name].sync, name)).collect();
    known.sort_unstable();
    due.extend(known.into_iter().take(LISTED_AGAIN).map(|(_, name)| name));
    due
}

/// Lists a directory, and reads it unless its listing is the one that is known.
async fn look(
    context: &Context,
    location: &Location,
    name: &str,
    known: Option<u64>,
    here: &Here,
) -> Result<Option<Found>, SyncError> {
    // Listed before it is read: what is written in between changes the listing.
    let listing = location.store.fingerprint(&BackupFiles::new(name)?.directory()).await?;
    if known == Some(listing) {
        return Ok(None);
    }
    let brought = bring_one(context, location, name, here).await;
    Ok(Some(Found { listing, brought }))
}

/// Reports new problems: the first ones by name, the others by their number.
async fn report(context: &Context, location: &Location, new: &[(&String, String)]) {
    let about = location.object.object_ref(&());
    for (name, problem) in new.iter().take(EVENTS) {
        tracing::warn!(location = location.name, backup = *name, problem, "a backup cannot be synced");
        let note = format!("backup '{name}' of the bucket cannot be synced: {problem}");
        context.events.warning(&about, "BackupNotSynced", &note).await;
    }
    if new.len() > EVENTS {
        let more = new.len() - EVENTS;
        tracing::warn!(location = location.name, more, "more backups cannot be synced");
        let note = format!("{more} more backups of the bucket cannot be synced");
        context.events.warning(&about, "BackupsNotSynced", &note).await;
    }
}

/// Name and UID of each Schedule.
async fn schedules(context: &Context) -> Result<BTreeSet<(String, String)>, ApiError> {
    let api: Api<Schedule> = Api::namespaced(context.client.clone(), &context.namespace);
    let listed = api.list_metadata(&ListParams::default()).await.attempt("list Schedules")?;
    Ok(listed.iter().map(|schedule| (schedule.name_any(), schedule.uid().unwrap_or_default())).collect())
}
