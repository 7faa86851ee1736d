//! Delete item actions: each runs for every item of the backup that it is for. Without actions the archive is not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use lifeboat_api::velero::Backup;
use lifeboat_archive::{BackupFiles, Item, Spool};
use lifeboat_cluster::discovery::discover;
use lifeboat_cluster::objects;
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plan::includes::Includes;
use lifeboat_plan::selector::Selector;
use lifeboat_plugin::actions::{AppliesTo, DeleteItemAction};

use super::gather::Gathered;
use crate::context::Context;
use crate::locations::{self, Location};
use crate::operations::ANSWER;

/// An action and what it is for.
struct Matched {
    action: Arc<dyn DeleteItemAction>,
    namespaces: Includes,
    resources: Includes,
    selector: Selector,
}

pub(super) async fn run(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    location: &Location,
) -> Vec<String> {
    if actions.is_empty() {
        return Vec::new();
    }
    match run_all(context, actions, gathered, location).await {
        Ok(problems) => problems,
        Err(problem) => vec![problem],
    }
}

async fn run_all(
    context: &Context,
    actions: &[Arc<dyn DeleteItemAction>],
    gathered: &Gathered,
    location: &Location,
) -> Result<Vec<String>, String> {
    let Some(object) = &gathered.backup else { return Ok(Vec::new()) };
    let backup: Backup =
        objects::typed(object).map_err(|error| format!("the Backup cannot be read: {error}"))?;
    let catalogue = discover(&context.client).await.map_err(|error| error.chain())?.catalogue;
    let mut matched = Vec::new();
    for action in actions {
        matched.push(match_action(action, &catalogue).await?);
    }
    let files = BackupFiles::new(&gathered.name).map_err(|error| error.to_string())?;
    let archive = match location.store.get_stream(&files.contents()).await {
        Ok(archive) => archive,
        // Nothing was written, or an earlier try came further.
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read the archive: {}", locations::words(&error))),
    };
    let settings = &context.settings.storage;
    let spool = Spool::read(archive, &settings.spool_directory, settings.spool_limits()).await;
    let spool = spool.map_err(|error| format!("delete item actions were not run: {error}"))?;
    let mut problems = Vec::new();
    for item in spool.items() {
        for action in matched.iter().filter(|action| action.is_for(&item)) {
            let json = spool.get(item.index()).await.map_err(|error| error.to_string())?;
            let json = serde_json::from_slice(&json).map_err(|error| format!("{}: {error}", item.id()))?;
            let limit = context.settings.backup.defaults.resource_timeout;
            let problem = match tokio::time::timeout(limit, action.action.execute(&json, &backup)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_elapsed) => "it did not end in time (--resource-timeout)".to_owned(),
            };
            problems.push(format!("{}: action {}: {problem}", item.id(), action.action.name()));
        }
    }
    Ok(problems)
}

async fn match_action(action: &Arc<dyn DeleteItemAction>, catalogue: &Catalogue) -> Result<Matched, String> {
    let wrong = |words: String| format!("action {}: {words}", action.name());
    let applies = tokio::time::timeout(ANSWER, action.applies_to()).await;
    let applies = applies.map_err(|_elapsed| wrong("it did not say in time what it is for".to_owned()))?;
    let applies: AppliesTo = applies.map_err(|error| wrong(error.to_string()))?;
    let includes = |included: &[String], excluded: &[String]| {
        Includes::new(included, excluded).map_err(|error| wrong(error.to_string()))
    };
    // Types in any of their names; one that the cluster does not serve stays as it is written, and may be in the archive.
    let resolved = |names: &[String]| -> Vec<String> {
        let resolve = |name: &String| {
            let found = catalogue.resolve(name).into_iter().map(|kind| kind.id.to_string());
            std::iter::once(name.clone()).chain(found).collect::<Vec<_>>()
        };
        names.iter().flat_map(resolve).collect()
    };
    Ok(Matched {
        namespaces: includes(&applies.included_namespaces, &applies.excluded_namespaces)?,
        resources: includes(&resolved(&applies.included_resources), &resolved(&applies.excluded_resources))?,
        selector: Selector::parse(&applies.selector).map_err(|error| wrong(error.to_string()))?,
        action: Arc::clone(action),
    })
}

impl Matched {
    fn is_for(&self, item: &Item<'_>) -> bool {
        let resource = item.resource();
        let (short, full) = (&resource.resource, resource.to_string());
        let type_fits = (self.resources.includes(short) || self.resources.includes(&full))
            && !self.resources.excludes(short)
            && !self.resources.excludes(&full);
        let namespace_fits = item.namespace().is_none_or(|namespace| self.namespaces.takes(namespace));
        let labels: BTreeMap<String, String> = item.labels().iter().cloned().collect();
        type_fits && namespace_fits && self.selector.matches(&labels)
    }
}
