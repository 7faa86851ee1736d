//! Defaults for the fields that a Backup's spec does not set. The server writes them into the object before the
//! backup starts, so that the object shows the effective settings. Takes the spec, the server's settings and the
//! state of the cluster; gives the complete spec.

use crate::facts::ClusterVersion;
use std::collections::BTreeMap;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{BackupSpec, names};

use super::ALWAYS_EXCLUDED;
use crate::velero::filter::uses_old_filters;

/// The default limit for a CSI snapshot; upstream has no server setting for it.
const CSI_SNAPSHOT_TIMEOUT: Duration = Duration::from_mins(10);

/// The server's settings that are defaults for fields of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDefaults {
    pub ttl: Duration,
    pub item_operation_timeout: Duration,
    pub volumes_to_fs_backup: bool,
    pub snapshot_move_data: bool,
    /// The label by whose value claims are grouped into one group snapshot.
    pub volume_group_label: String,
    /// The default location if no location is marked as default.
    pub location: String,
    pub resource_timeout: Duration,
}

/// The state of the cluster that defaults depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The location that is marked as default.
    pub default_location: Option<String>,
    /// Namespaces labelled `velero.io/exclude-from-backup=true`.
    pub excluded_namespaces: Vec<String>,
    pub version: ClusterVersion,
}

/// The spec with every default filled in.
pub fn with_defaults(spec: &BackupSpec, server: &ServerDefaults, around: &Surroundings) -> BackupSpec {
    let mut spec = spec.clone();
    let duration = |given, default: Duration| Some(GoDuration::set(given).unwrap_or_else(|| default.into()));
    spec.ttl = duration(spec.ttl, server.ttl);
    spec.csi_snapshot_timeout = duration(spec.csi_snapshot_timeout, CSI_SNAPSHOT_TIMEOUT);
    spec.item_operation_timeout = duration(spec.item_operation_timeout, server.item_operation_timeout);
    if spec.volume_group_snapshot_label_key.as_deref().unwrap_or_default().is_empty() {
        spec.volume_group_snapshot_label_key = Some(server.volume_group_label.clone());
    }
    if spec.default_volumes_to_restic == Some(true) {
        spec.default_volumes_to_fs_backup = Some(true);
    }
    spec.default_volumes_to_fs_backup.get_or_insert(server.volumes_to_fs_backup);
    spec.snapshot_move_data.get_or_insert(server.snapshot_move_data);
    if spec.storage_location.as_deref().unwrap_or_default().is_empty() {
        spec.storage_location =
            Some(around.default_location.clone().unwrap_or_else(|| server.location.clone()));
    }
    if spec.included_namespaces.as_deref().unwrap_or_default().is_empty() {
        spec.included_namespaces = Some(vec!["*".to_owned()]);
    }
    add(&mut spec.excluded_namespaces, around.excluded_namespaces.iter().map(String::as_str));
    exclude_always(&mut spec);
    spec
}

fn exclude_always(spec: &mut BackupSpec) {
    if uses_old_filters(spec) {
        add(&mut spec.excluded_resources, ALWAYS_EXCLUDED);
        return;
    }
    let [snapshots, contents] = ALWAYS_EXCLUDED;
    for (list, name) in [
        (&mut spec.excluded_namespace_scoped_resources, snapshots),
        (&mut spec.excluded_cluster_scoped_resources, contents),
    ] {
        // A list with `*` excludes them already, and may hold no other entry.
        if !list.as_deref().unwrap_or_default().iter().any(|known| known == "*") {
            add(list, [name]);
        }
    }
}

fn add<'a>(list: &mut Option<Vec<String>>, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        let list = list.get_or_insert_default();
        if !list.iter().any(|known| known == name) {
            list.push(name.to_owned());
        }
    }
}

/// The annotations that a backup gets when it starts.
pub fn annotations(version: &ClusterVersion, resource_timeout: Duration) -> BTreeMap<String, String> {
    let timeout = GoDuration::from(resource_timeout).to_string();
    [
        (names::SOURCE_CLUSTER_GIT_VERSION, version.git.clone()),
        (names::SOURCE_CLUSTER_MAJOR_VERSION, version.major.clone()),
        (names::SOURCE_CLUSTER_MINOR_VERSION, version.minor.clone()),
        (names::RESOURCE_TIMEOUT, timeout),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerDefaults {
        ServerDefaults {
            ttl: Duration::from_hours(720),
            item_operation_timeout: Duration::from_hours(4),
            volumes_to_fs_backup: false,
            snapshot_move_data: false,
            volume_group_label: names::VOLUME_GROUP.to_owned(),
            location: "default".into(),
            resource_timeout: Duration::from_mins(10),
        }
    }

    #[test]
    fn an_empty_spec_becomes_what_upstream_makes_of_it() {
        let spec = with_defaults(&BackupSpec::default(), &server(), &Surroundings::default());
        insta::assert_json_snapshot!(spec, @r#"
        {
          "includedNamespaces": [
            "*"
          ],
          "excludedClusterScopedResources": [
            "volumesnapshotcontents.snapshot.storage.k8s.io"
          ],
          "excludedNamespaceScopedResources": [
            "volumesnapshots.snapshot.storage.k8s.io"
          ],
          "ttl": "720h0m0s",
          "volumeGroupSnapshotLabelKey": "velero.io/volume-group",
          "storageLocation": "default",
          "defaultVolumesToFsBackup": false,
          "csiSnapshotTimeout": "10m0s",
          "itemOperationTimeout": "4h0m0s",
          "snapshotMoveData": false
        }
        "#);
    }

    #[test]
    fn what_is_said_stays_and_labelled_namespaces_stay_out() {
        let spec = BackupSpec {
            ttl: "1h".parse().ok(),
            storage_location: Some("mine".into()),
            default_volumes_to_restic: Some(true),
            excluded_resources: Some(vec!["events".into()]),
            ..BackupSpec::default()
        };
        let around = Surroundings {
            default_location: Some("other".into()),
            excluded_namespaces: vec!["scratch".into()],
            ..Surroundings::default()
        };
        let made = with_defaults(&spec, &server(), &around);
        assert_eq!(made.ttl, "1h".parse().ok());
        assert_eq!(made.storage_location.as_deref(), Some("mine"));
        assert_eq!(made.default_volumes_to_fs_backup, Some(true));
        assert_eq!(made.excluded_namespaces, Some(vec!["scratch".into()]));
        assert_eq!(made.excluded_resources.map(|list| list.len()), Some(3));
        assert_eq!(made.excluded_cluster_scoped_resources, None);
        assert_eq!(
            with_defaults(&made_again(&spec, &around), &server(), &around),
            made_again(&spec, &around)
        );
    }

    /// Filling in the defaults twice changes nothing: a restarted server does it again.
    fn made_again(spec: &BackupSpec, around: &Surroundings) -> BackupSpec {
        with_defaults(spec, &server(), around)
    }

    #[test]
    fn a_zero_duration_is_unset() {
        let spec = BackupSpec { ttl: "0s".parse().ok(), ..BackupSpec::default() };
        let made = with_defaults(&spec, &server(), &Surroundings::default());
        assert_eq!(made.ttl, "720h".parse().ok());
    }

    #[test]
    fn annotations_carry_the_clusters_version_and_the_timeout() {
        let version = ClusterVersion { git: "v1.34.4".into(), major: "1".into(), minor: "34".into() };
        let made = annotations(&version, Duration::from_mins(10));
        assert_eq!(made["velero.io/source-cluster-k8s-gitversion"], "v1.34.4");
        assert_eq!(made["velero.io/resource-timeout"], "10m0s");
    }
}
