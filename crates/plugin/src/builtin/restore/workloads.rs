//! Action for Jobs: removes the labels by which the Job controller selects pods, because they contain the UID of the
//! old Job.

use crate::actions::{ActionError, RestoreInput, RestoreOutcome};

use super::remove;

const CONTROLLER: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

#[allow(clippy::unnecessary_wraps)] // the form of all actions
pub(super) fn job(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut job = input.item;
    for label in CONTROLLER {
        remove(&mut job, "/spec/selector/matchLabels", label);
        remove(&mut job, "/spec/template/metadata/labels", label);
    }
    Ok(RestoreOutcome::item(job))
}
