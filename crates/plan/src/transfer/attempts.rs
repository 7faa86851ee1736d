//! Attempts at moving the data of a volume: the task of each attempt, whether another attempt follows a mover that
//! died, and the message for a snapshot with missing files. Called by crate `transfer`.

use lifeboat_api::common::TaskId;

/// Annotation: the consistency of a copy.
pub const CONSISTENCY: &str = "lifeboat.io/consistency";
/// Its values: the application may have been writing; or hooks had quiesced it.
pub const LIVE: &str = "Live";
pub const QUIESCED: &str = "Quiesced";
/// How many movers are started for a volume if they die for reasons unrelated to it.
pub const ATTEMPTS: u64 = 2;
/// How many files a message names.
const NAMED: usize = 3;

/// A snapshot that a mover stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub id: String,
    pub bytes: u64,
    pub bytes_added: u64,
    pub changed: u64,
    /// None if neither the mover nor the snapshot has them.
    pub files: Option<FileCounts>,
    /// How many files are missing in it, and the first of them.
    pub unreadable: u64,
    pub unreadable_first: Vec<String>,
}

/// The files of a snapshot, compared with the snapshot before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    pub total: u64,
    pub new: u64,
    pub modified: u64,
    pub unmodified: u64,
}

/// The message for a snapshot with missing files.
pub fn incomplete(snapshot: &Snapshot) -> String {
    let shown: Vec<&str> = snapshot.unreadable_first.iter().take(NAMED).map(String::as_str).collect();
    let more = if snapshot.unreadable > shown.len() as u64 { ", …" } else { "" };
    let shown = if shown.is_empty() { String::new() } else { format!(" ({}{more})", shown.join(", ")) };
    let (files, have) = if snapshot.unreadable == 1 { ("file", "is") } else { ("files", "are") };
    format!(
        "{} {files} could not be read and {have} not in the snapshot{shown}; the rest of the volume is in snapshot {}",
        snapshot.unreadable, snapshot.id
    )
}

/// The UID of an attempt's task.
pub fn task_uid(uid: &str, attempt: u64) -> TaskId {
    TaskId::new(format!("{uid}-{attempt}"))
}

/// The facts about a mover that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Died {
    /// The number of the attempt, starting at 1.
    pub attempt: u64,
    /// Another attempt may succeed.
    pub may_retry: bool,
    /// Its end was reported, or it never started: it no longer writes.
    pub is_over: bool,
    /// It writes to a volume, which two movers must not do at the same time.
    pub writes: bool,
    /// It is certain that it had not completed its work.
    pub is_undone: bool,
}

/// What follows a mover that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Again,
    Nothing,
    /// No further attempt, because the mover may still be writing.
    NothingBeside,
}

pub fn next(died: Died) -> Next {
    if !died.may_retry || died.attempt >= ATTEMPTS || !died.is_undone {
        return Next::Nothing;
    }
    if died.writes && !died.is_over { Next::NothingBeside } else { Next::Again }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const KILLED: Died = Died { attempt: 1, may_retry: true, is_over: true, writes: true, is_undone: true };

    #[rstest]
    #[case::once_more(KILLED, Next::Again)]
    #[case::not_twice(Died { attempt: 2, ..KILLED }, Next::Nothing)]
    #[case::the_volume_is_to_blame(Died { may_retry: false, ..KILLED }, Next::Nothing)]
    #[case::it_may_have_done_it(Died { is_undone: false, ..KILLED }, Next::Nothing)]
    #[case::it_may_still_write(Died { is_over: false, ..KILLED }, Next::NothingBeside)]
    #[case::two_may_read(Died { is_over: false, writes: false, ..KILLED }, Next::Again)]
    fn a_mover_is_followed_by_another_where_that_is_safe(#[case] died: Died, #[case] expected: Next) {
        assert_eq!(next(died), expected);
    }
}
