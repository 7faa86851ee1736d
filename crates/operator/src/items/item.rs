//! One item from the spool to the cluster: what is left out, what is stripped, the actions, then [`super::apply`].

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_archive::{Item, Spool};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::pod_volumes;
use lifeboat_plan::restore::validate::ValidRestore;
use lifeboat_plan::restore::{filter, hooks, sanitise, trust};
use serde_json::Value;

use super::run::{Asked, Ending, Run, Work, takes};
use super::{apply, gates, namespaces};
use crate::restore::handler::actions::{self, After};
use crate::restore::handler::report::{Listed, Notes};
use crate::restore::handler::volumes;

/// The item that is worked on.
pub(crate) struct Subject {
    pub(crate) work: usize,
    pub(crate) place: usize,
    /// As it is called in the backup.
    pub(crate) id: ItemId,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The namespace that it goes into.
    pub(crate) target: Option<String>,
}

impl Subject {
    pub(crate) fn new(valid: &ValidRestore, spool: &Spool, work: usize, item: &Item<'_>) -> Self {
        let id = item.id();
        let other = valid.versions.get(&id.resource).and_then(|version| spool.find_version(&id, version));
        let other = other.and_then(|place| spool.item(place));
        let item = other.as_ref().unwrap_or(item);
        Self {
            work,
            place: item.index(),
            id,
            api_version: item.api_version().to_owned(),
            kind: item.kind().to_owned(),
            target: item.namespace().map(|namespace| valid.target(namespace).to_owned()),
        }
    }

    /// Upstream's way to name an item in messages.
    pub(crate) fn resource_id(&self) -> String {
        match &self.target {
            Some(namespace) => format!("{}/{namespace}/{}", self.id.resource, self.id.name),
            None => format!("{}/{}", self.id.resource, self.id.name),
        }
    }

    pub(crate) fn is(&self, resource: &str) -> bool {
        self.id.resource.to_string() == resource
    }

    /// The item as it is in the backup.
    pub(crate) async fn original(&self, run: &Run) -> Option<Value> {
        serde_json::from_slice(&run.spool.get(self.place).await.ok()?).ok()
    }

    /// From an untrusted place, commands in annotations do not come along.
    pub(crate) fn without_hooks(&self, run: &Run, mut object: Value) -> Value {
        if run.untrusted.is_some() && self.is("pods") {
            drop_hooks(&mut object);
        }
        object
    }
}

/// Does one piece of work and tells the scheduler of its end.
pub(crate) fn process(run: Arc<Run>, work: usize, asked: Asked) -> BoxFuture<'static, ()> {
    async move {
        let mut ending = Ending::new(&run, work);
        ending.exists = match run.work(work) {
            Work::Namespace(name) => namespaces::ensure(&run, name, work).await.is_ok(),
            Work::Item(place) => match run.spool.item(*place) {
                Some(item) => restore(&run, &Subject::new(&run.valid, &run.spool, work, &item), asked).await,
                None => false,
            },
        };
    }
    .boxed()
}

/// Whether the object is in the cluster afterwards.
async fn restore(run: &Arc<Run>, subject: &Subject, asked: Asked) -> bool {
    let mut notes = Notes::default();
    let exists = steps(run, subject, asked, &mut notes).await;
    let listed = Listed {
        api_version: &subject.api_version,
        kind: &subject.kind,
        namespace: subject.target.as_deref(),
        name: &subject.id.name,
    };
    run.report.item(&listed, notes);
    exists
}

async fn steps(run: &Arc<Run>, subject: &Subject, asked: Asked, notes: &mut Notes) -> bool {
    if let Some(words) = left_out(run, subject, asked) {
        run.report.info(&words, &subject.id);
        notes.unlisted = true;
        return false;
    }
    let resource = &subject.id.resource;
    let privileged = trust::is_privileged(resource) && !filter::is_never_created(resource);
    if let Some(location) = run.untrusted.as_deref().filter(|_| privileged) {
        notes.warn(trust::left_out(&subject.resource_id(), location));
        return false;
    }
    if let Some(namespace) = &subject.id.namespace
        && namespaces::ensure(run, namespace, subject.work).await.is_err()
    {
        notes.action = Some(lifeboat_archive::documents::RestoreAction::Failed);
        return false;
    }
    let mut object: Value =
        match run.spool.get(subject.place).await.map(|bytes| serde_json::from_slice(&bytes)) {
            Ok(Ok(object)) => object,
            Ok(Err(error)) => {
                notes.error(format!("error decoding {}: {error}", subject.resource_id()));
                return false;
            }
            Err(error) => {
                notes.error(format!("error decoding {}: {error}", subject.resource_id()));
                return false;
            }
        };
    if sanitise::is_completed(&subject.id.resource, &object) {
        run.report.info("it is complete - skipping", &subject.id);
        notes.unlisted = true;
        return false;
    }
    if sanitise::is_mirror_pod(&subject.id.resource, &object) {
        run.report.info("Not restoring pod because it's a mirror pod", &subject.id);
        return false;
    }
    if sanitise::job_of(&subject.id, &object).is_some_and(|job| takes(&run.spool, &run.valid, &job)) {
        run.report.info("Not restoring pod because its Job is restored and makes a new one", &subject.id);
        return false;
    }
    if !volumes::volume(run, subject, &mut object, notes).await {
        return false;
    }
    if let Some(location) = run.untrusted.as_deref().filter(|_| subject.is("pods"))
        && drop_hooks(&mut object)
    {
        notes.warn(trust::hooks_left_out(&subject.resource_id(), location));
    }
    let taken = match sanitise::strip(&mut object) {
        Ok(taken) => taken,
        Err(error) => {
            notes.error(format!("error restoring {}: {error}", subject.resource_id()));
            return false;
        }
    };
    match &run.filler {
        Some(filler) if subject.is("pods") => filler.prepare(run, subject, &mut object, notes).await,
        // What an earlier restore had it wait for never comes.
        None if subject.is("pods") => pod_volumes::mark(&mut object, None),
        _ => {}
    }
    if matches!(actions::run(run, subject, &mut object, notes).await, After::Stops) {
        return false;
    }
    volumes::claim(run, subject, &mut object, notes).await;
    for problem in run.valid.modifiers.apply(&mut object, &subject.id.resource) {
        notes.error(problem);
    }
    sanitise::mark(&mut object, subject.target.as_deref(), run.name(), run.backup());
    gates::await_service(run, subject, &object, notes).await;
    apply::apply(run, subject, object, taken, notes).await
}

/// Why an additional item is not restored; those that are wanted for their own sake were judged before.
fn left_out(run: &Run, subject: &Subject, asked: Asked) -> Option<String> {
    if !asked.additional || asked.must_include {
        return None;
    }
    let reason = run.valid.filter.judge_additional(&subject.id).err()?;
    Some(format!("not restored as an additional item: {reason}"))
}

/// Removes a pod's own restore hooks; whether there were some.
pub(crate) fn drop_hooks(pod: &mut Value) -> bool {
    let found = hooks::is_in_annotations(pod);
    if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.contains("hook.restore.velero.io/"));
    }
    found
}
