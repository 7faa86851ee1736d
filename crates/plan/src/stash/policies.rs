//! Whether the admission policies of an installation are in force. Takes the policies and bindings that the cluster has;
//! gives, for each kind, whether the rights of an object's author were checked. The server refuses objects of a kind that
//! no policy checks: it would act for them with rights that their authors may lack.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::install::policies::{
    self, FoundPolicies, FoundPolicy, NAME_ANNOTATION, Policy, VERSION, VERSION_ANNOTATION,
};

/// The kinds whose authors are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardedKind {
    Repository,
    BackupConfiguration,
    BackupBatch,
    BackupSession,
    RestoreSession,
    RestoreBatch,
}

impl GuardedKind {
    pub const ALL: [Self; 6] = [
        Self::Repository,
        Self::BackupConfiguration,
        Self::BackupBatch,
        Self::BackupSession,
        Self::RestoreSession,
        Self::RestoreBatch,
    ];

    fn resource(self) -> &'static str {
        match self {
            Self::Repository => "repositories",
            Self::BackupConfiguration => "backupconfigurations",
            Self::BackupBatch => "backupbatches",
            Self::BackupSession => "backupsessions",
            Self::RestoreSession => "restoresessions",
            Self::RestoreBatch => "restorebatches",
        }
    }
}

/// Why the rights of an author were not checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rights of its author were not checked: ValidatingAdmissionPolicy {policy} {problem}; run `lifeboat install` (or \
     `helm upgrade`) again"
)]
pub struct Gap {
    pub policy: String,
    pub problem: Problem,
}

/// What is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("is missing")]
    Missing,
    #[error("is of an older version")]
    Older,
    #[error("was changed")]
    Changed,
    #[error("has no binding that denies requests in all namespaces")]
    Unbound,
}

/// The kinds that are not checked, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps(BTreeMap<GuardedKind, Gap>);

impl Gaps {
    /// Fails if the authors of objects of this kind are not checked.
    pub fn check(&self, kind: GuardedKind) -> Result<(), Gap> {
        self.0.get(&kind).map_or(Ok(()), |gap| Err(gap.clone()))
    }

    /// Whether every kind is checked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Compares the policies of this version with those of the cluster. Policies of any installation count: they check
/// every namespace. `namespace` is the server's own; messages name the policies of its installation.
pub fn gaps(found: &FoundPolicies, namespace: &str) -> Gaps {
    let all = policies::all();
    let gap_of = |kind: GuardedKind| {
        let mut needed = all.iter().filter(|policy| policy.resource == kind.resource());
        needed.find_map(|policy| {
            let problem = problem(policy, found)?;
            Some((kind, Gap { policy: policy.object_name(namespace), problem }))
        })
    };
    Gaps(GuardedKind::ALL.into_iter().filter_map(gap_of).collect())
}

/// What is wrong with a policy; none if one of its copies in the cluster is in force.
fn problem(policy: &Policy, found: &FoundPolicies) -> Option<Problem> {
    let is_copy = |found: &&FoundPolicy| {
        found.annotations.get(NAME_ANNOTATION).map(String::as_str) == Some(policy.name)
    };
    let mut worst = Problem::Missing;
    for copy in found.policies.iter().filter(is_copy) {
        match problem_of_copy(policy, copy, &found.bindings) {
            None => return None,
            Some(problem) => worst = problem,
        }
    }
    Some(worst)
}

fn problem_of_copy(policy: &Policy, copy: &FoundPolicy, bindings: &[Value]) -> Option<Problem> {
    let version: u32 =
        copy.annotations.get(VERSION_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(0);
    if version < VERSION {
        return Some(Problem::Older);
    }
    // The rules of a newer version are not known here; it was installed to replace this one.
    if version == VERSION && !is_unchanged(&copy.spec, &policy.spec()) {
        return Some(Problem::Changed);
    }
    let is_bound = bindings.iter().any(|binding| binds(binding, &copy.name));
    (!is_bound).then_some(Problem::Unbound)
}

/// Whether the spec in the cluster is ours, apart from defaults that the API server adds.
fn is_unchanged(found: &Value, ours: &Value) -> bool {
    let narrowing = ["namespaceSelector", "objectSelector", "excludeResourceRules"];
    let matches_less = narrowing.iter().any(|field| !is_void(&found["matchConstraints"][field]));
    contains(found, ours) && !matches_less && is_void(&found["paramKind"])
}

/// Whether a binding puts the policy into force in all namespaces.
fn binds(binding: &Value, policy: &str) -> bool {
    let denies = binding["validationActions"]
        .as_array()
        .is_some_and(|actions| actions.iter().any(|action| action == "Deny"));
    let narrowing = ["resourceRules", "namespaceSelector", "objectSelector", "excludeResourceRules"];
    let matches_less = narrowing.iter().any(|field| !is_void(&binding["matchResources"][field]));
    binding["policyName"] == policy && denies && !matches_less && is_void(&binding["paramRef"])
}

/// Whether every field of `ours` is in `found`. Lists are the same length.
fn contains(found: &Value, ours: &Value) -> bool {
    match (found, ours) {
        (Value::Object(found), Value::Object(ours)) => {
            ours.iter().all(|(key, ours)| found.get(key).is_some_and(|found| contains(found, ours)))
        }
        (Value::Array(found), Value::Array(ours)) => {
            found.len() == ours.len() && found.iter().zip(ours).all(|(found, ours)| contains(found, ours))
        }
        (found, ours) => found == ours,
    }
}

/// Absent, null or empty.
fn is_void(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_void),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// The policies and bindings of an installation, with the fields that the API server adds.
    fn installed() -> FoundPolicies {
        let mut found = FoundPolicies::default();
        for policy in policies::all() {
            let name = policy.object_name("lifeboat");
            let mut spec = policy.spec();
            let constraints = &mut spec["matchConstraints"];
            constraints["matchPolicy"] = json!("Equivalent");
            constraints["namespaceSelector"] = json!({});
            constraints["objectSelector"] = json!({});
            constraints["resourceRules"][0]["scope"] = json!("*");
            let annotations =
                [(NAME_ANNOTATION, policy.name.to_owned()), (VERSION_ANNOTATION, VERSION.to_string())];
            let annotations = annotations.map(|(key, value)| (key.to_owned(), value)).into();
            found.bindings.push(json!({"policyName": name, "validationActions": ["Deny"]}));
            found.policies.push(FoundPolicy { name, annotations, spec });
        }
        found
    }

    fn policy<'a>(found: &'a mut FoundPolicies, name: &str) -> &'a mut FoundPolicy {
        let name = format!("{name}.lifeboat.lifeboat.io");
        found.policies.iter_mut().find(|policy| policy.name == name).unwrap()
    }

    #[test]
    fn every_policy_is_of_a_kind_that_the_server_asks_for() {
        for policy in policies::all() {
            assert!(GuardedKind::ALL.iter().any(|kind| kind.resource() == policy.resource), "{policy:?}");
        }
        for kind in GuardedKind::ALL {
            assert!(policies::all().iter().any(|policy| policy.resource == kind.resource()), "{kind:?}");
        }
    }

    #[test]
    fn a_whole_installation_has_no_gaps() {
        assert!(gaps(&installed(), "lifeboat").is_empty());
        // Nor has a second server that finds the policies of the first.
        assert!(gaps(&installed(), "other").is_empty());
    }

    #[test]
    fn without_policies_no_kind_is_served() {
        let gaps = gaps(&FoundPolicies::default(), "lifeboat");
        for kind in GuardedKind::ALL {
            assert_eq!(gaps.check(kind).unwrap_err().problem, Problem::Missing);
        }
        let message = gaps.check(GuardedKind::BackupBatch).unwrap_err().to_string();
        assert_eq!(
            message,
            "the rights of its author were not checked: ValidatingAdmissionPolicy backupbatches.lifeboat.lifeboat.io is \
             missing; run `lifeboat install` (or `helm upgrade`) again"
        );
    }

    #[rstest]
    #[case::missing(|found: &mut FoundPolicies| {
        found.policies.retain(|policy| policy.name != "backupbatches-exec.lifeboat.lifeboat.io");
    }, Problem::Missing)]
    #[case::older(|found: &mut FoundPolicies| {
        policy(found, "backupbatches-exec").annotations.remove(VERSION_ANNOTATION);
    }, Problem::Older)]
    #[case::a_validation_was_removed(|found: &mut FoundPolicies| {
        policy(found, "backupbatches-exec").spec["validations"].as_array_mut().unwrap().pop();
    }, Problem::Changed)]
    #[case::errors_are_ignored(|found: &mut FoundPolicies| {
        policy(found, "backupbatches-exec").spec["failurePolicy"] = json!("Ignore");
    }, Problem::Changed)]
    #[case::a_condition_was_added(|found: &mut FoundPolicies| {
        let spec = &mut policy(found, "backupbatches-exec").spec;
        spec["matchConditions"].as_array_mut().unwrap().push(json!({"name": "x", "expression": "false"}));
    }, Problem::Changed)]
    #[case::some_namespaces_only(|found: &mut FoundPolicies| {
        let spec = &mut policy(found, "backupbatches-exec").spec;
        spec["matchConstraints"]["namespaceSelector"] = json!({"matchLabels": {"a": "b"}});
    }, Problem::Changed)]
    #[case::no_binding(|found: &mut FoundPolicies| {
        found.bindings.retain(|binding| binding["policyName"] != "backupbatches-exec.lifeboat.lifeboat.io");
    }, Problem::Unbound)]
    #[case::a_binding_that_warns(|found: &mut FoundPolicies| {
        for binding in &mut found.bindings {
            if binding["policyName"] == "backupbatches-exec.lifeboat.lifeboat.io" {
                binding["validationActions"] = json!(["Warn", "Audit"]);
            }
        }
    }, Problem::Unbound)]
    #[case::a_binding_for_some_namespaces(|found: &mut FoundPolicies| {
        for binding in &mut found.bindings {
            if binding["policyName"] == "backupbatches-exec.lifeboat.lifeboat.io" {
                binding["matchResources"] = json!({"matchPolicy": "Equivalent",
                    "namespaceSelector": {"matchLabels": {"a": "b"}}});
            }
        }
    }, Problem::Unbound)]
    fn a_policy_that_is_not_in_force_stops_its_kind_and_no_other(
        #[case] change: fn(&mut FoundPolicies),
        #[case] expected: Problem,
    ) {
        let mut found = installed();
        change(&mut found);
        let gaps = gaps(&found, "lifeboat");
        let gap = gaps.check(GuardedKind::BackupBatch).unwrap_err();
        assert_eq!(gap.problem, expected);
        assert_eq!(gap.policy, "backupbatches-exec.lifeboat.lifeboat.io");
        for kind in GuardedKind::ALL.into_iter().filter(|kind| *kind != GuardedKind::BackupBatch) {
            assert_eq!(gaps.check(kind), Ok(()));
        }
    }

    #[test]
    fn a_newer_policy_is_trusted_without_comparing_it() {
        let mut found = installed();
        let newer = policy(&mut found, "repositories");
        newer.annotations.insert(VERSION_ANNOTATION.to_owned(), (VERSION + 1).to_string());
        newer.spec["validations"] = json!([]);
        assert!(gaps(&found, "lifeboat").is_empty());
    }

    #[test]
    fn one_copy_in_force_is_enough() {
        let mut found = installed();
        let mut other = found.policies[0].clone();
        other.spec["failurePolicy"] = json!("Ignore");
        found.policies.insert(0, other);
        assert!(gaps(&found, "lifeboat").is_empty());
    }
}
