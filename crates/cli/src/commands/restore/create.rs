//! `lifeboat restore create [NAME] --from-backup B | --from-schedule S`: creates a Restore and, with --wait, follows it
//! to its end.

use jiff::{Timestamp, Zoned};
use kube::api::{DynamicObject, ListParams, ObjectMeta};
use kube::{Client, ResourceExt};
use lifeboat_api::velero::Restore;
use lifeboat_api::velero::names::SCHEDULE_NAME;
use lifeboat_cluster::Attempt;
use lifeboat_plan::velero::schedule::own_name;

use super::dry_run::{self, Form};
use super::get;
use super::spec::RestoreFlags;
use crate::args::{Output, new_name, object_name};
use crate::error::CliError;
use crate::objects::create::request;
use crate::objects::get::time_at;
use crate::objects::{BACKUP, RESTORE, dynamic, phase};
use crate::printer;
use crate::settings::Settings;

/// The annotation that `--allow-privileged` sets.
pub(crate) const ALLOW_PRIVILEGED: &str = "lifeboat.io/allow-privileged";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the restore [default: the backup's or schedule's name and the time]
    #[arg(value_parser = new_name)]
    name: Option<String>,
    /// Backup to restore from
    #[arg(
        long,
        value_name = "BACKUP", value_parser = object_name,
        required_unless_present = "from_schedule",
        conflicts_with = "from_schedule"
    )]
    from_backup: Option<String>,
    /// Schedule whose newest completed backup is restored
    #[arg(long, value_name = "SCHEDULE", value_parser = object_name)]
    from_schedule: Option<String>,
    /// With --from-schedule: also accept a PartiallyFailed backup, if it is the newest
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    allow_partially_failed: Option<bool>,
    #[command(flatten)]
    flags: RestoreFlags,
    /// Report what the restore would create, update and skip, and why, without changing anything
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// With --dry-run: show each item
    #[arg(long, requires = "dry_run")]
    details: bool,
    /// Wait until the restore has ended; fails unless it is Completed
    #[arg(short, long)]
    wait: bool,
    /// Print the object instead of creating it; with --dry-run: format of the plan
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

/// The backup or schedule to restore from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Backup(String),
    Schedule(String),
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    let client = settings.client().await?;
    let source = source(settings, &client, &args).await?;
    let name = args.name.clone().unwrap_or_else(|| default_name(&args, &Zoned::now()));
    let object = object(settings, &args.flags, &name, source);
    if args.dry_run {
        let form = Form { output: args.output.unwrap_or(Output::Table), details: args.details };
        return dry_run::run(settings, client, object, form).await;
    }
    if let Some(output) = args.output {
        let row = dynamic(&object)?;
        return printer::print(output, &object, || {
            crate::objects::get::table(&[row], &get::COLUMNS, &[], false, Timestamp::now())
        });
    }
    request(settings, &client, RESTORE, &object, args.wait).await
}

/// Checks that the backup exists and can be restored, or that the schedule has backups.
async fn source(settings: &Settings, client: &Client, args: &Args) -> Result<Source, CliError> {
    let api = BACKUP.api(client, &settings.namespace);
    if let Some(backup) = &args.from_backup {
        let found = BACKUP.find(&api, backup).await?;
        let phase = phase(&found);
        if let Some(help) = unusable(&phase, backup) {
            return Err(
                CliError::refused(format!("backup {backup:?} cannot be restored: it is {phase}")).help(help)
            );
        }
        if !matches!(phase.as_str(), "Completed" | "PartiallyFailed") {
            eprintln!("Backup {backup:?} is {phase}: the server may find nothing to restore.");
        }
        return Ok(Source::Backup(backup.clone()));
    }
    let schedule = args.from_schedule.clone().unwrap_or_default();
    let of_it = ListParams::default().labels(&format!("{SCHEDULE_NAME}={}", own_name(&schedule)));
    let made = api.list(&of_it).await.attempt(format!("list the backups of schedule {schedule}"))?.items;
    if made.is_empty() {
        return Err(CliError::not_found(format!("there are no backups of schedule {schedule:?}"))
            .help("`lifeboat schedule get` lists schedules, `lifeboat backup get` backups"));
    }
    if args.allow_partially_failed == Some(true)
        && let Some(newest) = newest(&made)
    {
        return Ok(Source::Backup(newest));
    }
    Ok(Source::Schedule(schedule))
}

/// For phases in which a backup cannot be restored: what the user can do.
fn unusable(phase: &str, backup: &str) -> Option<String> {
    match phase {
        "New" | "Queued" | "ReadyToStart" | "InProgress" => {
            Some(format!("wait until it has ended: `lifeboat backup watch {backup}`"))
        }
        "Failed" | "FailedValidation" => Some(format!("`lifeboat backup describe {backup}` shows why")),
        _ => None,
    }
}

/// The newest backup that is Completed or PartiallyFailed. If there is none, the server reports what it needs.
fn newest(backups: &[DynamicObject]) -> Option<String> {
    let usable = |backup: &&DynamicObject| matches!(phase(backup).as_str(), "Completed" | "PartiallyFailed");
    let found = backups.iter().filter(usable).max_by_key(|backup| time_at(backup, "/status/startTimestamp"));
    found.map(ResourceExt::name_any)
}

/// The source's name and the local time, as stock Velero names restores.
fn default_name(args: &Args, now: &Zoned) -> String {
    let source = args.from_schedule.as_ref().or(args.from_backup.as_ref());
    format!("{}-{}", source.map_or("", String::as_str), now.strftime("%Y%m%d%H%M%S"))
}

fn object(settings: &Settings, flags: &RestoreFlags, name: &str, source: Source) -> Restore {
    let mut annotations = flags.annotations.clone().map(|annotations| annotations.0).unwrap_or_default();
    if flags.allow_privileged {
        annotations.insert(ALLOW_PRIVILEGED.to_owned(), "true".to_owned());
    }
    let mut spec = flags.spec();
    match source {
        Source::Backup(name) => spec.backup_name = Some(name),
        Source::Schedule(name) => spec.schedule_name = Some(name),
    }
    Restore {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(settings.namespace.clone()),
            labels: flags.labels.clone().map(|labels| labels.0),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::tests::{backup, holding, settings};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &[&str]) -> Args {
        Line::try_parse_from([&["create"], line].concat()).map_err(|error| error.to_string()).unwrap().args
    }

    fn made(line: &[&str]) -> Value {
        let args = parsed(line);
        serde_json::to_value(object(&settings(), &args.flags, "r", Source::Backup("b".into()))).unwrap()
    }

    fn refused(line: &[&str]) -> String {
        Line::try_parse_from([&["create"], line].concat()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn only_what_was_given_stands_in_the_object() {
        assert_eq!(made(&["r", "--from-backup", "b"])["spec"], json!({"backupName": "b"}));
    }

    #[test]
    fn every_flag_of_velero_finds_its_field() {
        insta::assert_yaml_snapshot!(made(&[
            "r",
            "--from-backup",
            "b",
            "--include-namespaces",
            "shop,db",
            "--exclude-namespaces",
            "tmp",
            "--namespace-mappings",
            "shop:shop-test,db:db-test",
            "--include-resources",
            "pods,services",
            "--exclude-resources",
            "secrets",
            "--include-cluster-resources=false",
            "-l",
            "app=web",
            "--labels",
            "team=shop",
            "--annotations",
            "why=test",
            "--restore-volumes=false",
            "--preserve-nodeports",
            "--existing-resource-policy",
            "update",
            "--status-include-resources",
            "workflows",
            "--status-exclude-resources",
            "pods",
            "--item-operation-timeout",
            "1h",
            "--resource-modifier-configmap",
            "changes",
            "--resource-policies-configmap",
            "filters",
            "--write-sparse-files",
            "--parallel-files-download",
            "4",
            "--allow-privileged",
        ]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_has_happened() {
        assert!(refused(&["r"]).contains("--from-backup"));
        assert!(
            refused(&["r", "--from-backup", "b", "--from-schedule", "s"]).contains("cannot be used with")
        );
        assert!(
            refused(&["--from-backup", "b", "--existing-resource-policy", "recreate"]).contains("update")
        );
        assert!(refused(&["--from-backup", "b", "--namespace-mappings", "a"]).contains("FROM:TO"));
        assert!(
            refused(&["--from-backup", "b", "--selector", "a=b", "--or-selector", "c=d"])
                .contains("cannot be used with")
        );
    }

    #[test]
    fn a_restore_without_a_name_gets_that_of_its_source_and_the_time() {
        let now: Zoned = "2026-11-16T01:02:03+01:00[Europe/Rome]".parse().unwrap();
        assert_eq!(default_name(&parsed(&["--from-schedule", "nightly"]), &now), "nightly-20261116010203");
        assert_eq!(default_name(&parsed(&["--from-backup", "b"]), &now), "b-20261116010203");
    }

    #[test]
    fn the_newest_usable_backup_is_taken() {
        let backup = |name: &str, phase: &str, start: &str| -> DynamicObject {
            serde_json::from_value(
                json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name},
                "status": {"phase": phase, "startTimestamp": start}}),
            )
            .unwrap()
        };
        let backups = [
            backup("old", "Completed", "2026-11-14T03:00:00Z"),
            backup("newer", "PartiallyFailed", "2026-11-15T03:00:00Z"),
            backup("broken", "Failed", "2026-11-16T03:00:00Z"),
        ];
        assert_eq!(newest(&backups).as_deref(), Some("newer"));
        assert_eq!(newest(&backups[2..]), None);
    }

    async fn source_of(line: &[&str], objects: Vec<(&'static str, Value)>) -> Result<Source, String> {
        let client = holding(objects).await;
        source(&settings(), &client, &parsed(line)).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_missing_source_is_reported_before_anything_is_created() {
        let of_schedule = |name: &str, phase: &str| {
            let (plural, mut object) = backup(name, phase);
            object["metadata"]["labels"] = json!({"velero.io/schedule-name": "s"});
            vec![(plural, object)]
        };
        let there = || of_schedule("b", "Completed");
        assert_eq!(source_of(&["--from-backup", "b"], there()).await, Ok(Source::Backup("b".into())));
        assert!(source_of(&["--from-backup", "c"], there()).await.unwrap_err().contains("no backup \"c\""));
        for phase in ["InProgress", "Failed", "FailedValidation"] {
            let refused = source_of(&["--from-backup", "x"], vec![backup("x", phase)]).await.unwrap_err();
            assert!(refused.ends_with(&format!("it is {phase}")), "{refused}");
        }
        assert_eq!(source_of(&["--from-schedule", "s"], there()).await, Ok(Source::Schedule("s".into())));
        assert!(
            source_of(&["--from-schedule", "s"], Vec::new())
                .await
                .unwrap_err()
                .contains("no backups of schedule")
        );
        let partial = source_of(
            &["--from-schedule", "s", "--allow-partially-failed"],
            of_schedule("p", "PartiallyFailed"),
        );
        assert_eq!(partial.await, Ok(Source::Backup("p".into())));
    }
}
