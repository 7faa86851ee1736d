//! Waits until the additional items of an item are ready, as its action says. Called by [`super::actions`] after the
//! additional items were restored.
//!
//! A question may take as long as the item may still wait. The wait continues over a restart of the server: its start
//! is in the Restore's annotation of waits, for the waits that it lists.

use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_items::effects::{Awaited, Waited};
use lifeboat_items::pace::Pace;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::items::waits::remaining;
use lifeboat_plugin::actions::{ActionError, RestoreItemAction};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout_at};

use super::VeleroHandler;
use super::actions::Acted;

/// How many items are named in an error.
const MOST_NAMED: usize = 10;
/// How long an item stays in its barrier while its action does not answer.
const SOON: Duration = Duration::from_millis(200);
/// The longest wait for additional items, whatever a plugin asks for, so that no clock overflows.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 30);

/// Why additional items are not known to be ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    #[error(transparent)]
    Action(#[from] ActionError),
    // Upstream's text, with the limit and the items.
    #[error("context deadline exceeded: not ready after {limit}: {items}")]
    Late { limit: GoDuration, items: String },
}

/// Asks the action until its additional items are ready, at most for `limit`. The item leaves its barrier when the
/// first answer is no, or does not arrive.
pub(super) async fn await_ready(
    acted: &Acted<'_>,
    action: &dyn RestoreItemAction,
    items: &[ItemId],
    limit: Duration,
) -> Result<(), NotReady> {
    let Acted { handler, run, item, .. } = acted;
    let (limit, before) = (limit.min(LONGEST_WAIT), run.waited_before(item, action.name()));
    let left = remaining(limit, before);
    let (start, mut pace, mut waiting) = (Instant::now(), Pace::default(), None);
    let mut until = start + left.wait;
    let mut answer_until = start + left.first_answer;
    let begin = || {
        let things: Vec<String> = items.iter().map(ToString::to_string).collect();
        run.waiting(item, &things, action.name())
    };
    loop {
        let asked = ask(handler, action, items, answer_until);
        tokio::pin!(asked);
        let Asked { queued, answer } = tokio::select! {
            biased;
            asked = &mut asked => asked,
            () = sleep(SOON), if waiting.is_none() => {
                waiting = Some(begin());
                asked.await
            }
        };
        if answer.map_err(|_elapsed| late(items, limit))?? {
            if waiting.is_some() {
                let waited = GoDuration::from(Duration::from_secs((before + start.elapsed()).as_secs()));
                let message = format!("its additional items are ready after {waited}");
                run.recorder.info(&message, Some(&item.id));
            }
            return Ok(());
        }
        waiting.get_or_insert_with(&begin);
        until += queued;
        answer_until = until;
        if Instant::now() >= until {
            return Err(late(items, limit));
        }
        let pause = pace.pause().min(until.saturating_duration_since(Instant::now()));
        if run.effects.wait(Awaited::Ready, pause).await == Waited::Assume {
            return Ok(());
        }
    }
}

/// One question.
struct Asked {
    /// How long it waited for its turn.
    queued: Duration,
    answer: Result<Result<bool, ActionError>, Elapsed>,
}

/// Asks once. The time until its turn is not the item's: other items kept the action busy.
async fn ask(
    handler: &VeleroHandler,
    action: &dyn RestoreItemAction,
    items: &[ItemId],
    until: Instant,
) -> Asked {
    let began = Instant::now();
    let _turn = action.turn().await;
    let queued = began.elapsed();
    let until = until + queued;
    // The action's own limit is a little longer, so that the end of the wait is not reported as a problem of the action.
    let limit = until.saturating_duration_since(Instant::now()) + SOON;
    let answer = timeout_at(until, action.are_ready(items, &handler.restore, &handler.lookup, limit)).await;
    Asked { queued, answer }
}

fn late(items: &[ItemId], limit: Duration) -> NotReady {
    let named: Vec<String> = items.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let more = if items.len() > named.len() { ", …" } else { "" };
    NotReady::Late { limit: GoDuration::from(limit), items: format!("{}{more}", named.join(", ")) }
}
