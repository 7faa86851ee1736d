//! `velero schedule`: create, get, describe, pause, unpause, delete, and the backups of a schedule.

use lifeboat_e2e::{Installation, Namespace, assert_restores, get, kubectl, lifeboat, velero, wait_for};
use serde_json::Value;

use super::{Own, row};

/// The limit for "at once", on two busy cores.
const AT_ONCE: u64 = 20;

fn schedule(name: &str) -> Value {
    get(&["-n", "lifeboat", "schedules.velero.io", name])
}

fn wait_for_phase(name: &str, phase: &str) {
    wait_for(&format!("schedule {name} to be {phase}"), AT_ONCE, || {
        let found = schedule(name);
        if found["status"]["phase"] == phase { Ok(()) } else { Err(found["status"].to_string()) }
    });
}

/// The backups of the schedule.
fn backups(schedule: &str) -> Vec<Value> {
    let of_it = format!("velero.io/schedule-name={schedule}");
    let list = get(&["-n", "lifeboat", "backups.velero.io", "-l", &of_it]);
    list["items"].as_array().cloned().unwrap_or_default()
}

fn remove_backups(schedule: &str) {
    let of_it = format!("velero.io/schedule-name={schedule}");
    kubectl().args(["-n", "lifeboat", "delete", "backups.velero.io", "-l", &of_it]).run();
}

#[test]
fn a_schedule_is_made_shown_paused_resumed_and_deleted() {
    Installation::ensure().leader();
    let _schedule = Own::new("schedules.velero.io", "cli-schedule");
    let order = "pods=shop/db-1,shop/db-0";
    let said = velero()
        .args([
            "schedule",
            "create",
            "cli-schedule",
            "--schedule",
            "0 4 1 1 *",
            "--include-namespaces",
            "shop",
        ])
        .args(["--ordered-resources", order, "--skip-immediately=true"])
        .ok();
    assert!(said.contains("created successfully"), "{said}");
    wait_for_phase("cli-schedule", "Enabled");
    let table = velero().args(["schedule", "get", "cli-schedule"]).ok();
    assert_eq!(row(&table, "cli-schedule")[1], "Enabled", "{table}");
    assert_eq!(row(&table, "cli-schedule").last(), Some(&"false"), "{table}");
    let said = velero().args(["schedule", "describe", "cli-schedule"]).ok();
    assert!(said.contains("0 4 1 1 *") && said.contains("pods: shop/db-1,shop/db-0"), "{said}");
    velero().args(["schedule", "pause", "cli-schedule"]).ok();
    assert_eq!(schedule("cli-schedule")["spec"]["paused"], true);
    velero().args(["schedule", "unpause", "cli-schedule"]).ok();
    assert_ne!(schedule("cli-schedule")["spec"]["paused"], true);
    let ours = lifeboat().args(["schedule", "describe", "cli-schedule"]).ok();
    assert!(ours.contains("Next backups") && ours.contains("-01-01 04:00:00 UTC"), "{ours}");
    assert!(ours.contains("1. shop/db-1"), "{ours}");
    velero().args(["schedule", "delete", "cli-schedule", "--confirm"]).ok();
    assert_eq!(schedule("cli-schedule"), Value::Null);
    assert!(backups("cli-schedule").is_empty());
}

#[test]
fn a_time_that_never_comes_fails_validation_and_describe_says_why() {
    Installation::ensure().leader();
    let _schedule = Own::new("schedules.velero.io", "cli-never");
    velero().args(["schedule", "create", "cli-never", "--schedule", "0 0 31 2 *"]).ok();
    wait_for_phase("cli-never", "FailedValidation");
    let said = velero().args(["schedule", "describe", "cli-never"]).ok();
    assert!(said.contains("matches no date"), "{said}");
    let said = lifeboat().args(["schedule", "create", "cli-never-2", "--schedule", "0 0 31 2 *"]).refused();
    assert!(said.contains("matches no date"), "{said}");
}

#[test]
fn a_backup_is_made_from_a_schedule_by_hand() {
    Installation::ensure().leader();
    let _schedule = Own::new("schedules.velero.io", "cli-by-hand");
    let _backup = Own::new("backups.velero.io", "cli-by-hand-1");
    let create = ["schedule", "create", "cli-by-hand", "--schedule", "0 4 1 1 *", "--skip-immediately=true"];
    velero().args(create).args(["--include-namespaces", "default", "--labels", "team=shop"]).ok();
    velero().args(["backup", "create", "cli-by-hand-1", "--from-schedule", "cli-by-hand"]).ok();
    let made = get(&["-n", "lifeboat", "backups.velero.io", "cli-by-hand-1"]);
    assert_eq!(made["metadata"]["labels"]["velero.io/schedule-name"], "cli-by-hand");
    assert_eq!(made["metadata"]["labels"]["team"], "shop");
    assert_eq!(made["spec"]["includedNamespaces"][0], "default");
}

#[test]
fn a_due_backup_is_named_by_the_time_it_was_due() {
    Installation::ensure().leader();
    let _schedule = Own::new("schedules.velero.io", "cli-minutely");
    let app = Namespace::new("minutely");
    app.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there}\n");
    remove_backups("cli-minutely");
    let create = ["schedule", "create", "cli-minutely", "--schedule", "* * * * *"];
    lifeboat().args(create).args(["--include-namespaces", &app.name]).ok();
    let last = wait_for("a backup of the schedule that is noted", 90, || {
        let found = schedule("cli-minutely");
        let last = found["status"]["lastBackup"].as_str().map(|time| time.replace(['-', ':', 'T', 'Z'], ""));
        last.ok_or_else(|| found["status"].to_string())
    });
    velero().args(["schedule", "pause", "cli-minutely"]).ok();
    assert!(last.ends_with("00"), "a cron expression has no seconds: {last}");
    let made = wait_for("the end of the backup that was due then", 90, || {
        let of_time =
            |made: &Value| made["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(&last));
        let all = backups("cli-minutely");
        let found = all.iter().find(|made| of_time(made) && made["status"]["phase"] == "Completed");
        found.cloned().ok_or_else(|| format!("{last}: {all:?}"))
    });
    assert_restores(&lifeboat, "lifeboat", &made, &[&app.name]);
    velero()
        .args(["backup", "delete", "--selector", "velero.io/schedule-name=cli-minutely", "--confirm"])
        .run();
    remove_backups("cli-minutely");
}
