//! `lifeboat repo get [NAME…]`: a table with the columns of stock Velero and the result of the last maintenance.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::error::CliError;
use crate::objects::get::{self, Columns, GetArgs};
use crate::objects::{REPOSITORY, text};
use crate::settings::Settings;

const COLUMNS: Columns = Columns {
    headings: &["NAME", "STATUS", "NAMESPACE", "LOCATION", "LAST MAINTENANCE", "MESSAGE"],
    row,
    sort: |_| {},
};

pub(crate) async fn run(settings: &Settings, args: GetArgs) -> Result<(), CliError> {
    get::run(settings, REPOSITORY, args, &COLUMNS).await
}

fn row(repository: &DynamicObject, _: Timestamp) -> Vec<String> {
    let or = |text: String, empty: &str| if text.is_empty() { empty.to_owned() } else { text };
    let runs = repository.data.pointer("/status/recentMaintenance").and_then(Value::as_array);
    let last = runs.and_then(|runs| runs.last());
    let failed = last.filter(|run| run["result"] == "Failed").and_then(|run| run["message"].as_str());
    let message = or(text(repository, "/status/message"), failed.unwrap_or_default());
    vec![
        repository.name_any(),
        or(text(repository, "/status/phase"), "New"),
        text(repository, "/spec/volumeNamespace"),
        text(repository, "/spec/backupStorageLocation"),
        or(text(repository, "/status/lastMaintenanceTime"), "never"),
        message,
    ]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::new(json!({}), ["New", "never", ""])]
    #[case::maintained(
        json!({"phase": "Ready", "lastMaintenanceTime": "2026-11-16T12:00:00Z"}), ["Ready", "2026-11-16T12:00:00Z", ""])]
    #[case::locked(
        json!({"phase": "Ready", "recentMaintenance": [{"result": "Failed", "message": "locked by x"}]}),
        ["Ready", "never", "locked by x"])]
    #[case::not_ready(json!({"phase": "NotReady", "message": "wrong password"}), ["NotReady", "never", "wrong password"])]
    fn a_repository_says_how_it_stands(#[case] status: Value, #[case] expected: [&str; 3]) {
        let object = json!({"apiVersion": "velero.io/v1", "kind": "BackupRepository", "metadata": {"name": "r"},
            "spec": {"volumeNamespace": "shop", "backupStorageLocation": "default"}, "status": status});
        let row = row(&serde_json::from_value(object).unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(row, ["r", expected[0], "shop", "default", expected[1], expected[2]]);
    }
}
