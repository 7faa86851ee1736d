//! Writes the result in as many bytes as Kubernetes keeps. If it is too large, these are shortened, in this order:
//! lists, messages, then parts that are done, whose snapshots can be found in the repository, and finally parts that
//! failed. The counts and snapshot IDs of a listed part are kept.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::report::{Failure, Listed, Outcome, PartResults, RESULT_LIMIT, TaskResult};

/// The longest entry of a list. A path has at most 4,096 bytes, but a few of these would fill the result.
const LONGEST_ENTRY: usize = 256;
/// The length to which messages are shortened as long as parts that are done can be left out.
const MESSAGE: usize = 200;
/// The length to which messages are shortened as long as parts can be left out.
const SHORT_MESSAGE: usize = 60;

/// Writes the result. The file is mounted by the kubelet, so it cannot be replaced by a rename.
pub(super) fn write(path: &Path, result: TaskResult) -> io::Result<()> {
    let text = fitting(result)?;
    let mut file = File::options().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}

/// The result as JSON of at most [`RESULT_LIMIT`] bytes.
pub(super) fn fitting(mut result: TaskResult) -> io::Result<String> {
    for list in outcomes(&mut result.outcome).into_iter().flat_map(lists) {
        list.first.iter_mut().for_each(|entry| cut(entry, LONGEST_ENTRY));
    }
    loop {
        let text = serde_json::to_string(&result)?;
        if text.len() <= RESULT_LIMIT {
            return Ok(text);
        }
        if !shrink(&mut result, text.len() - RESULT_LIMIT) {
            return Err(io::Error::other("the result is too large even without its lists and parts"));
        }
    }
}

/// Leaves out about `excess` bytes; false if nothing can be left out any more.
fn shrink(result: &mut TaskResult, excess: usize) -> bool {
    let outcome = &mut result.outcome;
    if shorten_lists(outcome, excess) {
        return true;
    }
    if let Outcome::Parts(_) = outcome {
        return shorten_messages(outcome, MESSAGE, excess)
            || leave_out(outcome, Outcome::is_done)
            || shorten_messages(outcome, SHORT_MESSAGE, excess)
            || leave_out(outcome, |_| true);
    }
    shorten_messages(outcome, 0, excess)
}

/// Removes entries from the longest lists.
fn shorten_lists(outcome: &mut Outcome, excess: usize) -> bool {
    let mut left_out = 0;
    while left_out < excess {
        let lists = outcomes(outcome).into_iter().flat_map(lists);
        let longest = lists.max_by_key(|list| list.first.len());
        let Some(entry) = longest.and_then(|list| list.first.pop()) else { break };
        left_out += entry.len().max(1);
    }
    left_out > 0
}

/// Halves the longest messages as long as they are longer than `least`.
fn shorten_messages(outcome: &mut Outcome, least: usize, excess: usize) -> bool {
    let mut left_out = 0;
    while left_out < excess {
        let messages = outcomes(outcome).into_iter().filter_map(|outcome| match outcome {
            Outcome::Failed(Failure { message, .. }) => Some(message),
            _ => None,
        });
        let longest = messages.max_by_key(|message| message.len());
        let Some(longest) = longest.filter(|message| message.len() > least) else { break };
        let before = longest.len();
        cut(longest, (before / 2).max(least));
        left_out += before - longest.len();
    }
    left_out > 0
}

/// Removes the last part for which `may_go` is true from the list and counts it.
fn leave_out(outcome: &mut Outcome, may_go: fn(&Outcome) -> bool) -> bool {
    let Outcome::Parts(PartResults { parts, not_listed }) = outcome else { return false };
    let Some(position) = parts.iter().rposition(|part| may_go(&part.outcome)) else { return false };
    if parts.remove(position).outcome.is_done() {
        not_listed.done += 1;
    } else {
        not_listed.failed += 1;
    }
    true
}

/// The outcome, or the outcomes of its parts.
fn outcomes(outcome: &mut Outcome) -> Vec<&mut Outcome> {
    match outcome {
        Outcome::Parts(results) => results.parts.iter_mut().map(|part| &mut part.outcome).collect(),
        outcome => vec![outcome],
    }
}

fn lists(outcome: &mut Outcome) -> Vec<&mut Listed> {
    match outcome {
        Outcome::BackedUp(backed_up) => vec![&mut backed_up.changed, &mut backed_up.unreadable],
        Outcome::Restored(restored) => vec![&mut restored.failed, &mut restored.owners],
        Outcome::Maintained(maintained) => vec![&mut maintained.problems],
        Outcome::Initialized(_)
        | Outcome::Looked(_)
        | Outcome::Forgotten(_)
        | Outcome::Called(_)
        | Outcome::Failed(_)
        | Outcome::Parts(_) => Vec::new(),
    }
}

/// Shortens a text to `length` bytes, at a character boundary.
fn cut(text: &mut String, length: usize) {
    const MORE: &str = "…";
    if text.len() <= length {
        return;
    }
    let end = text.floor_char_boundary(length.saturating_sub(MORE.len()));
    text.truncate(end);
    if length >= MORE.len() {
        text.push_str(MORE);
    }
}

#[cfg(test)]
mod tests;
