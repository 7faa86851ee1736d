//! What a mover reported of one part of its task. Called where movers copy and where they restore.

use lifeboat_mover::report::Outcome;

/// Why a part was not done, as far as the mover's report says.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotDone {
    #[error("the mover's result has no room for this path")]
    NoRoom,
    #[error("the mover did not report this path")]
    NotReported,
    #[error("{0}")]
    Failed(String),
    #[error("the mover answered with another kind of work: {0}")]
    OtherWork(String),
    #[error("{count} files could not be restored ({first})")]
    Incomplete { count: u64, first: String },
}

impl NotDone {
    /// The outcome of another kind of work, or of a part that failed.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Failed(failure) => Self::Failed(failure.message.clone()),
            other => Self::OtherWork(format!("{other:?}")),
        }
    }
}

/// Problems of paths or hosts in one text. One that several have is said once.
pub(super) fn grouped(problems: &[(String, String)]) -> String {
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for (of, problem) in problems {
        match groups.iter_mut().find(|(_, known)| known == problem) {
            Some((all, _)) => all.push(of),
            None => groups.push((vec![of], problem)),
        }
    }
    let texts = groups.into_iter().map(|(all, problem)| format!("{}: {problem}", all.join(", ")));
    texts.collect::<Vec<_>>().join("; ")
}

/// The outcome of a part. `number`: its place in the task, from 0.
pub(super) fn of_part<'a>(outcome: &'a Outcome, uid: &str, number: usize) -> Result<&'a Outcome, NotDone> {
    match outcome {
        Outcome::Parts(results) => {
            let listed = results.parts.iter().find(|part| part.uid == uid);
            listed.map(|part| &part.outcome).ok_or(NotDone::NoRoom)
        }
        // A task with one part has no list of parts: its result is that of the part.
        outcome if number == 0 => Ok(outcome),
        _ => Err(NotDone::NotReported),
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_mover::report::{BackedUp, Cause, Failure, PartResult, PartResults};

    use super::*;

    #[test]
    fn a_part_has_its_own_outcome_or_that_of_a_task_with_one_part() {
        let stored = Outcome::BackedUp(BackedUp { snapshot: "s".into(), ..BackedUp::default() });
        assert_eq!(of_part(&stored, "t.0", 0).unwrap(), &stored);
        assert!(matches!(of_part(&stored, "t.1", 1), Err(NotDone::NotReported)));
        let parts = vec![PartResult { uid: "t.1".into(), outcome: stored.clone() }];
        let parts = Outcome::Parts(PartResults { parts, ..PartResults::default() });
        assert_eq!(of_part(&parts, "t.1", 1).unwrap(), &stored);
        assert!(matches!(of_part(&parts, "t.0", 0), Err(NotDone::NoRoom)));
    }

    #[test]
    fn a_problem_that_several_paths_have_is_said_once() {
        let of = |path: &str, problem: &str| (path.to_owned(), problem.to_owned());
        let problems = [of("/a", "read-only"), of("/b", "no space"), of("/c", "read-only")];
        assert_eq!(grouped(&problems), "/a, /c: read-only; /b: no space");
    }

    #[test]
    fn a_part_that_failed_says_why() {
        let failed = Outcome::Failed(Failure { cause: Cause::Target, message: "read-only".into() });
        assert_eq!(NotDone::of(&failed).to_string(), "read-only");
        let other = NotDone::of(&Outcome::Parts(PartResults::default())).to_string();
        assert!(other.contains("another kind of work"), "{other}");
    }
}
