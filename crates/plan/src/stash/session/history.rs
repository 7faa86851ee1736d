//! Which old BackupSessions of an invoker are deleted.

use jiff::Timestamp;

use crate::stash::state::SessionPhase;

/// A BackupSession of the invoker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSession {
    pub name: String,
    pub created: Timestamp,
    pub phase: SessionPhase,
    /// A retry of this session is still to be created; this session has its due time.
    pub awaits_retry: bool,
}

/// The names of the sessions to delete: those that have ended, beyond `limit`, oldest last. The newest session that
/// was not skipped is kept with any limit above zero, so that skipped sessions do not hide it. Sessions that have not
/// ended or await a retry are always kept.
pub fn to_delete(sessions: &[OldSession], limit: usize) -> Vec<String> {
    let mut ended: Vec<_> =
        sessions.iter().filter(|session| session.phase.has_ended() && !session.awaits_retry).collect();
    ended.sort_by(|one, other| (other.created, &other.name).cmp(&(one.created, &one.name)));
    let ran =
        |session: &&&OldSession| matches!(session.phase, SessionPhase::Succeeded | SessionPhase::Failed);
    let last_run = ended.iter().find(ran).filter(|_| limit > 0).map(|session| session.name.clone());
    let beyond = ended.iter().skip(limit).filter(|session| last_run.as_ref() != Some(&session.name));
    beyond.map(|session| session.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Sessions named by their phases, the newest first: `s` Succeeded, `f` Failed, `k` Skipped, `r` Running, `w` Failed and
    /// awaiting a retry.
    fn sessions(phases: &str) -> Vec<OldSession> {
        let count = i64::try_from(phases.len()).unwrap();
        let session = |(index, phase): (i64, char)| OldSession {
            name: format!("{phase}{index}"),
            created: Timestamp::from_second(count - index).unwrap(),
            phase: match phase {
                's' => SessionPhase::Succeeded,
                'k' => SessionPhase::Skipped,
                'r' => SessionPhase::Running,
                _ => SessionPhase::Failed,
            },
            awaits_retry: phase == 'w',
        };
        (0..).zip(phases.chars()).map(session).collect()
    }

    #[rstest]
    #[case::within("sss", 5, &[], "fewer than the limit")]
    #[case::beyond("sfs", 1, &["f1", "s2"], "the newest stays")]
    #[case::skipped("kks", 1, &["k1"], "the newest one that ran stays as well")]
    #[case::failed_counts_as_run("kfs", 1, &["s2"], "the failed one is newer than the succeeded one")]
    #[case::running("rss", 1, &["s2"], "one that runs is not counted")]
    #[case::zero("sk", 0, &["s0", "k1"], "nothing is kept")]
    #[case::zero_and_running("rw", 0, &[], "what has not ended, or awaits a retry, stays")]
    #[case::awaits_retry("sw", 1, &[], "its retry would be lost")]
    fn sessions_beyond_the_limit_are_deleted(
        #[case] phases: &str,
        #[case] limit: usize,
        #[case] expected: &[&str],
        #[case] reason: &str,
    ) {
        assert_eq!(to_delete(&sessions(phases), limit), expected, "{reason}");
    }

    proptest! {
        #[test]
        fn the_newest_stay_and_deletion_comes_to_rest(phases in "[sfkrw]{0,12}", limit in 0..5usize) {
            let all = sessions(&phases);
            let deleted = to_delete(&all, limit);
            let left: Vec<_> = all.iter().filter(|session| !deleted.contains(&session.name)).cloned().collect();
            let ended = left.iter().filter(|session| session.phase.has_ended() && !session.awaits_retry).count();
            prop_assert!(ended <= limit + usize::from(limit > 0), "{ended} of {limit}");
            prop_assert_eq!(to_delete(&left, limit), Vec::<String>::new(), "nothing more goes");
            let ran = |phase: SessionPhase| matches!(phase, SessionPhase::Succeeded | SessionPhase::Failed);
            let newest = all.iter().find(|session| ran(session.phase));
            if let (Some(newest), true) = (newest, limit > 0) {
                prop_assert!(left.contains(newest));
            }
        }
    }
}
