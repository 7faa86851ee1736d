//! The result, in as many bytes as Kubernetes keeps: lists are cut, then texts; what happened stays.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::report::{Listed, Outcome, RESULT_LIMIT, TaskResult};

/// No entry of a list is longer; a path has 4,096 bytes at most, but a few of them would fill the result.
const LONGEST_ENTRY: usize = 256;

/// Leaves the result. The file is one of the kubelet's, mounted, so that nothing can be renamed to it.
pub(super) fn write(path: &Path, result: TaskResult) -> io::Result<()> {
    let text = fitting(result)?;
    let mut file = File::options().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}

/// The result as JSON of at most [`RESULT_LIMIT`] bytes.
pub(super) fn fitting(mut result: TaskResult) -> io::Result<String> {
    for list in lists(&mut result.outcome) {
        list.first.iter_mut().for_each(|entry| cut(entry, LONGEST_ENTRY));
    }
    loop {
        let text = serde_json::to_string(&result)?;
        if text.len() <= RESULT_LIMIT {
            return Ok(text);
        }
        if !shrink(&mut result) {
            return Err(io::Error::other("the result does not fit, whatever is left out"));
        }
    }
}

/// Leaves a bit out; false if nothing is left to leave out.
fn shrink(result: &mut TaskResult) -> bool {
    let longest = lists(&mut result.outcome).into_iter().max_by_key(|list| list.first.len());
    if let Some(list) = longest.filter(|list| !list.first.is_empty()) {
        list.first.pop();
        return true;
    }
    let text = match &mut result.outcome {
        Outcome::Failed(failure) if !failure.message.is_empty() => &mut failure.message,
        Outcome::BackedUp(backed_up) if backed_up.snapshot.len() > 64 => &mut backed_up.snapshot,
        _ => &mut result.uid,
    };
    let half = text.len() / 2;
    cut(text, half);
    half > 0
}

fn lists(outcome: &mut Outcome) -> Vec<&mut Listed> {
    match outcome {
        Outcome::BackedUp(backed_up) => vec![&mut backed_up.changed, &mut backed_up.unreadable],
        Outcome::Restored(restored) => vec![&mut restored.failed],
        Outcome::Maintained(maintained) => vec![&mut maintained.problems],
        Outcome::Failed(_) => Vec::new(),
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
