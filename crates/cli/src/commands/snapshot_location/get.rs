//! `lifeboat snapshot-location get [NAME…]`: a table with the columns of stock Velero and whether the location can be
//! used.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_plan::location::UNAVAILABLE_BECAUSE;

use crate::error::CliError;
use crate::objects::get::{self, Columns, GetArgs};
use crate::objects::{SNAPSHOT_LOCATION, text};
use crate::settings::Settings;

const COLUMNS: Columns = Columns { headings: &["NAME", "PROVIDER", "PHASE", "REASON"], row, sort: |_| {} };

pub(crate) async fn run(settings: &Settings, args: GetArgs) -> Result<(), CliError> {
    get::run(settings, SNAPSHOT_LOCATION, args, &COLUMNS).await
}

fn row(location: &DynamicObject, _: Timestamp) -> Vec<String> {
    let phase = text(location, "/status/phase");
    vec![
        location.name_any(),
        text(location, "/spec/provider"),
        if phase.is_empty() { "Unknown".to_owned() } else { phase },
        location.annotations().get(UNAVAILABLE_BECAUSE).cloned().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_location_that_cannot_be_used_says_why() {
        let location = json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation", "metadata": {"name": "main",
            "annotations": {UNAVAILABLE_BECAUSE: "no plugin"}}, "spec": {"provider": "aws"}, "status": {"phase": "Unavailable"}});
        let location: DynamicObject = serde_json::from_value(location).unwrap();
        assert_eq!(row(&location, Timestamp::UNIX_EPOCH), ["main", "aws", "Unavailable", "no plugin"]);
    }
}
