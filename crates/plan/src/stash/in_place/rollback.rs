//! The actions of a user after a restore: restore the data that it overwrote, start a workload that it left stopped,
//! and allow backups of its targets again. Takes a RestoreSession or RestoreBatch from the API server; gives objects
//! to create and workloads to start. Called by the command line.

use jiff::Timestamp;
use lifeboat_api::stash::StoppedWorkload;
use serde_json::{Map, Value, json};

use super::{FORCE_SCALE, RESTORE_RUNNING, ROLLBACK_OF};
use crate::json::text;
use crate::label;
use crate::stash::session::RESUMED;

/// The longest name of an object.
const LONGEST: usize = 253;
/// What is appended to a restore's name at most.
const APPENDED: usize = "-rollback-9223372036854775807-99".len();
/// The steps of a workload that stays stopped after its restore failed.
const DOWN: [&str; 2] = ["HeldDown", "LeftDown"];

/// Why there is nothing to do after a restore. `restore`: its kind and name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AfterRestoreError {
    #[error("{restore} has not ended (phase {phase}); wait until it has")]
    NotEnded { restore: String, phase: String },
    #[error(
        "{restore} has no safety copy: copies are made of workloads that a restore stops, and not with annotation \
         lifeboat.io/safety-copy: \"false\". Restore an older snapshot by its id instead (rules[].snapshots)"
    )]
    NoSafetyCopy { restore: String },
    #[error("{restore} is {phase}: only a restore that failed keeps backups of its targets from running")]
    NotFailed { restore: String, phase: String },
}

/// The restores that undo a restore: one, or one for each earlier restore whose safety copies are used. They have no
/// rules, because the safety copies are used, and no hooks, because a hook may be the cause of the failure.
pub fn rollbacks(restore: &Value, now: Timestamp) -> Result<Vec<Value>, AfterRestoreError> {
    ended(restore)?;
    let copies = copies(restore);
    let mut sources: Vec<&String> = Vec::new();
    for source in copies.iter().flatten() {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    if sources.is_empty() {
        return Err(AfterRestoreError::NoSafetyCopy { restore: shown(restore) });
    }
    let made = sources.iter().enumerate().map(|(number, source)| {
        let is_of_source =
            |member: usize| copies.get(member).is_some_and(|copy| copy.as_ref() == Some(*source));
        rollback(restore, source, is_of_source, &rollback_name(restore, now, number))
    });
    Ok(made.collect())
}

/// The targets of a batch that no rollback brings back, because their members have no safety copy, as messages name them.
pub fn without_copies(restore: &Value) -> Vec<String> {
    let members = restore["spec"]["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    let copies = copies(restore);
    let lacking =
        members.iter().enumerate().filter(|(number, _)| !matches!(copies.get(*number), Some(Some(_))));
    let title = |(number, member): (usize, &Value)| match text(member, "/target/ref/name") {
        "" => format!("member {}", number + 1),
        name => format!("{} {name}", text(member, "/target/ref/kind")),
    };
    lacking.map(title).collect()
}

/// The workloads that a restore left stopped because it failed while it wrote.
pub fn held_down(restore: &Value) -> Result<Vec<StoppedWorkload>, AfterRestoreError> {
    ended(restore)?;
    let records = members(restore).into_iter().filter_map(standstill);
    Ok(records.filter(|record| DOWN.contains(&record.step.as_str())).collect())
}

/// Whether a restore that has not ended has stopped this workload, or is about to.
pub fn is_at_work_on(restore: &Value, workload_uid: &str) -> bool {
    let mut records = members(restore).into_iter().filter_map(standstill);
    ended(restore).is_err() && records.any(|record| record.uid == workload_uid)
}

/// The change of a restore that failed, by which a person allows backups of its targets. None if they are allowed already.
pub fn backups_resumed(restore: &Value) -> Result<Option<Value>, AfterRestoreError> {
    let phase = ended(restore)?;
    if phase != "Failed" {
        return Err(AfterRestoreError::NotFailed { restore: shown(restore), phase: phase.to_owned() });
    }
    let uid = text(restore, "/metadata/uid");
    if restore["metadata"]["annotations"][RESUMED] == *uid {
        return Ok(None);
    }
    Ok(Some(json!({"metadata": {"annotations": {RESUMED: uid}}})))
}

/// The phase of a restore that has ended.
fn ended(restore: &Value) -> Result<&str, AfterRestoreError> {
    let phase = text(restore, "/status/phase");
    // Unknown is the end of a restore from VolumeSnapshots whose claims wait for pods.
    if matches!(phase, "Succeeded" | "Failed" | "Invalid" | "Unknown") {
        return Ok(phase);
    }
    let phase = if phase.is_empty() { "Pending" } else { phase };
    Err(AfterRestoreError::NotEnded { restore: shown(restore), phase: phase.to_owned() })
}

/// For each member the UID of the restore whose safety copies have its data from before.
fn copies(restore: &Value) -> Vec<Option<String>> {
    let own = text(restore, "/metadata/uid").to_owned();
    let copy = |member: &Value| {
        let earlier = standstill(member).and_then(|record| record.safety_of).map(|source| source.uid);
        earlier.or_else(|| has_copies(member).then(|| own.clone()))
    };
    members(restore).into_iter().map(copy).collect()
}

fn has_copies(member: &Value) -> bool {
    let mut hosts = member["stats"].as_array().into_iter().flatten();
    hosts.any(|host| host["safetyCopies"].as_array().is_some_and(|copies| !copies.is_empty()))
}

/// The status of each member. That of a RestoreSession is the status itself.
fn members(restore: &Value) -> Vec<&Value> {
    let status = &restore["status"];
    if restore["kind"] != "RestoreBatch" {
        return vec![status];
    }
    status["members"].as_array().into_iter().flatten().collect()
}

fn standstill(member: &Value) -> Option<StoppedWorkload> {
    serde_json::from_value(member["standstill"].clone()).ok()
}

fn rollback(restore: &Value, source: &str, is_of_source: impl Fn(usize) -> bool, name: &str) -> Value {
    let mut annotations = Map::from_iter([(ROLLBACK_OF.to_owned(), json!(source))]);
    for kept in [FORCE_SCALE, RESTORE_RUNNING] {
        if let Some(value) = restore["metadata"]["annotations"].get(kept) {
            annotations.insert(kept.to_owned(), value.clone());
        }
    }
    let mut spec = restore["spec"].clone();
    bare(&mut spec);
    if let Some(members) = spec.get_mut("members").and_then(Value::as_array_mut) {
        let mut number = 0..;
        members.retain(|_| number.next().is_some_and(&is_of_source));
        members.iter_mut().for_each(bare);
    }
    json!({
        "apiVersion": restore["apiVersion"],
        "kind": restore["kind"],
        "metadata": {"name": name, "namespace": restore["metadata"]["namespace"], "annotations": annotations},
        "spec": spec,
    })
}

/// Removes rules and hooks.
fn bare(member: &mut Value) {
    if let Some(fields) = member.as_object_mut() {
        fields.remove("hooks");
        fields.remove("rules");
    }
    if let Some(target) = member.get_mut("target").and_then(Value::as_object_mut) {
        target.remove("rules");
    }
}

/// `<restore>-rollback-<second>`, shortened if it would be too long, with a number from the second name on.
fn rollback_name(restore: &Value, now: Timestamp, number: usize) -> String {
    const HASH: usize = 8;
    let name = text(restore, "/metadata/name");
    let most = LONGEST - APPENDED;
    let begin = if name.len() <= most {
        name.to_owned()
    } else {
        let start = name.chars().take(most - HASH - 1).collect::<String>();
        let start = start.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        format!("{start}-{}", &label::digest(name)[..HASH])
    };
    let second = now.as_second();
    if number == 0 {
        format!("{begin}-rollback-{second}")
    } else {
        format!("{begin}-rollback-{second}-{}", number + 1)
    }
}

fn shown(restore: &Value) -> String {
    format!("{} {}", text(restore, "/kind"), text(restore, "/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_100).unwrap()
    }

    fn record(step: &str, safety_of: Option<&str>) -> Value {
        let restore =
            |uid: &str| json!({"kind": "RestoreSession", "namespace": "shop", "name": "r", "uid": uid});
        json!({"kind": "Deployment", "name": "web", "uid": "w1", "replicas": 3, "step": step, "safetyCopy": true,
            "safetyOf": safety_of.map(restore), "restore": restore("r1")})
    }

    fn session(status: &Value) -> Value {
        json!({
            "apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession",
            "metadata": {"name": "r", "namespace": "shop", "uid": "r1", "resourceVersion": "7",
                "annotations": {FORCE_SCALE: "true", "team": "shop"}},
            "spec": {"repository": {"name": "repo"}, "hooks": {"preRestore": {}},
                "target": {"ref": {"kind": "Deployment", "name": "web"}, "rules": [{"snapshots": ["abc"]}]}},
            "status": status,
        })
    }

    #[test]
    fn a_rollback_is_a_restore_of_the_safety_copies_without_rules_and_hooks() {
        let made = rollbacks(
            &session(&json!({"phase": "Failed", "standstill": record("HeldDown", Some("r0"))})),
            now(),
        );
        let expected = json!({
            "apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession",
            "metadata": {"name": "r-rollback-1700000100", "namespace": "shop",
                "annotations": {ROLLBACK_OF: "r0", FORCE_SCALE: "true"}},
            "spec": {"repository": {"name": "repo"}, "target": {"ref": {"kind": "Deployment", "name": "web"}}},
        });
        assert_eq!(made, Ok(vec![expected]));
    }

    #[test]
    fn a_restore_that_succeeded_can_be_rolled_back_to_its_own_copies() {
        let status =
            json!({"phase": "Succeeded", "stats": [{"hostname": "h", "safetyCopies": [{"name": "abc"}]}]});
        let made = rollbacks(&session(&status), now()).unwrap();
        assert_eq!(made[0]["metadata"]["annotations"][ROLLBACK_OF], "r1");
    }

    #[test]
    fn a_restore_at_work_or_without_copies_is_named() {
        let message = |status: Value| rollbacks(&session(&status), now()).unwrap_err().to_string();
        assert!(
            message(json!({"phase": "Running"})).contains("RestoreSession r has not ended (phase Running)")
        );
        assert!(message(json!({})).contains("phase Pending"));
        assert!(message(json!({"phase": "Failed"})).contains("no safety copy"));
    }

    #[test]
    fn members_of_a_batch_go_back_to_the_copies_of_each() {
        let member =
            |name: &str| json!({"target": {"ref": {"kind": "Deployment", "name": name}}, "hooks": {}});
        let batch = json!({
            "apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreBatch",
            "metadata": {"name": "b", "namespace": "shop", "uid": "b1"},
            "spec": {"members": [member("web"), member("db"), member("cache")], "hooks": {}},
            "status": {"phase": "Failed", "members": [
                {"standstill": record("HeldDown", Some("b0"))},
                {"stats": [{"safetyCopies": [{"name": "abc"}]}]},
                {},
            ]},
        });
        let made = rollbacks(&batch, now()).unwrap();
        let of = |number: usize| {
            let one = &made[number];
            (text(one, "/metadata/name"), &one["metadata"]["annotations"][ROLLBACK_OF], &one["spec"])
        };
        let spec =
            |name: &str| json!({"members": [{"target": {"ref": {"kind": "Deployment", "name": name}}}]});
        assert_eq!(of(0), ("b-rollback-1700000100", &json!("b0"), &spec("web")));
        assert_eq!(of(1), ("b-rollback-1700000100-2", &json!("b1"), &spec("db")));
        assert_eq!(made.len(), 2, "a member without copies is left out");
        assert_eq!(without_copies(&batch), ["Deployment cache"], "and named");
        assert_eq!(held_down(&batch).unwrap().len(), 1);
    }

    #[test]
    fn only_workloads_that_stay_stopped_are_started() {
        let held =
            |step: &str| held_down(&session(&json!({"phase": "Failed", "standstill": record(step, None)})));
        assert_eq!(held("HeldDown").unwrap()[0].replicas, 3);
        assert_eq!(held("LeftDown").unwrap()[0].replicas, 3, "an earlier restore left it so");
        assert_eq!(held("Started").unwrap(), []);
        assert!(held_down(&session(&json!({"phase": "Running"}))).is_err(), "the restore starts it itself");
    }

    #[test]
    fn a_restore_works_on_the_workloads_of_its_members_until_it_has_ended() {
        let at = |phase: &str| session(&json!({"phase": phase, "standstill": record("Stopped", None)}));
        assert!(is_at_work_on(&at("Running"), "w1") && !is_at_work_on(&at("Running"), "w2"));
        assert!(!is_at_work_on(&at("Failed"), "w1") && !is_at_work_on(&session(&json!({})), "w1"));
    }

    #[test]
    fn backups_are_allowed_once_after_a_failed_restore() {
        let mut failed = session(&json!({"phase": "Failed"}));
        let patch = backups_resumed(&failed).unwrap().unwrap();
        assert_eq!(patch, json!({"metadata": {"annotations": {RESUMED: "r1"}}}));
        failed["metadata"]["annotations"][RESUMED] = json!("r1");
        assert_eq!(backups_resumed(&failed), Ok(None));
        failed["metadata"]["uid"] = json!("r2");
        assert!(matches!(backups_resumed(&failed), Ok(Some(_))), "it was created again from the first one");
        let message = backups_resumed(&session(&json!({"phase": "Succeeded"}))).unwrap_err().to_string();
        assert!(message.contains("is Succeeded"), "{message}");
    }

    #[test]
    fn a_long_name_is_shortened_and_stays_distinct() {
        let name = |name: String| rollback_name(&json!({"metadata": {"name": name}}), now(), 11);
        let (one, other) = (name("a".repeat(252) + "b"), name("a".repeat(252) + "c"));
        assert!(one.len() <= LONGEST && one != other, "{one}");
    }
}
