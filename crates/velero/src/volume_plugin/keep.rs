//! The server's object of one operation, kept in the cluster: made, written where something changed, made again where
//! somebody deleted it, deleted where the plugin has its own.

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::volume_plugin::{self as plan, Shown};
use serde_json::Value;

use super::Operation;

/// How often a write is tried that others disturb.
const TRIES: usize = 4;

/// The object, as it was last written.
pub(super) struct Kept<'a> {
    operation: &'a Operation<'a>,
    api: Api<DynamicObject>,
    shown: Shown,
    object: Option<DynamicObject>,
    told: bool,
}

/// The time of what is written.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

impl<'a> Kept<'a> {
    pub(super) async fn begin(operation: &'a Operation<'a>) -> Self {
        let subject = operation.subject;
        let api = super::api(operation.client, subject.kind, &subject.namespace);
        let shown = Shown::begun(now());
        let mut kept = Self { operation, api, shown, object: None, told: false };
        let begun = kept.create().await;
        kept.bear(begun);
        kept
    }

    pub(super) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The object as JSON, where there is one.
    pub(super) fn object(&self) -> Option<Value> {
        self.object.as_ref().map(objects::to_json)
    }

    /// The object as it should be, for an operation that goes on: the next look makes it.
    pub(super) fn wanted(&self) -> Value {
        self.object().unwrap_or_else(|| self.operation.subject.object(&self.shown, now()))
    }

    /// Writes what is new.
    pub(super) async fn show(&mut self, shown: Shown) {
        if shown == self.shown && self.object.is_some() {
            return;
        }
        self.shown = shown;
        let written = self.write().await;
        self.bear(written);
    }

    /// The UIDs of objects that others made; None where they cannot be listed.
    pub(super) async fn plugins_own_uids(&self) -> Option<Vec<String>> {
        Some(self.others().await?.iter().filter_map(ResourceExt::uid).collect())
    }

    /// The plugin's own object for this operation, with our labels and owner; then the server's goes.
    pub(super) async fn adopt(
        &mut self,
        made: Option<&str>,
        before: Option<&[String]>,
    ) -> Option<DynamicObject> {
        let subject = self.operation.subject;
        let known = before.unwrap_or_default();
        let is_own = |object: &DynamicObject| subject.is_plugins_own(&objects::to_json(object), made, known);
        let mut own = None;
        if let Some(name) = made.filter(|name| subject.kind == plan::Kind::Backup && plan::can_be_name(name))
        {
            own = self.api.get_opt(name).await.ok().flatten().filter(is_own);
        }
        // Which ones are new is known only where those before are.
        if own.is_none() && before.is_some() {
            own = self.others().await.unwrap_or_default().into_iter().find(is_own);
        }
        let adopted = match self.label(own?).await {
            Ok(adopted) => adopted?,
            Err(error) => {
                self.bear(Err(error));
                return None;
            }
        };
        let removed = self.remove().await;
        self.bear(removed);
        Some(adopted)
    }

    /// Takes the server's object away. It is looked for by its name: a write that the end of the call cut off may have made
    /// or changed it.
    async fn remove(&mut self) -> Result<(), ApiError> {
        self.object = None;
        let name = self.operation.subject.name();
        let found = self.api.get_opt(&name).await.attempt(format!("read {name}"))?;
        match found.filter(|found| plan::is_ours(&objects::to_json(found))) {
            Some(ours) => objects::delete(&self.api, &ours).await,
            None => Ok(()),
        }
    }

    /// None where the object is gone meanwhile.
    async fn label(&self, mut own: DynamicObject) -> Result<Option<DynamicObject>, ApiError> {
        for attempt in 1.. {
            let patch = self.operation.subject.adoption(&objects::to_json(&own));
            match objects::merge(&self.api, &own, patch).await {
                // The plugin wrote meanwhile, which it may do often.
                Err(error) if error.is_conflict() && attempt < TRIES => {}
                Err(error) if error.is_not_found() => return Ok(None),
                labelled => return labelled.map(Some),
            }
            let name = own.name_any();
            match self.api.get_opt(&name).await.attempt(format!("read {name}"))? {
                Some(found) => own = found,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Objects that others made and that were not adopted.
    async fn others(&self) -> Option<Vec<DynamicObject>> {
        let params = ListParams::default().labels(&self.operation.subject.own_selector());
        self.api.list(&params).await.map(|list| list.items).ok()
    }

    async fn create(&mut self) -> Result<(), ApiError> {
        let subject = self.operation.subject;
        let name = subject.name();
        let json = subject.object(&self.shown, now());
        let attempt = format!("create {} {name}", subject.kind.name());
        let object: DynamicObject = serde_json::from_value(json).map_err(|error| ApiError {
            attempt: attempt.clone(),
            source: lifeboat_cluster::Cause::Other(kube::Error::SerdeError(error)),
        })?;
        match self.api.create(&PostParams::default(), &object).await.attempt(attempt) {
            Ok(created) => {
                self.object = Some(created);
                Ok(())
            }
            // An earlier attempt's: it shows this one now.
            Err(error) if error.is_conflict() => {
                let found = self.api.get_opt(&name).await.attempt(format!("read {name}"))?;
                let Some(found) = found else { return Err(error) };
                let patch = subject.patch(&self.shown, now());
                self.object = Some(objects::merge(&self.api, &found, patch).await?);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&mut self) -> Result<(), ApiError> {
        for attempt in 1.. {
            let Some(object) = self.object.take() else { return self.create().await };
            let patch = self.operation.subject.patch(&self.shown, now());
            match objects::merge(&self.api, &object, patch).await {
                Ok(written) => {
                    self.object = Some(written);
                    return Ok(());
                }
                Err(error) if error.is_conflict() && attempt < TRIES => {
                    let name = object.name_any();
                    self.object = self.api.get_opt(&name).await.attempt(format!("read {name}"))?;
                }
                // Deleted while it ran: it is made again.
                Err(error) if error.is_not_found() && attempt < TRIES => {}
                Err(error) => {
                    self.object = Some(object);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What goes wrong with the object does not touch the operation; it is logged once.
    fn bear(&mut self, outcome: Result<(), ApiError>) {
        if let Err(error) = outcome
            && !std::mem::replace(&mut self.told, true)
        {
            let message = format!("its progress cannot be shown as it is: {}", error.chain());
            let kind = self.operation.subject.kind.name();
            let volume = self.operation.subject.volume.as_str();
            self.operation.log.info(&message, &[("kind", kind), ("persistentVolume", volume)]);
        }
    }
}
