//! What a location needs between two checks: nothing, until its spec or a Secret changes. The server's own writes to a
//! location (the result of a check, the time of a sync) trigger reconciles; without this each would read everything again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_control::locked;
use lifeboat_plan::password::PasswordSecret;
use serde_json::Value;

use super::State;
use super::gather::Gathered;
use crate::locations::Secrets;

/// A location whose last check was written.
#[derive(Clone)]
pub(super) struct Settled {
    inputs: Inputs,
    /// What was read for the check.
    secrets: Secrets,
    password: Option<PasswordSecret>,
    phase: &'static str,
    /// When the next check is due; None if there is none.
    next: Option<Timestamp>,
}

/// What the Secrets that are read depend on.
#[derive(Clone, PartialEq)]
pub(super) struct Inputs {
    spec: Option<Value>,
    secret_changes: u64,
}

impl State {
    /// The inputs as they are now: determined before anything is read.
    pub(super) fn inputs(&self, object: &DynamicObject) -> Inputs {
        let secret_changes = self.secret_changes.load(Ordering::Relaxed);
        Inputs { spec: object.data.get("spec").cloned(), secret_changes }
    }

    /// The time until the next check of a location of which nothing has changed since the last one; None if it has, or
    /// the check is due.
    pub(super) fn rest(&self, object: &DynamicObject, now: Timestamp) -> Option<Duration> {
        let settled = locked(&self.settled);
        let settled = settled.get(object.metadata.uid.as_deref()?)?;
        let shown = object.data.pointer("/status/phase").and_then(Value::as_str);
        let is_as_written = settled.inputs == self.inputs(object) && shown == Some(settled.phase);
        let left = settled.next?.duration_since(now);
        Duration::try_from(left).ok().filter(|left| is_as_written && !left.is_zero())
    }

    /// The Secrets of a location and the password, if they were read before and have not changed since.
    pub(super) fn read_before(
        &self,
        object: &DynamicObject,
        inputs: &Inputs,
    ) -> Option<(Secrets, Option<PasswordSecret>)> {
        let settled = locked(&self.settled);
        let settled =
            settled.get(object.metadata.uid.as_deref()?).filter(|settled| settled.inputs == *inputs)?;
        Some((settled.secrets.clone(), settled.password.clone()))
    }

    /// Records that the result of a check was written.
    pub(super) fn settle(&self, gathered: &Gathered, phase: &'static str, next: Option<Timestamp>) {
        let Gathered { object, inputs, secrets, password, .. } = gathered;
        let (inputs, secrets, password) = (inputs.clone(), secrets.clone(), password.clone());
        let settled = Settled { inputs, secrets, password, phase, next };
        locked(&self.settled).insert(object.uid().unwrap_or_default(), settled);
    }
}
