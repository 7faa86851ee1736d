//! A dry run: what a Restore would do, without writing anything. Called for `lifeboat restore create --dry-run`.

use lifeboat_api::velero::Restore;
use lifeboat_cluster::write::{Throttle, Writer};
use lifeboat_plan::restore::trust;
use lifeboat_plan::restore::volumes::{Holder, missing};

use super::volume_data::data;
use super::{execute, gather, validate};
use crate::context::Context;
use crate::restore::handler::{NotPlanned, Planned, Question, Would, dry_run};

/// The plan; or what is wrong with the Restore.
pub(crate) async fn preview(context: &Context, mut restore: Restore) -> Result<Planned, NotPlanned> {
    let unread = |words: String| NotPlanned { problems: vec![words], refused: false };
    let gathered = gather::gather(context, &restore).await.map_err(|error| unread(error.chain()))?;
    let claim =
        validate::validate(&restore, &gathered).map_err(|problems| NotPlanned { problems, refused: true })?;
    restore.spec.backup_name = Some(claim.backup.clone());
    // Plugins act on the world: a dry run does not call them.
    let log = execute::log(context, &restore).map_err(unread)?;
    let prepared =
        Box::pin(execute::prepare(context, &restore, log, &context.actions)).await.map_err(unread)?;
    let (job, tools) = (&prepared.job, &prepared.tools);
    let writer = Writer::new(context.direct.clone(), Throttle::default().into());
    let mut planned = dry_run(Question {
        restore: &restore,
        spool: &job.spool,
        valid: &job.valid,
        volumes: &job.volumes,
        untrusted: job
            .untrusted
            .as_deref()
            .filter(|_| !trust::is_allowed(restore.metadata.annotations.as_ref())),
        catalogue: &tools.catalogue,
        writer: &writer,
        actions: tools.actions.clone(),
        action_limit: tools.times.action,
        names: (restore.metadata.name.as_deref().unwrap_or_default(), &claim.backup),
    })
    .await;
    let wanted = |holder: Holder<'_>| is_planned(&planned, holder);
    let missing = if job.valid.volumes { missing(&data(&prepared.volumes), wanted) } else { Vec::new() };
    let missing =
        missing.into_iter().map(|(_, words)| words.replace("was not restored", "would not be restored"));
    let words: Vec<String> = missing.chain(prepared.unreadable.into_iter().map(|(_, words)| words)).collect();
    planned.notes.extend(words);
    Ok(planned)
}

/// Whether an object that holds data would be restored.
fn is_planned(planned: &Planned, holder: Holder<'_>) -> bool {
    let (resource, path) = match holder {
        Holder::Claim(namespace, name) | Holder::Filled(namespace, name) => {
            ("persistentvolumeclaims", format!("{namespace}/{name}"))
        }
        Holder::Pod(namespace, name) => ("pods", format!("{namespace}/{name}")),
        Holder::Volume(name) => ("persistentvolumes", name.to_owned()),
    };
    let fits = |would: &Would| match holder {
        Holder::Volume(_) => !matches!(would, Would::NotSelected(_)),
        _ => *would == Would::Create,
    };
    planned.items.iter().any(|item| item.resource == resource && item.item == path && fits(&item.would))
}
