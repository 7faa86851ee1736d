use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use lifeboat_api::common::ByteString;
use lifeboat_api::stash::{ClaimTemplate, ContainerRuntimeSettings, FunctionSpec, TaskRef, TempDirSettings};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::stash::databases::{AppFacts, Direction};
use crate::stash::variables::SystemVariables;

fn param(name: &str, value: &str) -> Param {
    Param { name: name.into(), value: value.into() }
}

/// An AppBinding with these parameters.
fn app(parameters: &Value) -> AppFacts {
    let spec = json!({
        "clientConfig": {"service": {"name": "db", "port": 3306}},
        "secret": {"name": "auth"},
        "parameters": parameters,
    });
    let keys = [("username", "root"), ("password", "s3cret")];
    let keys = keys.map(|(key, value)| (key.to_owned(), ByteString(value.into())));
    AppFacts {
        namespace: "shop".into(),
        name: "db".into(),
        spec: serde_json::from_value(spec).unwrap(),
        secrets: BTreeMap::from([("auth".to_owned(), BTreeMap::from(keys))]),
    }
}

fn addon() -> Value {
    json!({"stash": {"addon": {
        "backupTask": {"name": "mysql-backup-8.0.14", "params": [{"name": "args", "value": "a"}, {"name": "waitTimeout", "value": "9"}]},
        "restoreTask": {"name": "mysql-restore-8.0.14"},
    }}})
}

fn task(name: &str, params: &[Param]) -> TaskRef {
    TaskRef { name: name.into(), params: params.to_vec() }
}

#[rstest]
#[case::own(Direction::Backup, "pg-backup-1", json!({}), "pg-backup-1")]
#[case::counterpart(Direction::Restore, "mysql-backup-8.0.14", json!({}), "mysql-restore-8.0.14")]
#[case::counterpart_at_the_end(Direction::Restore, "own-backup", json!({}), "own-restore")]
#[case::restore(Direction::Restore, "mysql-restore-8.0.14", json!({}), "mysql-restore-8.0.14")]
#[case::of_the_app(Direction::Backup, "", addon(), "mysql-backup-8.0.14")]
#[case::restore_of_the_app(Direction::Restore, "", addon(), "mysql-restore-8.0.14")]
#[case::invoker_first(Direction::Backup, "own", addon(), "own")]
fn the_task_is_the_invokers_or_the_apps(
    #[case] direction: Direction,
    #[case] name: &str,
    #[case] parameters: Value,
    #[case] expected: &str,
) {
    let named = named_task(direction, Some(&task(name, &[])), Some(&app(&parameters))).unwrap();
    assert_eq!(named.name, expected);
}

#[test]
fn parameters_of_the_invoker_take_precedence_for_the_same_task() {
    let own = [param("args", "b")];
    let named = named_task(Direction::Backup, Some(&task("", &own)), Some(&app(&addon()))).unwrap();
    assert_eq!(named.params, [param("waitTimeout", "9"), param("args", "b")]);
    let named = named_task(Direction::Backup, Some(&task("other", &own)), Some(&app(&addon()))).unwrap();
    assert_eq!(named.params, own, "those of another task do not belong to it");
}

#[rstest]
#[case::none(Direction::Backup, "", json!({}), "AppBinding shop/db is backed up and restored by a task")]
#[case::restore_in_a_backup(Direction::Backup, "mysql-restore-8", json!({}), "expected \"mysql-backup-8\"")]
#[case::unreadable(Direction::Backup, "", json!({"stash": {"addon": {"backupTask": {"params": 3}}}}), "stash.addon.backupTask cannot be read")]
fn what_a_member_without_a_usable_task_has_to_set_is_named(
    #[case] direction: Direction,
    #[case] name: &str,
    #[case] parameters: Value,
    #[case] says: &str,
) {
    let error = named_task(direction, Some(&task(name, &[])), Some(&app(&parameters))).unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn a_built_in_task_streams_a_dump_in_the_tools_image() {
    let access = AppAccess::of(&app(&json!({}))).unwrap();
    let tool = BuiltIn::parse("mariadb-backup-10.6").unwrap();
    let mover = built_in_mover(&tool, &access, &[], &BTreeMap::new()).unwrap();
    assert_eq!(mover.data.stored_at(), "/dumpfile.sql");
    assert_eq!(mover.pod.tool_image.as_deref(), Some("docker.io/library/mariadb:10.6"));
    assert_eq!(mover.pod.mounts, [json!({"name": "app", "mountPath": "/mover/app", "readOnly": true})]);
    assert_eq!(mover.pod.volumes.len(), 1);
    assert!(!format!("{mover:?}").contains("s3cret"), "the kubelet reads it");
}

fn function(value: Value) -> FunctionSpec {
    serde_json::from_value(value).unwrap()
}

fn facts() -> TaskFacts {
    let spec = json!({
        "steps": [
            {"name": "dump.all", "params": [{"name": "level", "value": "3"}, {"name": "HOSTNAME", "value": "no"}]},
            {"name": "update-status"},
            {"name": "pack"},
        ],
        "volumes": [{"name": "extra", "configMap": {"name": "${TARGET_NAME}"}}],
    });
    let dump = json!({
        "image": "registry.local/dump:${version:=1}",
        "args": ["--to=${INTERIM_DATA_DIR}", "--host=${HOSTNAME}", "--level=${level}"],
        "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "runtimeSettings": {"env": [{"name": "A", "value": "1"}], "resources": {"limits": {"memory": "1Gi"}}},
    });
    let pack = json!({"image": "registry.local/pack", "command": ["pack"], "workingDir": "/w"});
    TaskFacts {
        name: "own-backup-1".into(),
        spec: serde_json::from_value(spec).unwrap(),
        functions: BTreeMap::from([
            ("dump.all".to_owned(), function(dump)),
            ("pack".to_owned(), function(pack)),
        ]),
    }
}

fn request<'a>(direction: Direction, task: &'a TaskFacts, app: Option<&'a AppAccess>) -> StepsRequest<'a> {
    let target = crate::stash::variables::TargetVariables { name: "db".into(), ..Default::default() };
    let system = SystemVariables { host: "db-host".into(), target: Some(target), ..Default::default() };
    StepsRequest { direction, task, params: &[], system, app, interim: Interim::default(), runtime: None }
}

#[test]
fn functions_run_in_turn_before_the_mover_stores_what_they_left() {
    let (facts, access) = (facts(), AppAccess::of(&app(&json!({}))).unwrap());
    assert_eq!(needed_functions(&facts.spec).into_iter().collect::<Vec<_>>(), ["dump.all", "pack"]);
    let mover = steps_mover(&request(Direction::Backup, &facts, Some(&access))).unwrap();
    let data = TaskData::Directory { path: "/mover/interim".into(), at: "/stash-tmp/data".into() };
    assert_eq!((&mover.data, mover.data.stored_at().as_str()), (&data, "/stash-tmp/data"));
    let [dump, pack] = mover.pod.before.as_slice() else { panic!("{:?}", mover.pod.before) };
    assert_eq!((&dump["name"], &pack["name"]), (&json!("step-0-dump-all"), &json!("step-2-pack")));
    assert_eq!(dump["image"], "registry.local/dump:1");
    // Upstream's variables are above those of the step.
    assert_eq!(dump["args"], json!(["--to=/stash-tmp/data", "--host=db-host", "--level=3"]));
    assert_eq!((&pack["command"], &pack["workingDir"]), (&json!(["pack"]), &json!("/w")));
    let names: Vec<_> = dump["env"].as_array().unwrap().iter().map(|env| &env["name"]).collect();
    assert_eq!(names, ["DB_HOST", "DB_PORT", "DB_USER", "DB_PASSWORD", "A"]);
    let mounts: Vec<_> =
        dump["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["mountPath"]).collect();
    assert_eq!(mounts, ["/extra", "/stash-tmp", "/stash-tmp/data", "/mover/app"]);
    assert_eq!(mover.pod.volumes[2]["configMap"]["name"], "db");
    assert_eq!(
        mover.pod.mounts,
        [json!({"name": "temporary", "mountPath": "/mover/interim", "subPath": "data", "readOnly": true})]
    );
    assert!(mover.pod.after.is_empty() && mover.pod.security.is_empty());
}

#[test]
fn in_a_restore_functions_follow_the_mover_that_fills_the_directory() {
    let facts = facts();
    let template: ClaimTemplate = serde_json::from_value(json!({
        "metadata": {"name": "ignored", "labels": {"a": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
    }))
    .unwrap();
    let temporary = TempDirSettings { medium: Some("Memory".into()), ..TempDirSettings::default() };
    let mut wanted = request(Direction::Restore, &facts, None);
    wanted.interim = Interim { temporary: Some(&temporary), template: Some(&template) };
    let mover = steps_mover(&wanted).unwrap();
    assert_eq!(mover.data.stored_at(), "/stash-interim-volume/data");
    assert_eq!((mover.pod.before.len(), mover.pod.after.len()), (0, 2));
    assert_eq!(mover.pod.volumes[0], json!({"name": "temporary", "emptyDir": {"medium": "Memory"}}));
    let claim = &mover.pod.volumes[1]["ephemeral"]["volumeClaimTemplate"];
    assert_eq!((&claim["metadata"]["labels"]["a"], &claim["metadata"]["name"]), (&json!("b"), &Value::Null));
    assert_eq!(mover.pod.security["fsGroup"], 65532);
    assert_eq!(mover.pod.mounts[0]["readOnly"], false);
}

#[test]
fn the_owners_of_claims_that_a_task_mounts_do_not_change() {
    let mut facts = facts();
    facts.spec.volumes =
        serde_json::from_value(json!([{"name": "extra", "persistentVolumeClaim": {"claimName": "c"}}]))
            .unwrap();
    let template =
        ClaimTemplate { spec: Some(PersistentVolumeClaimSpec::default()), ..ClaimTemplate::default() };
    let mut wanted = request(Direction::Backup, &facts, None);
    wanted.interim.template = Some(&template);
    assert!(steps_mover(&wanted).unwrap().pod.security.is_empty());
}

#[test]
fn settings_of_the_invoker_take_precedence() {
    let facts = facts();
    let runtime: ContainerRuntimeSettings = serde_json::from_value(json!({
        "env": [{"name": "A", "value": "2"}],
        "resources": {"limits": {"memory": "9Gi"}},
    }))
    .unwrap();
    let mut wanted = request(Direction::Backup, &facts, None);
    wanted.runtime = Some(&runtime);
    let dump = steps_mover(&wanted).unwrap().pod.before.remove(0);
    assert_eq!(dump["resources"]["limits"]["memory"], "9Gi");
    assert_eq!(dump["env"].as_array().unwrap().last().unwrap()["value"], "2");
}

fn spoilt(change: impl FnOnce(&mut TaskFacts)) -> String {
    let mut facts = facts();
    change(&mut facts);
    steps_mover(&request(Direction::Backup, &facts, None)).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_with_a_task_is_named() {
    let message = spoilt(|task| drop(task.functions.remove("pack")));
    assert!(message.contains("steps[2].name: there is no Function \"pack\""), "{message}");
    let message = spoilt(|task| task.spec.steps.retain(|step| step.name == "update-status"));
    assert!(message.contains("no step that does anything"), "{message}");
    let message = spoilt(|task| task.functions.get_mut("pack").unwrap().args = vec!["${secret}".into()]);
    assert!(message.contains("Function pack: args[0]: variable \"secret\" has no value"), "{message}");
    let message = spoilt(|task| task.spec.volumes[0].name = "task".into());
    assert!(message.contains("the name \"task\" is used for the mover's own volumes"), "{message}");
    // The volume of the task file has what opens the repository.
    let mount = json!([{"name": "task", "mountPath": "/x"}]);
    let message = spoilt(|task| {
        task.functions.get_mut("pack").unwrap().volume_mounts = serde_json::from_value(mount).unwrap();
    });
    assert!(message.contains("has no volume \"task\""), "{message}");
    let message =
        spoilt(|task| task.functions.get_mut("pack").unwrap().image = "stashed/stash-mysql:8".into());
    assert!(message.contains("delete Task \"own-backup-1\""), "{message}");
    let message = built_in_mover(
        &BuiltIn::parse("mysql-backup-8").unwrap(),
        &AppAccess::of(&app(&json!({}))).unwrap(),
        &[param("x", "y")],
        &BTreeMap::new(),
    );
    assert!(message.unwrap_err().to_string().contains("\"x\" is not a parameter"));
    let message = TaskError::NoTask { name: "x".into() }.to_string();
    assert!(message.contains("mysql|mariadb|postgres-(backup|restore)-VERSION"), "{message}");
}

#[rstest]
#[case("stashed/stash-mysql:8.0.14", true)]
#[case("ghcr.io/stashed/stash-postgres@sha256:1", true)]
#[case("registry.local:5000/mirror/stash-mariadb:1", true)]
#[case("registry.local/stashed/anything", true)]
#[case("docker.io/library/mysql:8.0.14", false)]
#[case("registry.local/team/stash-tools:1", false)]
fn addons_of_upstream_are_known_by_their_images(#[case] image: &str, #[case] expected: bool) {
    assert_eq!(images::is_of_upstream(image), expected);
}
