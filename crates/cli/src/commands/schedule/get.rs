//! `lifeboat schedule get [NAME…]`: a table with the columns of stock Velero and the time of the next backup.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_api::velero::Schedule;

use super::page::next;
use crate::error::CliError;
use crate::objects::get::{self, Columns, GetArgs, selector_at, time_at};
use crate::objects::show::{moment, relative};
use crate::objects::{SCHEDULE, phase, text, typed};
use crate::settings::Settings;

pub(crate) const COLUMNS: Columns = Columns {
    headings: &[
        "NAME",
        "STATUS",
        "CREATED",
        "SCHEDULE",
        "BACKUP TTL",
        "LAST BACKUP",
        "NEXT BACKUP",
        "SELECTOR",
        "PAUSED",
    ],
    row,
    sort: |_| {},
};

pub(crate) async fn run(settings: &Settings, args: GetArgs) -> Result<(), CliError> {
    get::run(settings, SCHEDULE, args, &COLUMNS).await
}

fn row(schedule: &DynamicObject, now: Timestamp) -> Vec<String> {
    let typed: Option<Schedule> = typed(schedule).ok();
    let ago = |pointer: &str| {
        time_at(schedule, pointer).map_or_else(|| "n/a".to_owned(), |time| relative(time, now))
    };
    let ttl = text(schedule, "/spec/template/ttl");
    vec![
        schedule.name_any(),
        phase(schedule),
        schedule.creation_timestamp().map_or_else(|| "n/a".to_owned(), |time| moment(time.0)),
        text(schedule, "/spec/schedule"),
        if ttl.is_empty() { "default".to_owned() } else { ttl },
        ago("/status/lastBackup"),
        typed
            .as_ref()
            .and_then(|schedule| next(schedule, now))
            .map_or_else(|| "n/a".to_owned(), |time| relative(time, now)),
        selector_at(schedule, "/spec/template/labelSelector"),
        typed.is_some_and(|schedule| schedule.is_paused()).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listing_reads_as_upstreams() {
        let schedule = |name: &str, spec, status| {
            json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
                "metadata": {"name": name, "creationTimestamp": "2026-11-01T03:00:00Z"}, "spec": spec, "status": status})
        };
        let schedules = [
            schedule(
                "nightly",
                json!({"schedule": "0 3 * * *", "template": {"ttl": "720h0m0s"}}),
                json!({"phase": "Enabled", "lastBackup": "2026-11-16T03:00:00Z"}),
            ),
            schedule(
                "paused",
                json!({"schedule": "@hourly", "paused": true, "template": {}}),
                json!({"phase": "Enabled"}),
            ),
            schedule("wrong", json!({"schedule": "x", "template": {}}), json!({"phase": "FailedValidation"})),
        ];
        insta::assert_snapshot!(get::table_text(&schedules, &COLUMNS, "2026-11-16T12:00:00Z"));
    }
}
