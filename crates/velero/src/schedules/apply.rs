//! Creates the Backup of a due run. Its name prevents duplicates: if a backup of the same schedule with that name
//! exists, this server created it before it died, or another one did that believed to be the leader.

use kube::api::{DynamicObject, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_api::velero::{Backup, Schedule};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::schedule::{backup, own_name};

use crate::context::Context;

/// `Some`: the Backup was not created, and trying again does not help; the text is the reason.
pub(super) async fn create(
    context: &Context,
    schedule: &Schedule,
    name: &str,
) -> Result<Option<String>, ApiError> {
    let namespace = &context.namespace;
    let api: Api<Backup> = Api::namespaced(context.client.clone(), namespace);
    let created = api.create(&PostParams::default(), &backup(schedule, name)).await;
    match created.attempt(format!("create Backup {name}")) {
        Ok(_) => Ok(None),
        Err(error) if error.is_conflict() => {
            let dynamic = objects::namespaced(&context.client, namespace, &objects::resource_of::<Backup>());
            let found = dynamic.get_opt(name).await.attempt(format!("read Backup {name}"))?;
            Ok(found.filter(|found| !is_of(found, &schedule.name_any())).map(|_| {
                "a backup of that name exists and is not of this schedule; delete that backup or rename the schedule"
                    .to_owned()
            }))
        }
        Err(error) if error.is_invalid() || error.code() == Some(403) => Ok(Some(error.chain())),
        Err(error) => Err(error),
    }
}

fn is_of(backup: &DynamicObject, schedule: &str) -> bool {
    backup.labels().get(SCHEDULE_NAME) == Some(&own_name(schedule))
}
