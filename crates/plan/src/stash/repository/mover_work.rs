//! The work of a mover for a server that cannot open a repository itself: it creates the repository, inspects it, or
//! forgets snapshots. Takes the Repository, gives the task and its record. Only one such task at a time runs for a
//! repository; its number is recorded in an annotation of the Repository before the Job is created, because a Job in
//! a tenant's namespace counts only if its object has recorded it.

use jiff::Timestamp;
use lifeboat_api::common::TaskId;
use serde_json::{Value, json};

/// Annotation of a Repository: the number of the task that works on its repository for the server.
pub const REPOSITORY_TASK: &str = "lifeboat.io/repository-task";

/// The task with a number.
fn task(repository_uid: &str, number: u64) -> TaskId {
    TaskId::new(format!("{repository_uid}-t{number}"))
}

/// A task that is about to start, and its record for the Repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    pub task: TaskId,
    /// A task that an earlier server left behind: its mover is not needed any more.
    pub left: Option<TaskId>,
    pub patch: Value,
}

/// The next task of a Repository: by the time, and later than any before, so that no two have one name.
pub fn begin(repository: &Value, now: Timestamp) -> Begun {
    let uid = repository["metadata"]["uid"].as_str().unwrap_or_default();
    let last = on_record(repository);
    let now = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let number = last.map_or(now, |last| now.max(last.saturating_add(1)));
    Begun {
        task: task(uid, number),
        left: last.map(|last| task(uid, last)),
        patch: json!({"metadata": {"annotations": {REPOSITORY_TASK: number.to_string()}}}),
    }
}

/// The patch when no task runs any more.
pub fn ended() -> Value {
    json!({"metadata": {"annotations": {REPOSITORY_TASK: null}}})
}

/// The recorded task.
pub fn current(repository: &Value) -> Option<TaskId> {
    let uid = repository["metadata"]["uid"].as_str().unwrap_or_default();
    on_record(repository).map(|number| task(uid, number))
}

fn on_record(repository: &Value) -> Option<u64> {
    repository["metadata"]["annotations"][REPOSITORY_TASK].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn a_task_is_on_record_until_it_has_ended_and_no_two_have_one_name() {
        let mut repository = json!({"metadata": {"uid": "u"}});
        assert_eq!(current(&repository), None);
        let first = begin(&repository, at(7_000));
        assert_eq!((first.task.as_str(), &first.left), ("u-t7000", &None));
        repository["metadata"]["annotations"] = first.patch["metadata"]["annotations"].clone();
        assert_eq!(current(&repository), Some(first.task.clone()));
        // Another server, whose clock is behind, continues after a crash.
        let second = begin(&repository, at(5));
        assert_eq!((second.task.as_str(), second.left), ("u-t7001", Some(first.task)));
        repository["metadata"]["annotations"] = ended()["metadata"]["annotations"].clone();
        assert_eq!(current(&repository), None);
    }

    #[test]
    fn what_is_no_number_is_no_task() {
        let repository = json!({"metadata": {"uid": "u", "annotations": {REPOSITORY_TASK: "../x"}}});
        assert_eq!(current(&repository), None);
        assert_eq!(begin(&repository, at(1)).left, None);
    }
}
