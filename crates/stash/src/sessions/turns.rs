//! Turns on data: of the sessions of one server, only one at a time works on a target, and on each claim. This closes
//! the gap between the decision that a session may start and its record.

use lifeboat_control::Turns;
use lifeboat_plan::stash::session::TargetVolumes;
use tokio::sync::OwnedMutexGuard;

/// The target and claims that a member holds; released when dropped.
pub(super) type Turn = Vec<OwnedMutexGuard<()>>;

/// Takes the target and all of its claims, or nothing: None if another member holds one of them.
pub(super) fn try_take(turns: &Turns, on: &TargetVolumes) -> Option<Turn> {
    on.names().into_iter().map(|name| turns.try_take(name)).collect()
}

/// What is taken, for people.
pub(super) fn shown(on: &TargetVolumes) -> String {
    on.title().map(|title| title.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::stash::session::TargetKey;

    use super::*;

    fn on(kind: &str, name: &str, claims: &[&str]) -> TargetVolumes {
        let target = TargetKey { kind: kind.into(), namespace: "shop".into(), name: name.into() };
        TargetVolumes::new("shop", Some(target), claims.iter().map(|&claim| claim.to_owned()).collect())
    }

    #[test]
    fn a_claim_is_taken_with_the_workload_that_mounts_it_and_all_is_given_back() {
        let turns = Turns::default();
        let (web, data) =
            (on("Deployment", "web", &["data", "logs"]), on("PersistentVolumeClaim", "data", &[]));
        let turn = try_take(&turns, &web);
        assert!(turn.is_some());
        assert!(try_take(&turns, &data).is_none());
        assert!(try_take(&turns, &on("Deployment", "api", &["logs", "own"])).is_none());
        assert!(
            try_take(&turns, &on("PersistentVolumeClaim", "own", &[])).is_some(),
            "nothing is kept of a try"
        );
        drop(turn);
        assert!(try_take(&turns, &data).is_some());
    }
}
