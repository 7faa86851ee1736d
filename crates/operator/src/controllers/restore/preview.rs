//! A dry run: what a Restore would do, without writing anything. Called for `lifeboat restore create --dry-run`.

use lifeboat_api::velero::Restore;
use lifeboat_cluster::write::{Throttle, Writer};

use super::{execute, gather, validate};
use crate::context::Context;
use crate::restore::{Planned, Question, dry_run};

/// The plan; or what is wrong with the Restore.
pub(crate) async fn preview(context: &Context, mut restore: Restore) -> Result<Planned, Vec<String>> {
    let gathered = gather::gather(context, &restore).await.map_err(|error| vec![error.chain()])?;
    let claim = validate::validate(&restore, &gathered)?;
    restore.spec.backup_name = Some(claim.backup.clone());
    let prepared = execute::prepare(context, &restore).await.map_err(|words| vec![words])?;
    let (job, tools) = (&prepared.job, &prepared.tools);
    let writer = Writer::new(context.direct.clone(), Throttle::default().into());
    Ok(dry_run(Question {
        spool: &job.spool,
        valid: &job.valid,
        volumes: &job.volumes,
        untrusted: job.untrusted.as_deref(),
        catalogue: &tools.catalogue,
        writer: &writer,
        names: (restore.metadata.name.as_deref().unwrap_or_default(), &claim.backup),
    })
    .await)
}
