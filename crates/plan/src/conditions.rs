//! Conditions of a status: takes the old list and what is true now, gives the new list. Transition times are kept
//! while a condition's status stays the same, so that a person sees since when something holds.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition that holds now, without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub kind: &'static str,
    pub holds: bool,
    pub reason: Cow<'static, str>,
    pub message: String,
}

/// Merges the facts into a status's conditions: one condition per fact, in the order of the facts.
pub fn merge(old: &[Condition], facts: &[Fact], now: Timestamp) -> Vec<Condition> {
    facts.iter().map(|fact| merge_one(old, fact, now)).collect()
}

fn merge_one(old: &[Condition], fact: &Fact, now: Timestamp) -> Condition {
    let status = if fact.holds { "True" } else { "False" };
    let before = old.iter().find(|condition| condition.type_ == fact.kind && condition.status == status);
    Condition {
        type_: fact.kind.to_owned(),
        status: status.to_owned(),
        reason: fact.reason.clone().into_owned(),
        message: fact.message.clone(),
        last_transition_time: before.map_or(Time(now), |condition| condition.last_transition_time.clone()),
        observed_generation: None,
    }
}

/// Sets one condition of a list and leaves the others as they are. The transition time stays while the status does.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|old| old.type_ == condition.type_) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Turns an error category such as `bucket_not_found` into a condition reason: `BucketNotFound`.
pub fn reason(category: &str) -> String {
    let parts = category.split('_').filter(|word| !word.is_empty());
    parts.map(capitalised).collect()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(holds: bool) -> Fact {
        Fact { kind: "PasswordExported", holds, reason: "Because".into(), message: "text".into() }
    }

    #[test]
    fn the_transition_time_is_kept_until_the_status_changes() {
        let first = Timestamp::UNIX_EPOCH;
        let second = Timestamp::from_second(60).unwrap();
        let initial = merge(&[], &[fact(false)], first);
        let same = merge(&initial, &[fact(false)], second);
        assert_eq!(same[0].last_transition_time, Time(first));
        let changed = merge(&same, &[fact(true)], second);
        assert_eq!(changed[0].last_transition_time, Time(second));
        assert_eq!(changed[0].status, "True");
    }

    #[test]
    fn setting_one_condition_leaves_the_others_and_their_order() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let condition = |kind: &str, status: &str, time: Timestamp| Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Time(time),
            reason: "Because".to_owned(),
            message: String::new(),
            observed_generation: None,
        };
        let mut conditions = vec![condition("A", "True", first), condition("B", "True", first)];
        set(&mut conditions, condition("A", "True", second));
        assert_eq!(conditions[0].last_transition_time, Time(first), "the status did not change");
        set(&mut conditions, condition("A", "Unknown", second));
        set(&mut conditions, condition("C", "False", second));
        let shown: Vec<_> = conditions.iter().map(|one| (one.type_.as_str(), one.status.as_str())).collect();
        assert_eq!(shown, [("A", "Unknown"), ("B", "True"), ("C", "False")]);
        assert_eq!(conditions[0].last_transition_time, Time(second));
        assert_eq!(conditions[1].last_transition_time, Time(first));
    }

    #[test]
    fn a_category_becomes_a_reason_as_kubernetes_writes_them() {
        assert_eq!(reason("bucket_not_found"), "BucketNotFound");
        assert_eq!(reason("dns"), "Dns");
    }
}
