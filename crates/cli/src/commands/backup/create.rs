//! `lifeboat backup create NAME`: creates a Backup from flags or from a schedule's template and, with --wait, follows
//! it to its end.

use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::{Client, ResourceExt};
use lifeboat_api::velero::{Backup, Schedule};
use lifeboat_plan::schedule::{backup, backup_name};

use super::{get, spec::BackupFlags};
use crate::args::{new_name, object_name};
use crate::error::CliError;
use crate::objects::create::{PrintArgs, request};
use crate::objects::{BACKUP, LOCATION, SCHEDULE, SNAPSHOT_LOCATION, typed};
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the backup
    #[arg(value_parser = new_name, required_unless_present = "from_schedule")]
    name: Option<String>,
    /// Create the backup that this schedule would create now; the schedule's template replaces all other
    /// flags
    #[arg(long, value_name = "SCHEDULE", value_parser = object_name)]
    from_schedule: Option<String>,
    #[command(flatten)]
    flags: BackupFlags,
    /// Wait until the backup has ended; fails unless it is Completed
    #[arg(short, long)]
    wait: bool,
    #[command(flatten)]
    print: PrintArgs,
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    args.flags.check()?;
    if let (None, Some(output)) = (&args.from_schedule, args.print.output) {
        return args.print.print(output, &object(settings, &args), &get::COLUMNS);
    }
    let client = settings.client().await?;
    let object = match &args.from_schedule {
        Some(schedule) => from_schedule(settings, &client, &args, schedule).await?,
        None => object(settings, &args),
    };
    if let Some(output) = args.print.output {
        return args.print.print(output, &object, &get::COLUMNS);
    }
    check_locations(settings, &client, &args.flags).await?;
    request(settings, &client, BACKUP, &object, args.wait).await
}

/// The Backup that the flags describe.
fn object(settings: &Settings, args: &Args) -> Backup {
    Backup {
        metadata: ObjectMeta {
            name: args.name.clone(),
            namespace: Some(settings.namespace.clone()),
            labels: args.flags.labels.clone().map(|labels| labels.0),
            annotations: args.flags.annotations.clone().map(|annotations| annotations.0),
            ..ObjectMeta::default()
        },
        spec: args.flags.spec(),
        status: None,
    }
}

/// The Backup that the schedule would create now, with the labels and annotations from the flags added.
async fn from_schedule(
    settings: &Settings,
    client: &Client,
    args: &Args,
    schedule: &str,
) -> Result<Backup, CliError> {
    let found = SCHEDULE.find(&SCHEDULE.api(client, &settings.namespace), schedule).await?;
    let schedule: Schedule = typed(&found)?;
    if args.flags.spec() != lifeboat_api::velero::BackupSpec::default() {
        eprintln!("The schedule defines what is backed up; flags for that are ignored.");
    }
    let name = args.name.clone().unwrap_or_else(|| backup_name(&schedule.name_any(), Timestamp::now()));
    let mut made = backup(&schedule, &name);
    if let Some(labels) = &args.flags.labels {
        made.labels_mut().extend(labels.0.clone());
    }
    if let Some(annotations) = &args.flags.annotations {
        made.annotations_mut().extend(annotations.0.clone());
    }
    Ok(made)
}

/// Checks that the locations named by flags exist, before anything is created.
pub(crate) async fn check_locations(
    settings: &Settings,
    client: &Client,
    flags: &BackupFlags,
) -> Result<(), CliError> {
    if let Some(name) = &flags.storage_location {
        LOCATION.find(&LOCATION.api(client, &settings.namespace), name).await?;
    }
    for name in &flags.volume_snapshot_locations {
        SNAPSHOT_LOCATION.find(&SNAPSHOT_LOCATION.api(client, &settings.namespace), name).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::objects::tests::{holding, settings};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn made(line: &[&str]) -> Value {
        let parsed =
            Line::try_parse_from([&["create"], line].concat()).map_err(|error| error.to_string()).unwrap();
        serde_json::to_value(object(&settings(), &parsed.args)).unwrap()
    }

    fn refused(line: &[&str]) -> String {
        Line::try_parse_from([&["create"], line].concat()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn only_what_was_given_stands_in_the_object() {
        assert_eq!(made(&["b"])["spec"], serde_json::json!({}));
    }

    #[test]
    fn every_flag_of_velero_finds_its_field() {
        insta::assert_yaml_snapshot!(made(&[
            "b",
            "--ttl",
            "24h",
            "--include-namespaces",
            "shop,db",
            "--exclude-namespaces",
            "kube-system",
            "--include-cluster-scoped-resources",
            "storageclasses.storage.k8s.io",
            "--exclude-cluster-scoped-resources",
            "nodes",
            "--include-namespace-scoped-resources",
            "*",
            "--exclude-namespace-scoped-resources",
            "events",
            "--labels",
            "team=shop",
            "--annotations",
            "why=test",
            "--storage-location",
            "main",
            "--volume-snapshot-locations",
            "a,b",
            "-l",
            "app=web,!debug",
            "--ordered-resources",
            "pods=shop/db-1,shop/db-0;persistentvolumes=pv2,pv1",
            "--csi-snapshot-timeout",
            "5m",
            "--item-operation-timeout",
            "1h",
            "--snapshot-volumes=false",
            "--snapshot-move-data",
            "--default-volumes-to-fs-backup",
            "--resource-policies-configmap",
            "policies",
            "--data-mover",
            "velero",
            "--parallel-files-upload",
            "4",
        ]));
        let old = made(&[
            "b",
            "--include-resources",
            "pods",
            "--exclude-resources",
            "secrets",
            "--include-cluster-resources=true",
            "--or-selector",
            "app=web or app=db",
        ]);
        insta::assert_yaml_snapshot!("the_older_filters", old["spec"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_has_happened() {
        assert!(refused(&["b", "--selector", "a=b", "--or-selector", "c=d"]).contains("cannot be used with"));
        assert!(
            refused(&["b", "--include-resources", "pods", "--include-cluster-scoped-resources", "*"])
                .contains("cannot be used with")
        );
        assert!(refused(&["b", "--ordered-resources", "pods=a/b;c/d"]).contains("'c/d'"));
        assert!(refused(&["b", "--ttl", "1d"]).contains("720h"));
        assert!(refused(&["b", "--ttl", "-5h"]).contains("cannot be negative"));
        assert!(refused(&["b", "--csi-snapshot-timeout=-1m"]).contains("cannot be negative"));
        assert!(!refused(&["b", "--parallel-files-upload", "-5"]).contains("-- -5"));
        assert!(refused(&[&"b".repeat(260)]).contains("at most 220"));
        assert!(refused(&[]).contains("required"));
        assert!(refused(&["Nightly"]).contains("lower-case"));
    }

    #[test]
    fn lists_that_contradict_each_other_are_refused() {
        let line = ["create", "b", "--include-namespaces", "x", "--exclude-namespaces", "x"];
        let args = Line::try_parse_from(line).map_err(|error| error.to_string()).unwrap().args;
        assert!(args.flags.check().unwrap_err().to_string().contains("namespace lists"));
        assert!(BackupFlags::default().check().is_ok());
    }

    #[tokio::test]
    async fn a_backup_from_a_schedule_is_the_one_that_it_would_make() {
        let schedule = serde_json::json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
            "metadata": {"name": "nightly", "labels": {"team": "shop"}},
            "spec": {"schedule": "@daily", "template": {"includedNamespaces": ["shop"]}}});
        let client = holding(vec![("schedules", schedule)]).await;
        let line =
            ["create", "--from-schedule", "nightly", "--labels", "by=hand", "--include-namespaces", "other"];
        let args = Line::try_parse_from(line).map_err(|error| error.to_string()).unwrap().args;
        let made = from_schedule(&settings(), &client, &args, "nightly").await.unwrap();
        assert!(made.name_any().starts_with("nightly-20"), "{}", made.name_any());
        assert_eq!(made.spec.included_namespaces, Some(vec!["shop".to_owned()]));
        let labels: Vec<_> = made.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["by=hand", "team=shop", "velero.io/schedule-name=nightly"]);
        let missing = from_schedule(&settings(), &client, &args, "weekly").await.unwrap_err();
        assert!(missing.to_string().contains("no schedule \"weekly\""), "{missing}");
    }

    #[tokio::test]
    async fn a_missing_location_is_reported_before_anything_is_created() {
        let location = serde_json::json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": "default"}, "spec": {}});
        let client = holding(vec![("backupstoragelocations", location)]).await;
        let flags =
            |name: &str| BackupFlags { storage_location: Some(name.to_owned()), ..BackupFlags::default() };
        assert!(check_locations(&settings(), &client, &flags("default")).await.is_ok());
        assert!(check_locations(&settings(), &client, &flags("other")).await.is_err());
    }
}
