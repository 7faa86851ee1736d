//! `lifeboat schedule create NAME --schedule CRON`: creates a schedule whose template takes the same flags as a backup.

use jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use lifeboat_api::velero::{Schedule, ScheduleSpec};
use lifeboat_cluster::Attempt;
use lifeboat_plan::schedule::Cron;

use super::get;
use crate::args::schedule_name;
use crate::commands::backup::check_locations;
use crate::commands::backup::spec::BackupFlags;
use crate::error::CliError;
use crate::objects::create::{PrintArgs, refusal};
use crate::objects::show::{moment, relative};
use crate::objects::{SCHEDULE, dynamic};
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the schedule; its backups are called NAME-YYYYMMDDhhmmss
    #[arg(value_parser = schedule_name)]
    name: String,
    /// When: five cron fields ("0 3 * * *" or "30 1 * * MON-FRI"), @daily and the like, or "@every 6h"; UTC, or a zone in front as in "CRON_TZ=Europe/Berlin 0 3 * * *"
    #[arg(long, value_name = "CRON", value_parser = cron)]
    schedule: String,
    /// Create the schedule paused
    #[arg(long)]
    paused: bool,
    /// Skip a backup that is due at once, and wait for the next time
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    skip_immediately: Option<bool>,
    /// Make the schedule the owner of its backups: deleting it deletes their objects (their data stays, and
    /// is synced again)
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false", require_equals = true, value_name = "BOOL", hide_default_value = true)]
    use_owner_references_in_backup: bool,
    #[command(flatten)]
    flags: BackupFlags,
    #[command(flatten)]
    print: PrintArgs,
}

/// Refuses a schedule that the server would refuse.
fn cron(text: &str) -> Result<String, String> {
    Cron::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) async fn run(settings: &Settings, args: Args) -> Result<(), CliError> {
    args.flags.check()?;
    let object = object(settings, &args);
    if let Some(output) = args.print.output {
        return args.print.print(output, &object, &get::COLUMNS);
    }
    let client = settings.client().await?;
    check_locations(settings, &client, &args.flags).await?;
    SCHEDULE
        .api(&client, &settings.namespace)
        .create(&PostParams::default(), &dynamic(&object)?)
        .await
        .attempt(format!("create Schedule {}", args.name))
        .map_err(|error| refusal(error, "schedule", &args.name))?;
    printer::line(&format!("Schedule {:?} created.", args.name));
    let now = Timestamp::now();
    match Cron::parse(&args.schedule).ok().and_then(|cron| cron.next(now)) {
        _ if args.paused => {
            printer::line(&format!("It is paused; start it with `lifeboat schedule unpause {}`.", args.name));
        }
        Some(next) => {
            printer::line(&format!("The first backup is made {}, at {}.", relative(next, now), moment(next)));
        }
        None => {}
    }
    Ok(())
}

fn object(settings: &Settings, args: &Args) -> Schedule {
    Schedule {
        metadata: ObjectMeta {
            name: Some(args.name.clone()),
            namespace: Some(settings.namespace.clone()),
            labels: args.flags.labels.clone().map(|labels| labels.0),
            annotations: args.flags.annotations.clone().map(|annotations| annotations.0),
            ..ObjectMeta::default()
        },
        spec: ScheduleSpec {
            template: args.flags.spec(),
            schedule: args.schedule.clone(),
            use_owner_references_in_backup: args.use_owner_references_in_backup.then_some(true),
            paused: args.paused.then_some(true),
            skip_immediately: args.skip_immediately,
        },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::objects::tests::settings;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_schedule_holds_the_flags_of_a_backup_as_its_template() {
        let line = [
            "create",
            "nightly",
            "--schedule",
            "CRON_TZ=Europe/Berlin 0 3 * * *",
            "--include-namespaces",
            "shop",
            "--ordered-resources",
            "pods=shop/db-1,shop/db-0",
            "--ttl",
            "24h",
            "--labels",
            "team=shop",
            "--annotations",
            "a=b",
            "--paused",
            "--skip-immediately",
            "--use-owner-references-in-backup",
        ];
        let args = Line::try_parse_from(line).map_err(|error| error.to_string()).unwrap().args;
        insta::assert_yaml_snapshot!(serde_json::to_value(object(&settings(), &args)).unwrap());
    }

    #[test]
    fn a_time_that_never_comes_is_refused() {
        let refused = |line: &[&str]| {
            Line::try_parse_from([&["create"], line].concat()).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(&["n", "--schedule", "0 0 31 2 *"]).contains("matches no date"));
        assert!(refused(&["n", "--schedule", "hourly"]).contains("five"));
        assert!(refused(&["n"]).contains("--schedule"));
        assert!(refused(&["n", "--schedule", "0 0 L * *"]).contains("\"L\" is not a valid day of month"));
        assert!(refused(&[&"n".repeat(244), "--schedule", "@daily"]).contains("at most 205"));
    }
}
