//! `lifeboat stash debug restore`: a restore, its Repository and its movers.

use kube::ResourceExt;
use lifeboat_cluster::objects;

use super::report::Report;
use crate::args::object_name;
use crate::commands::stash::Tenant;
use crate::commands::stash::names::{Kind, ObjectName};
use crate::commands::stash::view::View;
use crate::error::CliError;

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RestoreArgs {
    /// Name of the RestoreSession
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    restoresession: Option<String>,
    /// Name of the RestoreBatch
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    restorebatch: Option<String>,
}

impl RestoreArgs {
    pub(super) fn name(&self) -> ObjectName {
        match (&self.restoresession, &self.restorebatch) {
            (Some(name), _) => ObjectName::new(Kind::RestoreSession, name),
            // clap insists on one of the two.
            (None, name) => ObjectName::new(Kind::RestoreBatch, name.as_deref().unwrap_or_default()),
        }
    }
}

pub(super) async fn report(tenant: &Tenant, restore: &ObjectName) -> Result<String, CliError> {
    let noun = restore.kind.noun();
    let found = tenant.find(noun, &restore.name).await?;
    let json = objects::to_json(&found);
    let mut report = Report::new(tenant);
    report.object(noun, &found).await;
    for member in json["status"]["members"].as_array().into_iter().flatten() {
        report.conditions(&member["conditions"]);
    }
    report.lines(&View::of(&json).table().trim_fmt());
    report.repository(&json["spec"]["repository"]).await;
    report.heading("movers");
    report.movers(&found.uid().unwrap_or_default()).await;
    Ok(report.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::World;

    #[tokio::test]
    async fn a_report_has_the_conditions_of_members_and_hosts() {
        let world = World::new().await;
        let members = json!([{"ref": {"kind": "Deployment", "name": "web"},
            "conditions": [{"type": "WorkloadStarted", "status": "False", "reason": "WorkloadStaysDown", "message": "stays stopped"}],
            "stats": [{"hostname": "web", "phase": "Failed", "error": "disk full"}]}]);
        world.put(
            "restorebatches",
            "r",
            json!({"spec": {}, "status": {"phase": "Failed", "members": members}}),
        );
        let args = RestoreArgs { restoresession: None, restorebatch: Some("r".into()) };
        let report = report(&world.tenant, &args.name()).await.unwrap();
        for expected in ["== RestoreBatch shop/r: Failed", "stays stopped", "disk full", "no mover has a Job"]
        {
            assert!(report.contains(expected), "{expected} is not in\n{report}");
        }
    }
}
