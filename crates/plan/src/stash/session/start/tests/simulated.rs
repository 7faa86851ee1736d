//! Sessions of a simulated cluster that start and end in any order.

use proptest::prelude::*;

use super::*;

/// One session of a simulated cluster, each with one target.
#[derive(Clone, Debug)]
struct Simulated {
    key: SessionKey,
    restores: bool,
    on: TargetVolumes,
    phase: W,
}

/// Targets that share claims in several ways.
fn simulated_targets() -> [TargetVolumes; 4] {
    [
        with_claims("web", &["data", "logs"]),
        with_claims("db", &["rows"]),
        claim("data"),
        with_claims("api", &["logs", "rows"]),
    ]
}

fn simulated() -> impl Strategy<Value = Vec<Simulated>> {
    let one = (0..4i64, any::<bool>(), 0..4usize);
    proptest::collection::vec(one, 1..8).prop_map(|sessions| {
        let session = |(index, (second, restores, of)): (usize, (i64, bool, usize))| Simulated {
            key: key(&format!("s{index}"), second),
            restores,
            on: simulated_targets()[of].clone(),
            phase: W::Pending,
        };
        sessions.into_iter().enumerate().map(session).collect()
    })
}

fn may_start(sessions: &[Simulated], index: usize) -> bool {
    let me = &sessions[index];
    let rest = || sessions.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
    let phase = |phase: W| match phase {
        W::Pending => S::Pending,
        W::Running => S::Running,
        _ => S::Succeeded,
    };
    let backups: Vec<_> = rest()
        .filter(|other| !other.restores)
        .map(|other| OtherBackup {
            session: other.key.clone(),
            phase: phase(other.phase),
            targets: vec![OtherTarget { on: other.on.clone(), phase: other.phase }],
        })
        .collect();
    let restores: Vec<_> = rest()
        .filter(|other| other.restores)
        .map(|other| OtherRestore {
            session: other.key.clone(),
            kind: "RestoreSession",
            on: other.on.clone(),
            progress: match other.phase {
                W::Pending => RestoreProgress::Queued,
                W::Running => RestoreProgress::Running,
                _ => succeeded(0),
            },
        })
        .collect();
    let start = if me.restores {
        restore_member(&me.key, &me.on, &backups, &restores)
    } else {
        backup_member(&me.key, Some(&me.on.clone().into()), &backups, &restores)
    };
    start == MemberStart::Start
}

proptest! {
    /// Sessions start and end in any order: two are never at work on one target or claim, and all come to their end.
    #[test]
    fn targets_are_exclusive_and_no_session_waits_for_ever(
        mut sessions in simulated(),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let step = |sessions: &mut [Simulated], index: usize| {
            let next = match sessions[index].phase {
                W::Pending if may_start(sessions, index) => W::Running,
                W::Running => W::Succeeded,
                phase => phase,
            };
            sessions[index].phase = next;
        };
        for pick in picks {
            let index = pick.index(sessions.len());
            step(&mut sessions, index);
            let at_work: Vec<_> = sessions.iter().filter(|other| other.phase == W::Running).collect();
            for (number, one) in at_work.iter().enumerate() {
                let others = at_work.iter().skip(number + 1);
                prop_assert!(others.into_iter().all(|other| one.on.shared(&other.on).is_none()));
            }
        }
        for _ in 0..2 * sessions.len() {
            for index in 0..sessions.len() {
                step(&mut sessions, index);
            }
        }
        prop_assert!(sessions.iter().all(|session| session.phase == W::Succeeded));
    }
}
