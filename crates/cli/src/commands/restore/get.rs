//! `lifeboat restore get [NAME…]`: a table with the columns of stock Velero.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::error::CliError;
use crate::objects::get::{self, Columns, GetArgs, selector_at, time_at};
use crate::objects::show::moment;
use crate::objects::{RESTORE, number, phase, text};
use crate::settings::Settings;

pub(crate) const COLUMNS: Columns = Columns {
    headings: &[
        "NAME",
        "BACKUP",
        "STATUS",
        "STARTED",
        "COMPLETED",
        "ERRORS",
        "WARNINGS",
        "CREATED",
        "SELECTOR",
    ],
    row,
    sort: |_| {},
};

pub(crate) async fn run(settings: &Settings, args: GetArgs) -> Result<(), CliError> {
    get::run(settings, RESTORE, args, &COLUMNS).await
}

fn row(restore: &DynamicObject, _now: Timestamp) -> Vec<String> {
    let time = |pointer: &str| time_at(restore, pointer).map_or_else(|| "n/a".to_owned(), moment);
    let deleting = if restore.metadata.deletion_timestamp.is_some() { " (Deleting)" } else { "" };
    let backup = text(restore, "/spec/backupName");
    let schedule = text(restore, "/spec/scheduleName");
    vec![
        restore.name_any(),
        if backup.is_empty() { format!("latest of {schedule}") } else { backup },
        format!("{}{deleting}", phase(restore)),
        time("/status/startTimestamp"),
        time("/status/completionTimestamp"),
        number(restore, "/status/errors").to_string(),
        number(restore, "/status/warnings").to_string(),
        restore.creation_timestamp().map_or_else(|| "n/a".to_owned(), |time| moment(time.0)),
        selector_at(restore, "/spec/labelSelector"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listing_reads_as_upstreams() {
        let restores = [
            json!({"apiVersion": "velero.io/v1", "kind": "Restore",
                "metadata": {"name": "r1", "creationTimestamp": "2026-11-16T03:00:00Z"}, "spec": {"backupName": "b"},
                "status": {"phase": "Completed", "warnings": 2, "startTimestamp": "2026-11-16T03:00:01Z",
                    "completionTimestamp": "2026-11-16T03:00:09Z"}}),
            json!({"apiVersion": "velero.io/v1", "kind": "Restore",
                "metadata": {"name": "r2", "creationTimestamp": "2026-11-16T03:00:00Z", "deletionTimestamp": "2026-11-16T03:00:00Z"},
                "spec": {"scheduleName": "nightly"}}),
        ];
        insta::assert_snapshot!(get::table_text(&restores, &COLUMNS, "2026-11-16T12:00:00Z"));
    }
}
