//! The record of a session: its state, and the status of the object that holds it. Changes are made one after the
//! other. Each is written into the status subresource with a write that fails if the status was changed in the
//! meantime, so that a former leader cannot overwrite what its successor recorded. Called by all code that works on a
//! session.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::{GoDuration, NamespaceName};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::session::SessionKey;
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation};
use lifeboat_plan::stash::state::{MemberState, SessionState, WorkPhase, notices};
use lifeboat_plan::transfer::movers::Owner;
use tokio::sync::Mutex;

use super::kind::SessionKind;

/// How often a write is tried if the object is changed outside its status.
const TRIES: u32 = 5;

/// One session.
pub(crate) struct SessionRecord {
    core: Core,
    kind: SessionKind,
    api: Api<DynamicObject>,
    about: ObjectReference,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) created: Timestamp,
    held: Mutex<Held>,
}

/// The object as it was read or written last.
struct Held {
    object: DynamicObject,
    state: SessionState,
    is_gone: bool,
}

impl SessionRecord {
    pub(crate) fn new(
        core: &Core,
        kind: SessionKind,
        resource: &ApiResource,
        object: DynamicObject,
    ) -> Result<Self, serde_json::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let state = kind.read(&object)?;
        Ok(Self {
            core: core.clone(),
            kind,
            api: objects::namespaced(&core.client, &namespace, resource),
            about: object.object_ref(resource),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            created: object.creation_timestamp().map_or_else(|| core.now(), |time| time.0),
            namespace,
            held: Mutex::new(Held { object, state, is_gone: false }),
        })
    }

    /// The session as others see it.
    pub(crate) fn key(&self) -> SessionKey {
        SessionKey { created: self.created, namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Completes when the deadline of the session has passed; never without one.
    pub(crate) async fn deadline_passed(&self) -> impl Future<Output = ()> + use<> {
        let deadline = self.read(|state| state.deadline).await;
        let left = deadline
            .map(|deadline| Duration::try_from(deadline.duration_since(self.now())).unwrap_or_default());
        async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.core.now()
    }

    /// The object that movers work for.
    pub(crate) fn owner(&self) -> Owner {
        Owner {
            kind: self.kind.as_str().to_owned(),
            namespace: NamespaceName::new(&self.namespace),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    pub(crate) async fn state(&self) -> SessionState {
        self.held.lock().await.state.clone()
    }

    /// The object of the session as it is now; None if it no longer exists.
    pub(crate) async fn current(&self) -> Result<Option<DynamicObject>, ApiError> {
        let attempt = format!("read {} {}", self.kind.as_str(), self.name);
        let found = self.api.get_opt(&self.name).await.attempt(attempt)?;
        Ok(found.filter(|found| found.uid().as_deref() == Some(self.uid.as_str())))
    }

    /// Records the last step of the session with these conditions, and how long the session took. False if the session no longer exists.
    pub(crate) async fn complete(&self, observed: &[Observation]) -> Result<bool, ApiError> {
        self.complete_with(observed, None).await
    }

    /// Ends a session whose members cannot run, for this reason. False if the session no longer exists.
    pub(crate) async fn fail(&self, reason: &str) -> Result<bool, ApiError> {
        self.complete_with(&[], Some(reason)).await
    }

    /// `reason`: why it fails, if its members and conditions do not say that.
    async fn complete_with(&self, observed: &[Observation], reason: Option<&str>) -> Result<bool, ApiError> {
        let now = self.now();
        let changed = self.change(|state| {
            if let Some(reason) = reason {
                state.message = Some(reason.to_owned());
            }
            for observed in observed {
                state.observe(observed, now);
            }
            let is_well = |member: &MemberState| member.current_phase() == WorkPhase::Succeeded;
            let all_well = !state.members.is_empty() && state.members.iter().all(is_well);
            if all_well && ConditionType::Interrupted.is_true(&state.conditions) {
                state.observe(&ConditionType::Interrupted.no(""), now);
            }
            state.observe(&ConditionType::MetricsPushed.yes(""), now);
            let passed = Duration::try_from(now.duration_since(self.created)).unwrap_or_default();
            state.duration = Some(GoDuration::from(Duration::from_secs(passed.as_secs())));
        });
        changed.await
    }

    /// Whether a write found that the object no longer exists.
    pub(crate) async fn is_gone(&self) -> bool {
        self.held.lock().await.is_gone
    }

    /// Reads one value of the state.
    pub(crate) async fn read<T>(&self, read: impl FnOnce(&SessionState) -> T) -> T {
        read(&self.held.lock().await.state)
    }

    /// Changes the state and writes it. False if the object, and therefore the session, no longer exists. If
    /// the change has no effect on the state, nothing is written. Failures that the change records are
    /// reported in events.
    pub(crate) async fn change(&self, change: impl FnOnce(&mut SessionState)) -> Result<bool, ApiError> {
        let mut held = self.held.lock().await;
        if held.is_gone {
            return Ok(false);
        }
        let mut state = held.state.clone();
        change(&mut state);
        state.settle();
        if state == held.state {
            return Ok(true);
        }
        let written = self.write(&mut held, &state).await?;
        held.is_gone = !written;
        if !written {
            return Ok(false);
        }
        let told = notices(&held.state, &state);
        held.state = state;
        // Events are written while others change the state.
        drop(held);
        for notice in told {
            self.warn(notice.reason, &notice.message).await;
        }
        Ok(true)
    }

    /// Writes the state as it is. Fails if the API server refuses that.
    pub(crate) async fn rewrite(&self) -> Result<(), ApiError> {
        let mut held = self.held.lock().await;
        if held.is_gone {
            return Ok(());
        }
        let state = held.state.clone();
        let written = self.write(&mut held, &state).await?;
        held.is_gone = !written;
        Ok(())
    }

    async fn write(&self, held: &mut Held, state: &SessionState) -> Result<bool, ApiError> {
        let mut tries = 0;
        loop {
            let mut wanted = held.object.clone();
            wanted.data["status"] = self.kind.status(state);
            let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
            let written = self.api.replace_status(&self.name, &params, &wanted).await;
            match written.attempt(format!("update the status of {} {}", self.kind.as_str(), self.name)) {
                Ok(object) => {
                    held.object = object;
                    return Ok(true);
                }
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.is_conflict() => {
                    tries += 1;
                    match self.reread(held).await? {
                        Reread::Gone => return Ok(false),
                        Reread::SameStatus if tries < TRIES => {}
                        // Another server writes this status.
                        Reread::SameStatus | Reread::OtherStatus => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// After a conflict: takes the object's new version if only fields outside the status were changed.
    async fn reread(&self, held: &mut Held) -> Result<Reread, ApiError> {
        let Some(found) = self.current().await? else { return Ok(Reread::Gone) };
        if found.data.get("status") != held.object.data.get("status") {
            return Ok(Reread::OtherStatus);
        }
        held.object = found;
        Ok(Reread::SameStatus)
    }

    /// Writes an event about the session. A failure is only logged.
    pub(crate) async fn warn(&self, reason: &str, message: &str) {
        self.core.events.warning(&self.about, reason, message).await;
    }
}

enum Reread {
    Gone,
    SameStatus,
    OtherStatus,
}
