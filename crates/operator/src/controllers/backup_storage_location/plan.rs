//! The decision: look at the bucket now or later, and which surplus defaults to unset. The rules are in
//! `plan::location`; this is the call.

use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::common::GoDuration;
use lifeboat_plan::location::{Due, due, surplus_defaults};

use super::State;
use super::gather::Gathered;
use super::validate::{Opening, Unusable};
use crate::context::Context;

/// What is to be done, nothing left to choose.
pub(super) struct Plan {
    pub(super) look: Look,
    /// The default that stays and those to unset.
    pub(super) surplus: Option<(String, Vec<String>)>,
    /// The inputs of this look, remembered once it is written.
    pub(super) fingerprint: String,
    /// When periodic looks are on: how long after a look the next one follows.
    pub(super) frequency: Duration,
    /// This server has never looked at this location.
    pub(super) first_look: bool,
}

pub(super) enum Look {
    /// Open the bucket and look.
    Now(Box<Opening>),
    /// The location cannot even be opened; say why.
    Unusable(Unusable),
    /// Not due.
    Later(Due),
}

pub(super) fn plan(
    gathered: &Gathered,
    validated: Result<Opening, Unusable>,
    context: &Context,
    state: &State,
) -> Plan {
    let fingerprint = fingerprint(gathered);
    let uid = gathered.object.uid().unwrap_or_default();
    let known = state.looked_at.lock().ok().and_then(|known| known.get(&uid).cloned());
    let location = gathered.location.as_ref().ok();
    let frequency = location
        .and_then(|location| location.spec.validation_frequency)
        .map_or(context.settings.validation_frequency, positive);
    let last = location
        .and_then(|location| location.status.as_ref()?.last_validation_time.as_ref())
        .map(|time| time.0);
    let look = match due(frequency, known.as_ref() != Some(&fingerprint), last, context.now()) {
        Due::Now => match validated {
            Ok(opening) => Look::Now(Box::new(opening)),
            Err(unusable) => Look::Unusable(unusable),
        },
        later => Look::Later(later),
    };
    Plan {
        look,
        surplus: surplus_defaults(gathered.defaults.clone()),
        fingerprint,
        frequency,
        first_look: known.is_none(),
    }
}

/// Everything a verdict depends on: the spec and the versions of the Secrets. Status is not part of it, so that
/// writing a verdict does not ask for the next one.
fn fingerprint(gathered: &Gathered) -> String {
    let secrets = gathered.secrets.iter();
    let versions: Vec<_> =
        secrets.map(|(name, secret)| (name, secret.as_ref().map(|secret| &secret.version))).collect();
    let password = gathered.password.as_ref().map(|secret| (&secret.annotations, secret.data.len()));
    format!("{:?} {versions:?} {password:?}", gathered.object.data.get("spec"))
}

/// A negative frequency means what zero means: off.
fn positive(duration: GoDuration) -> Duration {
    u64::try_from(duration.as_nanos()).map(Duration::from_nanos).unwrap_or_default()
}
