//! Notes in the annotations of the object that records a repository, whichever API it belongs to: snapshots that are to be
//! forgotten, locks that are to be removed, and the maintenance that is running. Takes objects and the time, gives patches.
//! Called by the controllers of repositories and by transfers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::common::TaskId;
use lifeboat_api::common::time::seconds;
use serde_json::{Value, json};

/// The number of the running maintenance, so that the next leader finds the same Job.
pub const MAINTENANCE: &str = "lifeboat.io/maintenance";
/// Set by users (`lifeboat repo maintain`) and by retention policies that prune: maintenance is due since this time.
pub const MAINTAIN_SINCE: &str = "lifeboat.io/maintain-since";
/// Set when Lifeboat itself forgot the last snapshot, and removed before a new one is stored: only with it may
/// maintenance treat the repository as empty and free all of its space.
pub const EMPTIED: &str = "lifeboat.io/emptied";
/// One annotation per task that was given up while its mover may still have been running: until when the mover can store a
/// snapshot, which is then forgotten.
const GIVEN_UP: &str = "given-up.lifeboat.io/";
/// One annotation per mover whose end was reported and whose locks could not be removed: the owner of the locks.
const DEAD_OWNER: &str = "dead-owner.lifeboat.io/";
/// How long after its deadline a mover may still write.
const LAST_WORDS: Duration = Duration::from_mins(10);

/// The patch for a task that is given up while its mover may keep running until `deadline`.
pub fn give_up(task: &TaskId, deadline: Timestamp) -> Value {
    let until = seconds(after(deadline, LAST_WORDS));
    json!({"metadata": {"annotations": {format!("{GIVEN_UP}{task}"): until}}})
}

/// The tasks that were given up, by what happens to their snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Tasks whose snapshots are forgotten.
    pub unwanted: Vec<TaskId>,
    /// Tasks about which nothing is known, or not yet.
    pub unknown: Vec<TaskId>,
    /// Tasks whose snapshot is the copy after all.
    pub wanted: Vec<TaskId>,
}

impl GivenUp {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to the snapshot of a task that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFate {
    /// It is the copy after all.
    Wanted,
    /// It is forgotten.
    Unwanted,
    /// Nothing is known about the task, or not yet: its snapshot stays.
    Unknown,
}

/// Groups the tasks that were given up by the result of `fate`.
pub fn given_up(repository: &Value, fate: impl Fn(&str) -> TaskFate) -> GivenUp {
    let mut found = GivenUp::default();
    for (task, _) in notes(repository) {
        let list = match fate(task) {
            TaskFate::Wanted => &mut found.wanted,
            TaskFate::Unwanted => &mut found.unwanted,
            TaskFate::Unknown => &mut found.unknown,
        };
        list.push(TaskId::new(task));
    }
    found
}

/// The patch after the snapshots of the unwanted tasks were searched for at `looked`; None if all tasks stay
/// recorded.
pub fn looked_for(repository: &Value, found: &GivenUp, looked: Timestamp) -> Option<Value> {
    let over = |(task, until): &(&str, &Value)| {
        let until = until.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        found.wanted.iter().any(|wanted| wanted == task) || until.is_none_or(|until| until < looked)
    };
    let over: serde_json::Map<String, Value> =
        notes(repository).filter(over).map(|(task, _)| (format!("{GIVEN_UP}{task}"), Value::Null)).collect();
    (!over.is_empty()).then(|| json!({"metadata": {"annotations": over}}))
}

fn notes(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    of_prefix(object, GIVEN_UP)
}

/// The annotations with a prefix, without the prefix.
fn of_prefix<'a>(object: &'a Value, prefix: &'static str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    annotations.filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
}

/// The patch if the locks of a dead owner, `<cluster>/<pod>`, could not be removed.
pub fn note_dead(owner: &str) -> Value {
    json!({"metadata": {"annotations": {dead_note(owner): owner}}})
}

fn dead_note(owner: &str) -> String {
    format!("{DEAD_OWNER}{}", owner.rsplit('/').next().unwrap_or_default())
}

/// The recorded owners.
pub fn dead_owners(repository: &Value) -> Vec<String> {
    of_prefix(repository, DEAD_OWNER).filter_map(|(_, owner)| owner.as_str().map(str::to_owned)).collect()
}

/// The patch after their locks were removed.
pub fn unlocked(owners: &[String]) -> Value {
    let gone: serde_json::Map<String, Value> =
        owners.iter().map(|owner| (dead_note(owner), Value::Null)).collect();
    json!({"metadata": {"annotations": gone}})
}

/// One maintenance, numbered by the second in which it began. Its work is derived from the object and this number, so
/// that a server that continues it does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceRun {
    pub number: u64,
    pub prune: bool,
    pub check: bool,
}

impl MaintenanceRun {
    /// Whether there is nothing to do: the end of the run is recorded, and the server stopped before it removed the number.
    pub fn is_recorded(self) -> bool {
        !self.prune && !self.check
    }

    /// The task of its mover.
    pub fn task(self, repository_uid: &str) -> TaskId {
        task(repository_uid, self.number)
    }

    /// When it began; None if the number is not one of a server.
    pub fn begun(self) -> Option<Timestamp> {
        Timestamp::from_second(i64::try_from(self.number).ok()?).ok()
    }

    /// The patch before the mover is sent.
    pub fn begin(self) -> Value {
        json!({"metadata": {"annotations": {MAINTENANCE: self.number.to_string()}}})
    }
}

/// The patch that removes the number of a maintenance whose end is recorded.
pub fn take_off() -> Value {
    json!({"metadata": {"annotations": {MAINTENANCE: null}}})
}

/// The task of a maintenance.
fn task(repository_uid: &str, number: u64) -> TaskId {
    TaskId::new(format!("{repository_uid}-m{number}"))
}

/// Whether Lifeboat itself forgot the last snapshot.
pub fn is_emptied(object: &Value) -> bool {
    !object["metadata"]["annotations"][EMPTIED].is_null()
}

/// The number of the maintenance that is running.
pub fn running_number(object: &Value) -> Option<u64> {
    object["metadata"]["annotations"][MAINTENANCE].as_str()?.parse().ok()
}

/// Whether a task is the running maintenance.
pub fn is_under_way(object: &Value, run: &TaskId) -> bool {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    running_number(object).is_some_and(|number| task(uid, number) == *run)
}

/// The time after a pause.
pub fn after(time: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    time.checked_add(pause).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_were_given_up_are_sorted_by_their_fate() {
        let at = "2026-11-16T12:00:00Z".parse().unwrap();
        let mut object = give_up(&TaskId::new("a"), at);
        for task in ["b", "c"] {
            let note = give_up(&TaskId::new(task), at);
            let annotations = note["metadata"]["annotations"].as_object().unwrap().clone();
            object["metadata"]["annotations"].as_object_mut().unwrap().extend(annotations);
        }
        let found = given_up(&object, |task| match task {
            "a" => TaskFate::Wanted,
            "b" => TaskFate::Unwanted,
            _ => TaskFate::Unknown,
        });
        let one = |task: &str| vec![TaskId::new(task)];
        assert_eq!(found, GivenUp { wanted: one("a"), unwanted: one("b"), unknown: one("c") });
    }

    #[test]
    fn dead_owners_are_noted_until_their_locks_are_gone() {
        let object = note_dead("cluster/pod-1");
        assert_eq!(object["metadata"]["annotations"]["dead-owner.lifeboat.io/pod-1"], "cluster/pod-1");
        let owners = dead_owners(&object);
        assert_eq!(owners, ["cluster/pod-1"]);
        let gone = json!({"metadata": {"annotations": {"dead-owner.lifeboat.io/pod-1": null}}});
        assert_eq!(unlocked(&owners), gone);
    }

    #[test]
    fn a_maintenance_is_under_way_until_its_end_is_recorded() {
        let mut object = json!({"metadata": {"uid": "u", "annotations": {MAINTENANCE: "7"}}});
        let run = |number| MaintenanceRun { number, prune: true, check: true };
        assert_eq!(run(7).begin()["metadata"]["annotations"], object["metadata"]["annotations"]);
        assert!(is_under_way(&object, &run(7).task("u")) && !is_under_way(&object, &run(6).task("u")));
        object["metadata"]["annotations"] = json!({});
        assert!(!is_under_way(&object, &run(7).task("u")));
    }
}
