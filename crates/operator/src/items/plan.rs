//! A dry run: what a restore would do, as a value. Reads the cluster and changes nothing. Called by the preview that
//! `lifeboat restore create --dry-run` shows.

mod fights;
mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use lifeboat_api::velero::Restore;
use lifeboat_archive::Spool;
use lifeboat_cluster::write::{Target, Writer, is_terminating};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId};
use lifeboat_plan::restore::validate::ValidRestore;
use lifeboat_plan::restore::volumes::{DataIn, VolumePlan, plan};
use lifeboat_plugin::actions::RestoreItemAction;
use serde::Serialize;
use serde_json::Value;

use super::item::Subject;
use crate::restore::handler::actions::Actions;
use crate::restore::handler::idle::idle;
use crate::restore::handler::lookup::ClusterLookup;

/// Questions to the cluster at once: a person waits, and others use it.
const AT_ONCE: usize = 32;

/// What would become of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", content = "why", rename_all = "camelCase")]
pub enum Would {
    Create,
    /// It is there, and is changed.
    Update,
    /// It is asked for, and left as it is.
    Skip(String),
    /// The Restore does not ask for it.
    NotSelected(String),
    Fail(String),
}

/// One line of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedItem {
    /// `resource.group`.
    pub resource: String,
    /// As in the backup.
    pub item: String,
    /// Where it goes.
    pub namespace: Option<String>,
    #[serde(flatten)]
    pub would: Would,
}

/// A controller in the cluster that a restored pod would belong to, beside the pods that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fight {
    pub pod: String,
    pub controller: String,
}

/// The plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// What would be restored from.
    pub backup: String,
    pub items: Vec<PlannedItem>,
    pub fights: Vec<Fight>,
    /// What else the restore would say: data that does not come back, namespaces that are on their way out.
    pub notes: Vec<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPlanned {
    pub problems: Vec<String>,
    /// The server would refuse the Restore; else something could not be read from here.
    pub refused: bool,
}

/// What is asked of the backup and the cluster.
pub(crate) struct Question<'a> {
    pub(crate) restore: &'a Restore,
    pub(crate) spool: &'a Spool,
    pub(crate) valid: &'a ValidRestore,
    pub(crate) volumes: &'a BTreeMap<String, DataIn>,
    pub(crate) untrusted: Option<&'a str>,
    pub(crate) catalogue: &'a Arc<Catalogue>,
    pub(crate) writer: &'a Writer,
    pub(crate) actions: Vec<Arc<dyn RestoreItemAction>>,
    /// How long one call of an action may take.
    pub(crate) action_limit: Duration,
    /// Names of restore and backup, for the labels.
    pub(crate) names: (&'a str, &'a str),
}

/// What the judging of all items shares.
struct Session<'a> {
    question: &'a Question<'a>,
    actions: Actions,
    lookup: ClusterLookup,
    /// Volumes that are made anew for their claims.
    provisioned: BTreeSet<String>,
}

/// An item with its fate.
struct Judged {
    would: Would,
    notes: Vec<String>,
    /// What it asks to be restored before it.
    asks_for: Vec<ItemId>,
}

impl Judged {
    fn plain(would: Would) -> Self {
        Self { would, notes: Vec::new(), asks_for: Vec::new() }
    }
}

/// Works out the plan.
pub(crate) async fn dry_run(question: Question<'_>) -> Planned {
    let (actions, left_out) = Actions::ask(&question.actions, question.catalogue).await;
    let session = Session {
        actions,
        lookup: ClusterLookup::new(question.writer.clone(), question.catalogue.clone()),
        provisioned: provisioned(&question).await,
        question: &question,
    };
    let mut fates: BTreeMap<usize, Judged> = BTreeMap::new();
    let mut next: Vec<usize> = Vec::new();
    for item in question.spool.items() {
        let labels = item.labels().iter().cloned().collect();
        match question.valid.filter.judge(&item.id(), item.kind(), &labels) {
            Ok(()) => next.push(item.index()),
            Err(reason) => {
                fates.insert(item.index(), Judged::plain(Would::NotSelected(reason.to_string())));
            }
        }
    }
    // What is asked for by others comes along, and may ask for more.
    let idle =
        idle(question.restore, question.spool, question.catalogue, homes(&question, &next), next.len());
    while !next.is_empty() {
        let ask = &session;
        let found: Vec<(usize, Judged)> = stream::iter(next)
            .map(|place| async move { (place, ask.judge(place).await) })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let asked: BTreeSet<usize> = found
            .iter()
            .flat_map(|(_, judged)| &judged.asks_for)
            .filter(|id| question.valid.filter.judge_additional(id).is_ok())
            .filter_map(|id| question.spool.find(id))
            .collect();
        fates.extend(found);
        let not_selected =
            |place: &usize| matches!(fates.get(place), Some(Judged { would: Would::NotSelected(_), .. }));
        next = asked.into_iter().filter(not_selected).collect();
    }
    let mut planned = session.planned(fates).await;
    planned.notes.splice(0..0, left_out.into_iter().chain(idle));
    planned
}

/// The namespaces of these items.
fn homes<'a>(question: &Question<'a>, places: &[usize]) -> BTreeSet<&'a str> {
    let spool = question.spool;
    let items = places.iter().filter_map(|place| spool.item(*place));
    items
        .filter_map(|item| {
            if item.resource().resource == "namespaces" { Some(item.name()) } else { item.namespace() }
        })
        .collect()
}

impl Session<'_> {
    async fn judge(&self, place: usize) -> Judged {
        match self.question.spool.item(place) {
            Some(item) => {
                judge::judge(self, &Subject::new(self.question.valid, self.question.spool, 0, &item)).await
            }
            None => Judged::plain(Would::Fail("it cannot be read".to_owned())),
        }
    }

    async fn planned(&self, fates: BTreeMap<usize, Judged>) -> Planned {
        let question = self.question;
        let mut planned = Planned { backup: question.names.1.to_owned(), ..Planned::default() };
        let mut pods = Vec::new();
        let mut taken: BTreeMap<(GroupResource, Option<String>, String), String> = BTreeMap::new();
        for (place, mut judged) in fates {
            let Some(item) = question.spool.item(place) else { continue };
            let id = item.id();
            let mut namespace = id.namespace.as_deref().map(|name| question.valid.target(name).to_owned());
            if id.resource == GroupResource::new("", "namespaces") {
                let target = question.valid.target(&id.name);
                namespace = (target != id.name).then(|| target.to_owned());
            }
            if !question.valid.mapping.is_empty()
                && matches!(judged.would, Would::Create | Would::Update)
                && id.namespace.is_some()
            {
                let place = (id.resource.clone(), namespace.clone(), id.name.clone());
                let holder = taken.entry(place).or_insert_with(|| id.path());
                if *holder != id.path() {
                    judged.would = Would::Fail(format!("{holder} of this backup goes to the same place"));
                }
            }
            if judged.would == Would::Create && id.resource == GroupResource::new("", "pods") {
                pods.push((namespace.clone().unwrap_or_default(), place));
            }
            planned.notes.extend(judged.notes);
            planned.items.push(PlannedItem {
                resource: id.resource.to_string(),
                item: id.path(),
                namespace,
                would: judged.would,
            });
        }
        self.namespaces(&mut planned).await;
        planned.fights = fights::fights(question, &pods).await;
        planned
    }

    /// The namespaces that things go into: those that the backup does not hold are made, those on their way out waited for.
    async fn namespaces(&self, planned: &mut Planned) {
        let wanted = planned.items.iter().filter(|item| matches!(item.would, Would::Create | Would::Update));
        let targets: BTreeSet<String> = wanted.filter_map(|item| item.namespace.clone()).collect();
        for name in targets {
            let found = self.question.writer.get(&namespace(&name)).await;
            let held = planned
                .items
                .iter()
                .any(|item| item.resource == "namespaces" && self.question.valid.target(&item.item) == name);
            match found {
                Ok(None) if !held => planned.items.push(PlannedItem {
                    resource: "namespaces".to_owned(),
                    item: name,
                    namespace: None,
                    would: Would::Create,
                }),
                Ok(Some(found)) if is_terminating(&found) => planned.notes.push(format!(
                    "namespace {name} is being deleted: the restore would wait for it to go, at most as long as the server's --terminating-resource-timeout"
                )),
                _ => {}
            }
        }
    }
}

fn namespace(name: &str) -> Target {
    Target {
        api_version: "v1".into(),
        plural: "namespaces".into(),
        kind: "Namespace".into(),
        namespace: None,
        name: name.to_owned(),
    }
}

/// The volumes that are not restored as objects.
async fn provisioned(question: &Question<'_>) -> BTreeSet<String> {
    let volumes = GroupResource::new("", "persistentvolumes");
    let mut found = BTreeSet::new();
    for item in question.spool.items().filter(|item| *item.resource() == volumes) {
        let Ok(bytes) = question.spool.get(item.index()).await else { continue };
        let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let data = question.volumes.get(item.name()).copied().unwrap_or(DataIn::Nothing);
        if plan(&object, data, question.valid.volumes) == VolumePlan::Provision {
            found.insert(item.name().to_owned());
        }
    }
    found
}
