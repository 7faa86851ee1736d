//! Whether a mover that died is followed by another. Called by the server at every death.

use super::ATTEMPTS;

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
