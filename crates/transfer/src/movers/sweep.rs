//! What interrupted servers left: Jobs for objects that are gone or have ended, Secrets without a Job. Looked for when a
//! term begins and now and then; beside that, Jobs that nobody adopted are counted again. Run with the controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use lifeboat_api::crds;
use lifeboat_cluster::objects::{namespaced, resource, to_json};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::Core;
use lifeboat_plan::backup_repository::is_under_way;
use lifeboat_plan::movers::job::{self, Made};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Movers, clear};

/// How often Jobs that nobody adopted are counted again.
const RECOUNT: Duration = Duration::from_secs(30);
/// How many counts there are between two sweeps.
const SWEEP: u32 = 20;
/// A Secret gets its Job at once; one that has none for so long was left.
const LEFT: SignedDuration = SignedDuration::from_mins(10);
/// Phases in which an object needs its mover no more.
const OVER: [&str; 3] = ["Completed", "Failed", "Canceled"];

impl Movers {
    /// Sweeps and counts until `resting` is cancelled.
    pub async fn run(&self, resting: &CancellationToken) {
        if self.settings.image.is_empty() {
            return;
        }
        for round in 0_u32.. {
            let work = async {
                if round.is_multiple_of(SWEEP) {
                    warn(self.sweep().await, "cannot remove what is left of movers; trying again later");
                }
                warn(self.recount().await, "cannot count movers; trying again later");
                sleep(RECOUNT).await;
            };
            if resting.run_until_cancelled(work).await.is_none() {
                return;
            }
        }
    }

    /// Removes what nobody needs.
    pub(super) async fn sweep(&self) -> Result<(), ApiError> {
        let (core, jobs) = (&self.core, self.jobs());
        // Secrets first: a Job that comes between the two looks is one more, not one less.
        let selector = job::selector(&core.namespace);
        let secrets = jobs.secrets(&selector).await?;
        let found = jobs.list(&selector).await?;
        let mut kept = BTreeSet::new();
        for (object, made) in found.iter().filter_map(|object| Some((object, job::read(object)?))) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if is_over(core, &made).await? {
                tracing::info!(
                    job = name,
                    owner = made.owner.name,
                    "removing a mover that nobody needs any more"
                );
                clear(&jobs, name).await?;
            } else {
                kept.insert(name.to_owned());
            }
        }
        let before = core.now() - LEFT;
        for (name, created) in secrets {
            if !kept.contains(&name) && created.is_some_and(|created| created < before) {
                jobs.delete_secret(&name).await?;
            }
        }
        Ok(())
    }
}

fn warn(outcome: Result<(), ApiError>, words: &str) {
    if let Err(error) = outcome {
        tracing::warn!(error = error.chain(), "{words}");
    }
}

/// Whether the object that a mover works for is gone or has ended. Of a kind that is unknown nobody can tell.
async fn is_over(core: &Core, made: &Made) -> Result<bool, ApiError> {
    let owner = &made.owner;
    let known = crds::installed();
    let Some(crd) = known.iter().find(|crd| crd.kind() == owner.kind) else { return Ok(false) };
    let Some(version) = crd.versions().iter().find(|version| version.storage) else { return Ok(false) };
    let resource = resource(crd.group(), &version.name, crd.kind(), crd.plural());
    let api = namespaced(&core.client, &core.namespace, &resource);
    let found = api.get_opt(&owner.name).await.attempt(format!("read {} {}", owner.kind, owner.name))?;
    Ok(found.is_none_or(|object| {
        let object = to_json(&object);
        let ended = object["status"]["phase"].as_str().is_some_and(|phase| OVER.contains(&phase));
        // A repository has no end; of its maintenances one is under way at most.
        let recorded = owner.kind == "BackupRepository" && !is_under_way(&object, &made.candidate.uid);
        ended || recorded || object["metadata"]["uid"] != *owner.uid
    }))
}
