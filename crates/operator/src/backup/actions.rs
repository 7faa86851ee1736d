//! Which actions are for which items: their own words, resolved once for each backup.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::Backup;
use lifeboat_archive::documents::BackupOperation;
use lifeboat_cluster::list::ItemMeta;
use lifeboat_plan::catalogue::{Catalogue, GroupResource};
use lifeboat_plan::includes::Includes;
use lifeboat_plan::selector::Selector;
use lifeboat_plugin::actions::{AppliesTo, BackupItemAction, ItemBlockAction};
use lifeboat_plugin::{ActionError, Registry};

use crate::operations::ANSWER;

/// How long an action may take to cancel an operation.
const CANCEL: Duration = Duration::from_secs(10);

/// How long one call of an action may take: as long as an operation that it would begin.
pub(super) fn longest(backup: &Backup) -> Duration {
    let given = GoDuration::set(backup.spec.item_operation_timeout);
    let nanos = given.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
    nanos.map_or(Duration::from_hours(4), Duration::from_nanos)
}

/// What an action says it is for; one that does not answer must not hold the backup up for ever.
async fn answered(
    name: &str,
    answer: impl Future<Output = Result<AppliesTo, ActionError>>,
) -> Result<AppliesTo, ActionError> {
    let late =
        |_| ActionError::Failed(format!("the action {name} does not say what it is for: no answer in time"));
    tokio::time::timeout(ANSWER, answer).await.map_err(late)?
}

/// The items that one action is for.
struct Scope {
    namespaces: Includes,
    resources: Includes,
    selector: Selector,
}

impl Scope {
    fn new(name: &str, applies: &AppliesTo, catalogue: &Catalogue) -> Result<Self, ActionError> {
        let wrong = |what: &str, error: String| {
            ActionError::Failed(format!(
                "the action {name} says which {what} it is for in a way that cannot be read: {error}"
            ))
        };
        let resolved = |names: &[String]| -> Vec<String> {
            let resolve = |name: &String| match catalogue.resolve(name).as_slice() {
                [] => vec![name.clone()],
                found => found.iter().map(|kind| kind.id.to_string()).collect(),
            };
            names.iter().flat_map(resolve).collect()
        };
        let list = |what: &str, included: &[String], excluded: &[String]| {
            Includes::new(included, excluded).map_err(|error| wrong(what, error.to_string()))
        };
        let (included, excluded) =
            (resolved(&applies.included_resources), resolved(&applies.excluded_resources));
        Ok(Self {
            namespaces: list("namespaces", &applies.included_namespaces, &applies.excluded_namespaces)?,
            resources: list("resources", &included, &excluded)?,
            selector: Selector::parse(&applies.selector)
                .map_err(|error| wrong("labels", error.to_string()))?,
        })
    }

    fn takes(&self, item: &ItemMeta) -> bool {
        let namespace = match &item.namespace {
            Some(namespace) => self.namespaces.takes(namespace),
            None => self.namespaces.includes_everything(),
        };
        namespace && self.selector.matches(&item.labels)
    }
}

/// Actions of one kind, by type.
pub(super) struct Resolved<A: ?Sized> {
    actions: Vec<(Arc<A>, Scope)>,
    by_type: BTreeMap<GroupResource, Vec<usize>>,
}

pub(super) type ResolvedActions = Resolved<dyn BackupItemAction>;
pub(super) type ResolvedBlocks = Resolved<dyn ItemBlockAction>;

impl Resolved<dyn BackupItemAction> {
    pub(super) async fn new(registry: &Registry, catalogue: &Catalogue) -> Result<Self, ActionError> {
        let mut actions = Vec::new();
        for action in &registry.backup {
            let scope =
                Scope::new(action.name(), &answered(action.name(), action.applies_to()).await?, catalogue)?;
            actions.push((action.clone(), scope));
        }
        Ok(Self::from(actions, catalogue))
    }
}

impl Resolved<dyn ItemBlockAction> {
    pub(super) async fn new(registry: &Registry, catalogue: &Catalogue) -> Result<Self, ActionError> {
        let mut actions = Vec::new();
        for action in &registry.blocks {
            let scope =
                Scope::new(action.name(), &answered(action.name(), action.applies_to()).await?, catalogue)?;
            actions.push((action.clone(), scope));
        }
        Ok(Self::from(actions, catalogue))
    }
}

impl<A: ?Sized> Resolved<A> {
    fn from(actions: Vec<(Arc<A>, Scope)>, catalogue: &Catalogue) -> Self {
        let mut by_type: BTreeMap<GroupResource, Vec<usize>> = BTreeMap::new();
        for kind in catalogue.types() {
            let name = kind.id.to_string();
            let fitting = actions.iter().enumerate().filter(|(_, (_, scope))| scope.resources.takes(&name));
            let fitting: Vec<_> = fitting.map(|(at, _)| at).collect();
            if !fitting.is_empty() {
                by_type.insert(kind.id.clone(), fitting);
            }
        }
        Self { actions, by_type }
    }

    /// Whether any action is for items of a type.
    pub(super) fn any_for(&self, resource: &GroupResource) -> bool {
        self.by_type.contains_key(resource)
    }

    /// The actions for one item, in their order.
    pub(super) fn of(&self, resource: &GroupResource, item: &ItemMeta) -> Vec<Arc<A>> {
        let places = self.by_type.get(resource).into_iter().flatten();
        places
            .map(|at| &self.actions[*at])
            .filter(|(_, scope)| scope.takes(item))
            .map(|(action, _)| action.clone())
            .collect()
    }
}

/// Operations of a pass that gives nothing are not waited for: whoever began them is told.
pub(super) async fn cancel(actions: &ResolvedActions, backup: &Backup, operations: &[BackupOperation]) {
    let each = operations.iter().map(|operation| async {
        let (id, name) = (&operation.spec.operation_id, &operation.spec.backup_item_action);
        let known = actions.actions.iter().find(|(action, _)| action.name() == name);
        let Some((action, _)) = known else { return };
        match tokio::time::timeout(CANCEL, action.cancel(id, backup)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(operation = id, action = name, %error, "cannot cancel an operation");
            }
            Err(_) => tracing::warn!(operation = id, action = name, "an operation is not cancelled in time"),
        }
    });
    futures::future::join_all(each).await;
}
