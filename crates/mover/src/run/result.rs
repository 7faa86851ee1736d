//! The result, in as many bytes as Kubernetes keeps. What gives way first: entries of lists, then the ends of messages, then
//! parts that are done, whose snapshots are found in the repository, and last parts that failed. Counts and snapshot IDs of
//! a part that is listed stay.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::report::{Failure, Listed, Outcome, PartResults, RESULT_LIMIT, TaskResult};

/// No entry of a list is longer; a path has 4,096 bytes at most, but a few of them would fill the result.
const LONGEST_ENTRY: usize = 256;
/// What stays of a message while there are parts that are done and can be left out.
const MESSAGE: usize = 200;
/// What stays of a message while there are parts that can be left out.
const SHORT_MESSAGE: usize = 60;

/// Writes the result. The file is one of the kubelet's, mounted, so that nothing can be renamed to it.
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
            return Err(io::Error::other("the result does not fit, whatever is left out"));
        }
    }
}

/// Leaves out about as many bytes as there are too many; false if nothing is left to leave out.
fn shrink(result: &mut TaskResult, excess: usize) -> bool {
    let outcome = &mut result.outcome;
    if shorten_lists(outcome, excess) {
        return true;
    }
    if let Outcome::Parts(_) = outcome {
        return shorten_message(outcome, MESSAGE)
            || leave_out(outcome, Outcome::is_done)
            || shorten_message(outcome, SHORT_MESSAGE)
            || leave_out(outcome, |_| true);
    }
    shorten_message(outcome, 0)
}

/// Takes entries from the longest lists.
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

/// Halves the longest message, as long as it is longer than `least`.
fn shorten_message(outcome: &mut Outcome, least: usize) -> bool {
    let messages = outcomes(outcome).into_iter().filter_map(|outcome| match outcome {
        Outcome::Failed(Failure { message, .. }) => Some(message),
        _ => None,
    });
    let Some(longest) = messages.max_by_key(|message| message.len()).filter(|message| message.len() > least)
    else {
        return false;
    };
    let length = (longest.len() / 2).max(least);
    cut(longest, length);
    true
}

/// Takes the last part for which `may_go` is true off the list and counts it.
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

/// The outcome itself, or those of its parts.
fn outcomes(outcome: &mut Outcome) -> Vec<&mut Outcome> {
    match outcome {
        Outcome::Parts(results) => results.parts.iter_mut().map(|part| &mut part.outcome).collect(),
        outcome => vec![outcome],
    }
}

fn lists(outcome: &mut Outcome) -> Vec<&mut Listed> {
    match outcome {
        Outcome::BackedUp(backed_up) => vec![&mut backed_up.changed, &mut backed_up.unreadable],
        Outcome::Restored(restored) => vec![&mut restored.failed],
        Outcome::Maintained(maintained) => vec![&mut maintained.problems],
        Outcome::Failed(_) | Outcome::Parts(_) => Vec::new(),
    }
}

/// Cuts a text to so many bytes, between characters.
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
