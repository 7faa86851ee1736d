//! A BackupSession that may have been created while no policy checked its user: it stays Pending until the admission
//! policies of its kind and of its invoker's kind are in force, and is skipped if that takes too long.

use jiff::SignedDuration;
use lifeboat_api::stash::BackupSession;
use lifeboat_plan::stash::session::wait_until;
use lifeboat_plan::stash::state::conditions::ConditionType::ValidationPassed;
use lifeboat_plan::stash::state::conditions::Truth;

use super::{Advance, skip, written};
use crate::context::Context;
use crate::sessions::engine::Stopped;
use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;

/// The decision about a session that has not started; None if it may start.
pub(super) async fn hold(
    context: &Context,
    session: &BackupSession,
    record: &SessionRecord,
) -> Result<Option<Advance>, Stopped> {
    let kinds = [SessionKind::Backup.as_str(), session.spec.invoker.kind.as_str()];
    let refusal = kinds.iter().find_map(|kind| context.policies.refusal(kind));
    let now = record.now();
    let was_held = record.read(|state| ValidationPassed.status_in(&state.conditions).is_some()).await;
    let Some(refusal) = refusal else {
        if was_held {
            let checked = ValidationPassed.yes("admission policies check who may create it");
            written(record.change(|state| state.observe(&checked, now)).await?)?;
        }
        return Ok(None);
    };
    let limit = SignedDuration::try_from(context.settings.restore_wait).unwrap_or(SignedDuration::MAX);
    if now >= wait_until(record.created, None, limit) {
        skip(record, &refusal).await?;
        return Ok(Some(Advance::Ended));
    }
    let waits = ValidationPassed.observed(Truth::Unknown, refusal);
    written(record.change(|state| state.observe(&waits, now)).await?)?;
    Ok(Some(Advance::Waits))
}
