use lifeboat_api::stash::RetentionPolicy;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn param(name: &str, value: &str) -> Param {
    Param { name: name.into(), value: value.into() }
}

fn variables(list: &[(&str, &str)]) -> Variables {
    let params: Vec<_> = list.iter().map(|(name, value)| param(name, value)).collect();
    Variables::new(&[], &BTreeMap::new(), &params)
}

#[rstest]
#[case::plain("--all", "--all", "no variable")]
#[case::one("--host=${HOSTNAME}", "--host=db", "its value")]
#[case::several("${HOSTNAME}/${HOSTNAME}:${EMPTY}", "db/db:", "an empty value is a value")]
#[case::default_of_unknown("${args:=--all-databases}", "--all-databases", "the default")]
#[case::empty_default("[${args:=}]", "[]", "the empty default")]
#[case::default_of_known("${HOSTNAME:=x}", "db", "the value wins")]
#[case::default_of_empty("${EMPTY:=x}", "x", "as in a shell")]
#[case::default_with_marks("${args:=a:=b $c}", "a:=b $c", "the first := separates")]
#[case::no_second_round("${NESTED}", "${HOSTNAME}", "values are taken as they are")]
#[case::escaped("echo $${HOME} ${HOSTNAME}", "echo ${HOME} db", "a variable of a script")]
#[case::plain_dollar("$HOSTNAME $1 $$ 5$", "$HOSTNAME $1 $$ 5$", "no braces")]
#[case::kubernetes("$(HOSTNAME)", "$(HOSTNAME)", "the kubelet's own syntax")]
fn variables_are_replaced(#[case] text: &str, #[case] expected: &str, #[case] reason: &str) {
    let variables = variables(&[("HOSTNAME", "db"), ("EMPTY", ""), ("NESTED", "${HOSTNAME}")]);
    assert_eq!(variables.replace_text(text).unwrap(), expected, "{reason}");
}

#[rstest]
#[case::unknown("${user}", "\"user\" has no value")]
#[case::open("a ${user", "\"${user\" is not closed")]
#[case::shell_default("${user:-root}", "\"${user:-root}\" is not supported")]
#[case::length("${#user}", "is not supported")]
#[case::no_name("${}", "is not supported")]
#[case::digit("${1}", "is not supported")]
#[case::nested("${user:=${HOSTNAME}}", "is not supported")]
fn what_has_no_value_is_named(#[case] text: &str, #[case] says: &str) {
    let function = json!({"image": "busybox", "args": ["a", {"value": text}]});
    let error = variables(&[]).replace("Function dump", &function).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("Function dump: args[1].value: "), "{message}");
    assert!(message.contains(says), "{message}");
}

#[test]
fn system_variables_win_over_a_step_and_the_invokers_params_over_all() {
    let system = BTreeMap::from([
        ("HOSTNAME".to_owned(), "db".to_owned()),
        ("NAMESPACE".to_owned(), "demo".to_owned()),
    ]);
    let step = [param("HOSTNAME", "step"), param("args", "step")];
    let task = [param("args", "invoker"), param("NAMESPACE", "invoker")];
    let variables = Variables::new(&step, &system, &task);
    let text = variables.replace_text("${HOSTNAME} ${args} ${NAMESPACE}").unwrap();
    assert_eq!(text, "db invoker invoker");
    assert_eq!(Variables::new(&step, &system, &[]).get("args"), Some("step"));
}

#[test]
fn all_strings_of_an_object_are_replaced_and_nothing_else() {
    let function = json!({
        "image": "${IMAGE}", "command": ["sh", "-c"], "ports": [{"containerPort": 1}],
        "${KEY}": true, "volumeMounts": [{"name": "${VOLUME:=tmp}", "readOnly": null}],
    });
    let replaced = variables(&[("IMAGE", "busybox")]).replace("Function x", &function).unwrap();
    let expected = json!({
        "image": "busybox", "command": ["sh", "-c"], "ports": [{"containerPort": 1}],
        "${KEY}": true, "volumeMounts": [{"name": "tmp", "readOnly": null}],
    });
    assert_eq!(replaced, expected);
}

#[test]
fn a_text_cannot_grow_without_bound() {
    let variables = variables(&[("X", &"x".repeat(1_000))]);
    assert_eq!(variables.replace_text(&"${X}".repeat(1_000)), Err(VariableProblem::TooLong));
}

#[test]
fn upstreams_variables_are_there() {
    let from = SystemVariables {
        namespace: "demo".into(),
        backup_session: Some("app-1".into()),
        host: "db".into(),
        repository: Some(RepositoryVariables {
            name: "repo".into(),
            insecure_tls: true,
            ..Default::default()
        }),
        target: Some(TargetVariables { paths: vec!["/a".into(), "/b".into()], ..Default::default() }),
        app: Some(AppVariables { app_type: "kubedb.com/mysql".into(), replicas: 1, ..Default::default() }),
        retention: Some(RetentionPolicy { keep_last: Some(5), prune: true, ..Default::default() }),
        ..SystemVariables::default()
    };
    let all = system(&from);
    let expected = [
        ("NAMESPACE", "demo"),
        ("BACKUP_SESSION", "app-1"),
        ("HOSTNAME", "db"),
        ("REPOSITORY_NAME", "repo"),
        ("REPOSITORY_INSECURE_TLS", "true"),
        ("TARGET_PATHS", "/a,/b"),
        ("TARGET_APP_GROUP", "kubedb.com"),
        ("TARGET_APP_RESOURCE", "mysql"),
        ("RETENTION_KEEP_LAST", "5"),
        ("RETENTION_KEEP_DAILY", "0"),
        ("RETENTION_PRUNE", "true"),
        ("ENABLE_CACHE", "true"),
    ];
    for (name, value) in expected {
        assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!all.contains_key("RESTORE_SESSION"), "this is a backup");
}

proptest! {
    #[test]
    fn any_text_is_replaced_or_refused(text in "(\\$\\{|\\}|:=|\\$|A|B|ä| ){0,24}") {
        let _ = variables(&[("A", "${B}")]).replace_text(&text);
    }

    #[test]
    fn a_text_without_braces_stays_as_it_is(text in "[^{]{0,64}") {
        prop_assert_eq!(variables(&[]).replace_text(&text).unwrap(), text);
    }

    #[test]
    fn an_escaped_text_stays_as_it_was(text in "[a-z ${}]{0,32}") {
        let escaped = text.replace("${", "$${");
        prop_assert_eq!(variables(&[]).replace_text(&escaped).unwrap(), text);
    }
}
