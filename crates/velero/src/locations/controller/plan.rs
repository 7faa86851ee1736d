//! The decision: check the bucket now or later, and which surplus defaults to unset. The rules are in
//! `plan::velero::location`; this is the call.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_plan::velero::location::{DefaultCandidate, Due, PastLook, next_look, surplus_defaults};

use super::gather::Gathered;
use super::validate::{Opening, Problem};

/// What is to be done, with nothing left to decide.
pub(super) struct Plan {
    pub(super) look: Look,
    /// The default that stays, and those to unset.
    pub(super) surplus: Option<(String, Vec<String>)>,
    /// The inputs and the time of this check, remembered once its result is written.
    pub(super) this_look: PastLook,
    /// The time between two periodic checks, if they are on.
    pub(super) frequency: Duration,
    /// This server has never checked this location.
    pub(super) first_look: bool,
}

pub(super) enum Look {
    /// Open the bucket and check it.
    Now(Box<Opening>),
    /// The location cannot be opened, for this reason.
    Unusable(Problem),
    /// No check is due.
    Later(Due),
}

/// `past`: the last check that this server remembers. `frequency`: for locations that set none.
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

/// Everything that a result depends on: the spec and the versions of the Secrets. Status is not included, so that
/// writing a result does not trigger the next check.
fn inputs(gathered: &Gathered) -> String {
    let secrets = gathered.secrets.iter();
    let versions: Vec<_> =
        secrets.map(|(name, secret)| (name, secret.as_ref().map(|secret| &secret.version))).collect();
    let password = gathered.password.as_ref().map(|secret| (&secret.annotations, secret.data.len()));
    format!("{:?} {versions:?} {password:?}", gathered.object.data.get("spec"))
}
