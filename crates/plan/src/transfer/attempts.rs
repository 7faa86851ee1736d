//! Attempts at moving the data of a volume: the task of each, whether another one follows a mover that died, and what a
//! snapshot that was stored says of itself. Called by crate `transfer`.

use lifeboat_api::common::TaskId;

/// Annotation: what can be said of the moment that a copy shows.
pub const CONSISTENCY: &str = "lifeboat.io/consistency";
/// Its values: others were writing; or hooks had brought the workload to rest.
pub const LIVE: &str = "Live";
pub const QUIESCED: &str = "Quiesced";
/// How often a mover that died through no fault of the volume is sent.
pub const ATTEMPTS: u64 = 2;
/// How many files a message names.
const NAMED: usize = 3;

/// A snapshot that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub id: String,
    pub bytes: u64,
    pub bytes_added: u64,
    pub changed: u64,
    /// Files that are not in it, and the first of them.
    pub unreadable: u64,
    pub unreadable_first: Vec<String>,
}

/// What is missing in a snapshot.
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

/// The task of an attempt.
pub fn task_uid(uid: &str, attempt: u64) -> TaskId {
    TaskId::new(format!("{uid}-{attempt}"))
}

/// What is known of a mover that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Died {
    /// Counted from 1.
    pub attempt: u64,
    /// The same may succeed when it is tried again.
    pub may_retry: bool,
    /// Its end was reported, or it never began: it does nothing any more.
    pub is_over: bool,
    /// It was to write into a volume, where two must not write.
    pub writes: bool,
    /// It is certain that it had not done its work before.
    pub is_undone: bool,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Again,
    Nothing,
    /// Nothing, because it may still be writing.
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
