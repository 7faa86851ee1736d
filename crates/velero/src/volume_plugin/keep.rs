//! The server's object of one operation: created, updated when something changed, created again if it was deleted,
//! and deleted if the plugin has an object of its own.

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::volume_plugin::{self as plan, ObjectState};
use serde_json::Value;

use super::Operation;

/// How often a write with conflicts is tried.
const TRIES: usize = 4;

/// The object, as it was last written.
pub(super) struct Kept<'a> {
    operation: &'a Operation<'a>,
    api: Api<DynamicObject>,
    shown: ObjectState,
    object: Option<DynamicObject>,
    is_failure_logged: bool,
}

impl<'a> Kept<'a> {
    pub(super) async fn begin(operation: &'a Operation<'a>) -> Self {
        let subject = operation.subject;
        let api = super::api(operation.client.client, subject.kind, &subject.namespace);
        let shown = ObjectState::begun(operation.client.now());
        let mut kept = Self { operation, api, shown, object: None, is_failure_logged: false };
        let begun = kept.create().await;
        kept.log_once(begun);
        kept
    }

    /// The time that is written into the object.
    fn now(&self) -> Timestamp {
        self.operation.client.now()
    }

    pub(super) fn shown(&self) -> &ObjectState {
        &self.shown
    }

    /// The object as JSON, if it exists.
    pub(super) fn object(&self) -> Option<Value> {
        self.object.as_ref().map(objects::to_json)
    }

    /// The object as it should be, for an operation that is not finished: the next poll creates it.
    pub(super) fn wanted(&self) -> Value {
        self.object().unwrap_or_else(|| self.operation.subject.object(&self.shown, self.now()))
    }

    /// Writes the state, if it changed.
    pub(super) async fn show(&mut self, shown: ObjectState) {
        if shown == self.shown && self.object.is_some() {
            return;
        }
        self.shown = shown;
        let written = self.write().await;
        self.log_once(written);
    }

    /// The UIDs of objects that others created; None if they cannot be listed.
    pub(super) async fn plugins_own_uids(&self) -> Option<Vec<String>> {
        Some(self.others().await?.iter().filter_map(ResourceExt::uid).collect())
    }

    /// Finds the plugin's own object for this operation and adds our labels and owner; then the server's object is
    /// deleted.
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
        // New objects can be recognised only if the earlier ones are known.
        if own.is_none() && before.is_some() {
            own = self.others().await.unwrap_or_default().into_iter().find(is_own);
        }
        let adopted = match self.label(own?, made).await {
            Ok(adopted) => adopted?,
            Err(error) => {
                self.log_once(Err(error));
                return None;
            }
        };
        let removed = self.remove().await;
        self.log_once(removed);
        Some(adopted)
    }

    /// Deletes the server's object. It is looked up by its name: a write that was interrupted by the end of the call
    /// may have created or changed it.
    async fn remove(&mut self) -> Result<(), ApiError> {
        self.object = None;
        let name = self.operation.subject.name();
        let found = self.api.get_opt(&name).await.attempt(format!("read {name}"))?;
        match found.filter(|found| plan::is_ours(&objects::to_json(found))) {
            Some(ours) => objects::delete(&self.api, &ours).await,
            None => Ok(()),
        }
    }

    /// Adds our labels and owner. None if the object is gone.
    async fn label(
        &self,
        mut own: DynamicObject,
        made: Option<&str>,
    ) -> Result<Option<DynamicObject>, ApiError> {
        for attempt in 1.. {
            let patch = self.operation.subject.adoption(&objects::to_json(&own), made);
            match objects::merge(&self.api, &own, patch).await {
                // The plugin wrote in the meantime, which may happen often.
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

    /// Objects that others created and that were not adopted.
    async fn others(&self) -> Option<Vec<DynamicObject>> {
        let params = ListParams::default().labels(&self.operation.subject.own_selector());
        self.api.list(&params).await.map(|list| list.items).ok()
    }

    async fn create(&mut self) -> Result<(), ApiError> {
        let subject = self.operation.subject;
        let name = subject.name();
        let json = subject.object(&self.shown, self.now());
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
            // An object of an earlier attempt: it shows this one now.
            Err(error) if error.is_conflict() => {
                let found = self.api.get_opt(&name).await.attempt(format!("read {name}"))?;
                let Some(found) = found else { return Err(error) };
                let patch = subject.patch(&self.shown, self.now());
                self.object = Some(objects::merge(&self.api, &found, patch).await?);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&mut self) -> Result<(), ApiError> {
        for attempt in 1.. {
            let Some(object) = self.object.take() else { return self.create().await };
            let patch = self.operation.subject.patch(&self.shown, self.now());
            match objects::merge(&self.api, &object, patch).await {
                Ok(written) => {
                    self.object = Some(written);
                    return Ok(());
                }
                Err(error) if error.is_conflict() && attempt < TRIES => {
                    let name = object.name_any();
                    self.object = self.api.get_opt(&name).await.attempt(format!("read {name}"))?;
                }
                // It was deleted while the operation ran: it is created again.
                Err(error) if error.is_not_found() && attempt < TRIES => {}
                Err(error) => {
                    self.object = Some(object);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// A failure to write the object does not affect the operation; it is logged once.
    fn log_once(&mut self, outcome: Result<(), ApiError>) {
        if let Err(error) = outcome
            && !std::mem::replace(&mut self.is_failure_logged, true)
        {
            let message = format!("its progress cannot be written: {}", error.chain());
            let kind = self.operation.subject.kind.name();
            let volume = self.operation.subject.volume.as_str();
            self.operation.log.info(&message, &[("kind", kind), ("persistentVolume", volume)]);
        }
    }
}
