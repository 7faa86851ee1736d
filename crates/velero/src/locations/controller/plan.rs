//! The decision: look at the bucket now or later, and which surplus defaults to unset. The rules are in
//! `plan::velero::location`; this is the call.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_plan::velero::location::{DefaultCandidate, Due, PastLook, next_look, surplus_defaults};

use super::gather::Gathered;
use super::validate::{Opening, Problem};

/// What is to be done, nothing left to choose.
pub(super) struct Plan {
    pub(super) look: Look,
    /// The default that stays and those to unset.
    pub(super) surplus: Option<(String, Vec<String>)>,
    /// The inputs of this look and its time, remembered once its verdict is told.
    pub(super) this_look: PastLook,
    /// When periodic looks are on: how long after a look the next one follows.
    pub(super) frequency: Duration,
    /// This server has never looked at this location.
    pub(super) first_look: bool,
}

pub(super) enum Look {
    /// Open the bucket and look.
    Now(Box<Opening>),
    /// The location cannot even be opened; say why.
    Unusable(Problem),
    /// Not due.
    Later(Due),
}

/// `past`: the last look that this server remembers. `frequency`: that of locations without their own.
pub(super) fn plan(
    gathered: &Gathered,
    validated: Result<Opening, Problem>,
    past: Option<&PastLook>,
    frequency: Duration,
    now: Timestamp,
) -> Plan {
    let inputs = inputs(gathered);
    let frequency = gathered.shown.frequency.unwrap_or(frequency);
    let look = match next_look(&gathered.shown, past, &inputs, frequency, now) {
        Due::Now => match validated {
            Ok(opening) => Look::Now(Box::new(opening)),
            Err(problem) => Look::Unusable(problem),
        },
        later => Look::Later(later),
    };
    Plan {
        look,
        surplus: surplus_defaults(gathered.defaults.iter().map(candidate).collect()),
        this_look: PastLook { inputs, at: now },
        frequency,
        first_look: past.is_none(),
    }
}

fn candidate(location: &DynamicObject) -> DefaultCandidate {
    DefaultCandidate { name: location.name_any(), created: location.creation_timestamp().map(|time| time.0) }
}

/// Everything a verdict depends on: the spec and the versions of the Secrets. Status is not part of it, so that
/// writing a verdict does not ask for the next one.
fn inputs(gathered: &Gathered) -> String {
    let secrets = gathered.secrets.iter();
    let versions: Vec<_> =
        secrets.map(|(name, secret)| (name, secret.as_ref().map(|secret| &secret.version))).collect();
    let password = gathered.password.as_ref().map(|secret| (&secret.annotations, secret.data.len()));
    format!("{:?} {versions:?} {password:?}", gathered.object.data.get("spec"))
}
