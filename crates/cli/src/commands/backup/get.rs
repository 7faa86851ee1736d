//! `lifeboat backup get [NAME…]`: a table with the columns of stock Velero. Backups of one schedule are listed
//! together, the newest first.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::error::CliError;
use crate::objects::get::{self, Columns, GetArgs, selector_at, time_at};
use crate::objects::show::{moment, relative};
use crate::objects::{BACKUP, number, phase, text};
use crate::settings::Settings;

pub(crate) const COLUMNS: Columns = Columns {
    headings: &[
        "NAME",
        "STATUS",
        "ERRORS",
        "WARNINGS",
        "CREATED",
        "EXPIRES",
        "STORAGE LOCATION",
        "QUEUE POSITION",
        "SELECTOR",
    ],
    row,
    sort,
};

pub(crate) async fn run(settings: &Settings, args: GetArgs) -> Result<(), CliError> {
    get::run(settings, BACKUP, args, &COLUMNS).await
}

fn row(backup: &DynamicObject, now: Timestamp) -> Vec<String> {
    let queue = number(backup, "/status/queuePosition");
    let expires = match time_at(backup, "/status/expiration") {
        None => "n/a".to_owned(),
        Some(time) if time <= now => "expired".to_owned(),
        Some(time) => relative(time, now).trim_start_matches("in ").to_owned(),
    };
    let status =
        if backup.metadata.deletion_timestamp.is_some() { "Deleting".to_owned() } else { phase(backup) };
    vec![
        backup.name_any(),
        status,
        number(backup, "/status/errors").to_string(),
        number(backup, "/status/warnings").to_string(),
        time_at(backup, "/status/startTimestamp").map_or_else(|| "n/a".to_owned(), moment),
        expires,
        text(backup, "/spec/storageLocation"),
        if queue > 0 { queue.to_string() } else { String::new() },
        selector_at(backup, "/spec/labelSelector"),
    ]
}

/// Sorts by name. Names that end in a time are sorted by the part before the time, and within it the newest first.
fn sort(backups: &mut [DynamicObject]) {
    backups.sort_by_cached_key(|backup| {
        let name = backup.name_any();
        match name.rsplit_once('-') {
            Some((stem, time)) if time.len() == 14 && time.bytes().all(|byte| byte.is_ascii_digit()) => {
                (stem.to_owned(), std::cmp::Reverse(time.to_owned()))
            }
            _ => (name, std::cmp::Reverse(String::new())),
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_listing_reads_as_upstreams() {
        let backup = |name: &str, spec, status| {
            json!({"apiVersion": "velero.io/v1", "kind": "Backup",
                "metadata": {"name": name, "labels": {"team": "shop"}}, "spec": spec, "status": status})
        };
        let backups = [
            backup(
                "nightly-20261115030000",
                json!({"storageLocation": "default"}),
                json!({"phase": "Completed",
                "startTimestamp": "2026-11-15T03:00:01Z", "expiration": "2026-12-15T03:00:01Z"}),
            ),
            backup(
                "nightly-20261116030000",
                json!({"storageLocation": "default"}),
                json!({"phase": "PartiallyFailed",
                "errors": 2, "warnings": 1, "startTimestamp": "2026-11-16T03:00:01Z", "expiration": "2026-11-16T03:00:02Z"}),
            ),
            backup(
                "by-hand",
                json!({"labelSelector": {"matchLabels": {"app": "web"}}}),
                json!({"phase": "Queued", "queuePosition": 2}),
            ),
            backup("new", json!({}), json!({})),
        ];
        insta::assert_snapshot!(get::table_text(&backups, &COLUMNS, "2026-11-16T12:00:00Z"));
    }
}
