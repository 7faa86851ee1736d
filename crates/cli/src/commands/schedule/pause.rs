//! `lifeboat schedule pause` and `lifeboat schedule unpause`.

use kube::ResourceExt;
use lifeboat_cluster::objects;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::objects::{SCHEDULE, Selection};
use crate::printer;
use crate::settings::Settings;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// When it is unpaused: skip a backup that is due at once, and wait for the next time
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    skip_immediately: Option<bool>,
}

pub(crate) async fn run(settings: &Settings, args: &Args, pause: bool) -> Result<(), CliError> {
    let api = SCHEDULE.api(&settings.client().await?, &settings.namespace);
    let found = SCHEDULE.chosen(&api, &args.selection.names, args.selection.selector.as_deref()).await?;
    if found.is_empty() {
        eprintln!("No schedules in namespace {}.", settings.namespace);
    }
    let word = if pause { "paused" } else { "unpaused" };
    for schedule in &found {
        let name = schedule.name_any();
        let is_paused = schedule.data.pointer("/spec/paused") == Some(&Value::Bool(true));
        if is_paused == pause {
            printer::line(&format!("Schedule {name:?} is {word} already."));
            continue;
        }
        objects::merge(&api, schedule, patch(pause, args.skip_immediately)).await?;
        printer::line(&format!("Schedule {name:?} {word}."));
    }
    Ok(())
}

/// As in stock Velero, a flag that is not given removes the field, so that an earlier setting does not stay in effect.
fn patch(pause: bool, skip: Option<bool>) -> Value {
    json!({"spec": {"paused": pause, "skipImmediately": skip}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_sets_both_fields() {
        assert_eq!(patch(true, None), json!({"spec": {"paused": true, "skipImmediately": null}}));
        assert_eq!(patch(false, Some(true)), json!({"spec": {"paused": false, "skipImmediately": true}}));
    }
}
