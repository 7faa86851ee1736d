//! The policies as objects, their costs, and what counts as the policies that were installed.

use jiff::Timestamp;
use lifeboat_api::crds;
use rstest::rstest;
use serde_json::json;

use super::*;

/// As the API server stores an object: with a creation time, and with fields of its own.
fn stored(mut object: Value, second: i64) -> Value {
    let created = Timestamp::from_second(second).unwrap().to_string();
    object["metadata"]["creationTimestamp"] = json!(created);
    object["metadata"]["generation"] = json!(1);
    if object["kind"] == KINDS[0].0 {
        object["status"] = json!({"observedGeneration": 1});
        object["spec"]["auditAnnotations"] = Value::Null;
        object["spec"]["matchConstraints"]["excludeResourceRules"] = json!([]);
    }
    object
}

fn cluster(namespace: &str) -> Vec<Value> {
    objects(namespace).into_iter().map(|object| stored(object, 100)).collect()
}

/// Changes the object of this kind and name.
fn change(objects: &mut [Value], kind: &str, name: &str, with: impl FnOnce(&mut Value)) {
    let found = objects.iter_mut().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    with(found.unwrap());
}

fn checks(text: &str) -> usize {
    text.matches(".check(").count()
}

#[test]
fn the_policy_of_a_kind_with_one_target() {
    let objects = objects("lifeboat");
    let own: Vec<_> =
        objects.iter().filter(|o| o["metadata"]["name"] == "restoresessions.lifeboat.lifeboat.io").collect();
    insta::assert_yaml_snapshot!(own);
}

#[test]
fn every_kind_has_its_policies_and_each_has_a_binding_that_denies() {
    let objects = objects("lifeboat");
    let names = |kind: &str| {
        let of_kind = objects.iter().filter(|o| o["kind"] == kind);
        of_kind.map(|o| o["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let kinds = [
        "backupconfigurations",
        "backupbatches",
        "backupbatches-exec",
        "backupsessions",
        "restoresessions",
        "restorebatches",
        "restorebatches-exec",
        "repositories",
    ];
    let expected = kinds.map(|kind| format!("{kind}.lifeboat.lifeboat.io"));
    assert_eq!(names(KINDS[0].0), expected);
    assert_eq!(names(KINDS[1].0), expected);
    for binding in objects.iter().filter(|o| o["kind"] == KINDS[1].0) {
        assert_eq!(binding["spec"]["policyName"], binding["metadata"]["name"]);
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    }
}

#[test]
fn whoever_writes_a_repository_needs_the_right_to_create_pods() {
    let objects = objects("lifeboat");
    let name = "repositories.lifeboat.lifeboat.io";
    let policy = objects.iter().find(|o| o["kind"] == KINDS[0].0 && o["metadata"]["name"] == name).unwrap();
    let rule = &policy["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!(
        (&rule["apiVersions"], &rule["resources"], &rule["operations"]),
        (&json!(["v1alpha1"]), &json!(["repositories"]), &json!(["CREATE", "UPDATE"]))
    );
    let rules = policy["spec"]["validations"].as_array().unwrap();
    assert_eq!(rules.len(), 1);
    let expression = rules[0]["expression"].as_str().unwrap();
    assert!(expression.contains("resource('pods')") && expression.ends_with(".check('create').allowed()"));
    assert!(rules[0]["message"].as_str().unwrap().starts_with("spec.backend: "), "{}", rules[0]);
}

#[test]
fn a_restic_may_use_a_repository_of_another_namespace_with_the_right_to_use_it() {
    let objects = restic_objects("lifeboat");
    let name = "restics.lifeboat.lifeboat.io";
    let policy = objects.iter().find(|o| o["kind"] == KINDS[0].0 && o["metadata"]["name"] == name).unwrap();
    let rules = policy["spec"]["validations"].as_array().unwrap();
    let expressions: Vec<&str> = rules.iter().map(|rule| rule["expression"].as_str().unwrap()).collect();
    assert_eq!(expressions.len(), 3, "pods, commands, Repository: {expressions:?}");
    assert!(expressions[1].contains("subresource('exec')"), "{expressions:?}");
    let repository =
        ".namespace(object.spec.repository.namespace).name(object.spec.repository.name).check('use')";
    assert!(expressions[2].contains("in ['', request.namespace] ||") && expressions[2].contains(repository));
}

/// The API server ends an expression after 1,000,000 and a policy after 10,000,000; a check costs 350,000.
#[test]
fn no_expression_and_no_policy_costs_more_than_the_api_server_allows() {
    let all = [objects("lifeboat"), restic_objects("lifeboat")].concat();
    for policy in all.iter().filter(|o| o["kind"] == KINDS[0].0) {
        let rules = policy["spec"]["validations"].as_array().unwrap();
        let counts: Vec<usize> =
            rules.iter().map(|rule| checks(rule["expression"].as_str().unwrap())).collect();
        assert!(counts.iter().all(|count| *count <= 2), "{}: {counts:?}", policy["metadata"]["name"]);
        assert!(counts.iter().sum::<usize>() <= 28, "{}: {counts:?}", policy["metadata"]["name"]);
        let others = [&policy["spec"]["variables"], &policy["spec"]["matchConditions"]];
        assert!(
            others.iter().all(|text| checks(&text.to_string()) == 0),
            "a check there would be paid with the others"
        );
    }
}

#[test]
fn every_rule_denies_with_a_message_and_where_it_fails_to_run_the_request_is_refused() {
    for policy in objects("lifeboat").iter().filter(|o| o["kind"] == KINDS[0].0) {
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        for rule in policy["spec"]["validations"].as_array().unwrap() {
            let message = rule["message"].as_str().unwrap();
            assert!(!message.is_empty() && !message.contains('\n'), "{rule}");
            assert_eq!(rule["reason"], "Forbidden");
            assert!(
                checks(rule["expression"].as_str().unwrap()) == 0 || message.contains("the right to"),
                "{rule}"
            );
        }
    }
}

#[test]
fn the_policies_are_about_kinds_and_fields_that_exist() {
    let crds = crds::all();
    for checked in CHECKED.into_iter().chain([RESTIC]) {
        let crd = crds.iter().find(|crd| crd.kind() == checked.kind).unwrap();
        assert_eq!((crd.plural(), crd.group()), (checked.plural, "stash.appscode.com"));
        assert_eq!(crd.versions()[0].name, checked.version);
        let schema = serde_json::to_value(&crd.versions()[0].schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let member = if checked.is_batch { &spec["members"]["items"]["properties"] } else { spec };
        assert_eq!(spec["members"].is_object(), checked.is_batch, "{}", checked.kind);
        for hook in checked.hooks.into_iter().flatten() {
            assert!(
                member["hooks"]["properties"][hook]["properties"]["exec"].is_object(),
                "{} {hook}",
                checked.kind
            );
            assert!(
                !checked.is_batch || spec["hooks"]["properties"][hook].is_object(),
                "{} {hook}",
                checked.kind
            );
            let elsewhere =
                if checked.selects { &spec["repository"] } else { &member["target"]["properties"]["ref"] };
            assert!(elsewhere["properties"]["namespace"].is_object(), "{}", checked.kind);
        }
        assert_eq!(checked.hooks.is_none(), !spec["hooks"].is_object() && !spec["target"].is_object());
    }
}

#[test]
fn two_installations_have_policies_of_their_own() {
    let names = |namespace: &str| {
        objects(namespace)
            .iter()
            .map(|o| o["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(
        names("lifeboat")
            .iter()
            .all(|name| is_of(name, "lifeboat") && !is_of(name, "boat") && !is_of(name, "life"))
    );
    assert!(names("test").iter().all(|name| !is_of(name, "lifeboat")));
}

#[test]
fn policies_are_in_force_since_the_youngest_was_created() {
    let mut live = cluster("lifeboat");
    live.extend(cluster("test"));
    let binding = "backupbatches-exec.lifeboat.lifeboat.io";
    change(&mut live, KINDS[1].0, binding, |o| *o = stored(o.clone(), 300));
    let enforcement = Enforcement::of("lifeboat", &live);
    for (kind, second) in [("BackupBatch", 300), ("RestoreBatch", 100), ("BackupSession", 100)] {
        assert_eq!(enforcement.since(kind), Some(Ok(Timestamp::from_second(second).unwrap())), "{kind}");
    }
    assert_eq!(enforcement.since("Function"), None);
}

#[rstest]
#[case::gone(KINDS[0].0, "restoresessions", json!(null), "is missing")]
#[case::no_binding(KINDS[1].0, "restoresessions", json!(null), "ValidatingAdmissionPolicyBinding restoresessions")]
#[case::going(KINDS[0].0, "restoresessions", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "is missing")]
#[case::errors_pass(KINDS[0].0, "restoresessions", json!({"spec": {"failurePolicy": "Ignore"}}), "spec.failurePolicy differs")]
#[case::somebody_is_exempt(
    KINDS[0].0, "restoresessions",
    json!({"spec": {"matchConditions": [{"name": "not-bob", "expression": "request.userInfo.username != 'bob'"}]}}),
    "spec.matchConditions[0]"
)]
#[case::fewer_rules(KINDS[0].0, "restoresessions", json!({"spec": {"validations": []}}), "spec.validations differs")]
#[case::fewer_namespaces(
    KINDS[0].0, "restoresessions",
    json!({"spec": {"matchConstraints": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}}),
    "spec.matchConstraints.namespaceSelector"
)]
#[case::with_parameters(KINDS[0].0, "restoresessions", json!({"spec": {"paramKind": {"kind": "X"}}}), "spec.paramKind differs")]
#[case::only_warns(KINDS[1].0, "restoresessions", json!({"spec": {"validationActions": ["Warn"]}}), "spec.validationActions")]
#[case::warns_too(KINDS[1].0, "restoresessions", json!({"spec": {"validationActions": ["Deny", "Audit"]}}), "spec.validationActions")]
#[case::bound_to_some(
    KINDS[1].0, "restoresessions",
    json!({"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}}),
    "spec.matchResources differs"
)]
fn a_policy_that_is_missing_or_altered_is_named_with_the_command_that_brings_it_back(
    #[case] kind: &str,
    #[case] name: &str,
    #[case] with: Value,
    #[case] says: &str,
) {
    let mut live = cluster("lifeboat");
    let name = format!("{name}.lifeboat.lifeboat.io");
    if with.is_null() {
        live.retain(|o| !(o["kind"] == kind && o["metadata"]["name"] == name));
    } else {
        change(&mut live, kind, &name, |object| merge(object, &with));
    }
    let enforcement = Enforcement::of("lifeboat", &live);
    let problem = enforcement.since("RestoreSession").unwrap().unwrap_err().to_string();
    for part in [says, &name, "`lifeboat -n lifeboat install --stash`"] {
        assert!(problem.contains(part), "{part:?} is not in {problem}");
    }
    let is_altered = problem.contains("differs");
    assert_eq!(
        is_altered,
        problem.contains(&format!("`kubectl delete {} {name}`", kind.to_lowercase())),
        "{problem}"
    );
    assert!(enforcement.since("BackupSession").unwrap().is_ok(), "another kind has its own policy");
}

/// A merge patch.
fn merge(object: &mut Value, with: &Value) {
    match with {
        Value::Object(fields) if object.is_object() => {
            for (key, value) in fields {
                merge(&mut object[key], value);
            }
        }
        _ => *object = with.clone(),
    }
}
