//! A dry run: what a Restore would do, without writing anything. Called for `lifeboat restore create --dry-run`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use lifeboat_api::velero::Restore;
use lifeboat_control::Core;
use lifeboat_plan::velero::restore::volumes::{Holder, missing};
use lifeboat_plugin::actions::Intent;
use lifeboat_store::Outage;
use lifeboat_transfer::{MoverSettings, TransferService};
use lifeboat_web::Metrics;

use super::error::RestoreError;
use super::handler::{self, Previewed};
use super::volume_data::unreported;
use super::{gather, prepare, validate};
use crate::context::{Context, VERSION};
use crate::settings::VeleroSettings;
use lifeboat_items::preview::{NotPlanned, Planned, Would};

/// The name of this process where a server has its replica's.
const IDENTITY: &str = "lifeboat-cli";

/// What a Restore in Lifeboat's `namespace` would do, with the permissions of the caller; or what is wrong with it.
pub async fn preview_restore(
    client: Client,
    namespace: &str,
    settings: VeleroSettings,
    restore: Restore,
) -> Result<Planned, NotPlanned> {
    let core = Core::new(client, Metrics::new(VERSION), namespace, IDENTITY);
    let transfer = TransferService::new(&core, MoverSettings::default());
    let context = Context::new(core, transfer, Arc::new(settings));
    Box::pin(preview(&context, restore)).await
}

/// The plan; or what is wrong with the Restore.
pub(super) async fn preview(context: &Context, mut restore: Restore) -> Result<Planned, NotPlanned> {
    let unread = |error: RestoreError| NotPlanned { problems: vec![error.to_string()], refused: false };
    let gathered = gather::gather(context, &restore).await.map_err(|error| unread(error.into()))?;
    let claim =
        validate::validate(&restore, &gathered).map_err(|problems| NotPlanned { problems, refused: true })?;
    restore.spec.backup_name = Some(claim.backup.clone());
    // Objects that an earlier Restore with this name created are older, and therefore do not count as this one's.
    restore.metadata.creation_timestamp.get_or_insert_with(|| Time(context.now()));
    // Plugins have side effects, and their protocol has no dry run: they are not called.
    let log = prepare::log(context, &restore).map_err(unread)?;
    let prepared = Box::pin(prepare::prepare(
        context,
        &restore,
        log,
        &context.actions,
        Intent::Preview,
        &Outage::default(),
    ))
    .await;
    let prepared = prepared.map_err(unread)?;
    let (wants_data, mapping) = (prepared.job.valid.volumes, prepared.job.valid.rules.mapping.clone());
    let Previewed { mut planned, filled, reported } =
        Box::pin(handler::preview(prepared.job, &prepared.tools)).await;
    if wants_data {
        let held = unreported(&prepared.volumes, &reported);
        let missing = missing(&held, |holder| is_planned(&planned, &mapping, &filled, holder));
        let messages = missing.into_iter().map(|one| one.message);
        let messages: Vec<String> =
            messages.map(|message| message.replace("was not restored", "would not be restored")).collect();
        planned.notes.extend(messages);
    }
    planned.notes.extend(prepared.unreadable.into_iter().map(|(_, message)| message));
    Ok(planned)
}

/// Whether an object that holds data would be restored.
fn is_planned(
    planned: &Planned,
    mapping: &BTreeMap<String, String>,
    filled: &BTreeSet<(String, String)>,
    holder: Holder<'_>,
) -> bool {
    let (resource, path) = match holder {
        Holder::Filled(namespace, name) => {
            let namespace = mapping.get(namespace).map_or(namespace, String::as_str);
            return filled.contains(&(namespace.to_owned(), name.to_owned()));
        }
        Holder::Claim(namespace, name) => ("persistentvolumeclaims", format!("{namespace}/{name}")),
        Holder::Pod(namespace, name) => ("pods", format!("{namespace}/{name}")),
        Holder::Volume(name) => ("persistentvolumes", name.to_owned()),
    };
    let fits = |would: &Would| match holder {
        Holder::Volume(_) => !matches!(would, Would::NotSelected(_)),
        _ => *would == Would::Create,
    };
    planned.items.iter().any(|item| item.resource == resource && item.item == path && fits(&item.would))
}
