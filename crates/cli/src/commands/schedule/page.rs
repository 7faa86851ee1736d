//! The page of `lifeboat schedule describe`, made from the Schedule, with the times of the next backups.

use jiff::Timestamp;
use kube::ResourceExt;
use lifeboat_api::common::Time;
use lifeboat_api::velero::{Schedule, SchedulePhase};
use lifeboat_plan::schedule::Cron;
use serde_json::Value;

use crate::commands::backup::page::{hooks, metadata, order, spec, validation};
use crate::objects::show::{Page, instant, moment, relative};

/// How many of the next times are shown.
const TIMES: usize = 3;

pub(crate) fn page(schedule: &Schedule, now: Timestamp, details: bool) -> Page {
    let status = schedule.status.clone().unwrap_or_default();
    let mut page = Page::default();
    page.text("Name", schedule.name_any());
    page.text("Namespace", schedule.namespace().unwrap_or_default());
    page.text("Phase", schedule.phase().as_str());
    page.flag_if("Paused", Some(schedule.is_paused()));
    page.text("Schedule", schedule.spec.schedule.clone());
    match status.last_backup {
        Some(Time(last)) => {
            page.say("Last backup", format!("{} ({})", moment(last), relative(last, now)), instant(last));
        }
        None => page.say("Last backup", "never", Value::Null),
    }
    if let Some(Time(skipped)) = status.last_skipped {
        page.say(
            "Last skipped",
            format!("{} (no backup for times before it)", moment(skipped)),
            instant(skipped),
        );
    }
    let owner = schedule.spec.use_owner_references_in_backup.unwrap_or_default();
    if owner {
        page.say("Owns its backups", "yes: their objects are deleted with it", true);
    }
    metadata(&mut page, &schedule.metadata, details);
    validation(&mut page, status.validation_errors.as_deref());
    let times = times(schedule, now);
    page.block("Next backups", "nextBackups", times);
    page.page("What", spec(&schedule.spec.template, details));
    order(&mut page, &schedule.spec.template);
    hooks(&mut page, schedule.spec.template.hooks.as_ref(), details);
    page
}

/// The time of the next backup; None while the schedule is paused or invalid.
pub(crate) fn next(schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    if schedule.is_paused() || *schedule.phase() == SchedulePhase::FailedValidation {
        return None;
    }
    let cron = Cron::parse(&schedule.spec.schedule).ok()?;
    // "@every" counts from the last backup; a backup that is overdue is created at once.
    let status = schedule.status.as_ref();
    let last = status.and_then(|status| status.last_backup.as_ref().max(status.last_skipped.as_ref()));
    let from = last.or(schedule.metadata.creation_timestamp.as_ref()).map_or(now, |Time(time)| *time);
    Some(cron.next(from)?.max(now))
}

fn times(schedule: &Schedule, now: Timestamp) -> Vec<(String, Value)> {
    let Some(mut time) = next(schedule, now) else { return Vec::new() };
    let Ok(cron) = Cron::parse(&schedule.spec.schedule) else { return Vec::new() };
    let mut shown = Vec::new();
    while shown.len() < TIMES {
        shown.push((format!("{} ({})", moment(time), relative(time, now)), instant(time)));
        match cron.next(time) {
            Some(later) => time = later,
            None => break,
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(spec: &Value, status: &Value) -> String {
        let schedule = serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
            "metadata": {"name": "nightly", "namespace": "lifeboat", "creationTimestamp": "2026-11-01T03:00:00Z"},
            "spec": spec, "status": status}))
        .unwrap();
        page(&schedule, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text()
    }

    #[test]
    fn a_schedule_shows_when_it_backs_up_next_and_what() {
        insta::assert_snapshot!(shown(
            &json!({"schedule": "CRON_TZ=Europe/Berlin 0 3 * * *", "useOwnerReferencesInBackup": true,
                "template": {"includedNamespaces": ["shop"], "ttl": "24h0m0s", "orderedResources": {"pods": "shop/db-1,shop/db-0"}}}),
            &json!({"phase": "Enabled", "lastBackup": "2026-11-16T02:00:00Z"}),
        ));
    }

    #[test]
    fn a_wrong_or_paused_schedule_has_no_next_time() {
        let wrong = shown(
            &json!({"schedule": "x", "template": {}}),
            &json!({"phase": "FailedValidation", "validationErrors": ["spec.schedule: no"]}),
        );
        assert!(wrong.contains("spec.schedule: no") && !wrong.contains("Next"), "{wrong}");
        let paused = shown(
            &json!({"schedule": "@daily", "paused": true, "template": {}}),
            &json!({"phase": "Enabled"}),
        );
        assert!(paused.contains("yes") && !paused.contains("Next"), "{paused}");
    }
}
