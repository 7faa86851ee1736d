//! Backups made of lines: a kind of item, and a variation of it.

mod cluster;
mod pods;
mod settings;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_plan::velero::csi::restored_name;
use lifeboat_plan::velero::pod_volumes::Copied;
use lifeboat_plan::velero::restore::native::{Snapshot, other_name};
use lifeboat_plan::velero::restore::volumes::DataIn;
use serde_json::{Value, json};

use super::world::object;

/// Adds the items of one line to a backup. The last number is in the items' names, so that no two lines have the same.
type Add = fn(&mut Backup, usize, usize);

/// Every kind of item that has an action or a rule of its own.
pub(super) const KINDS: [Add; 30] = [
    pods::pod,
    pods::urgent,
    workloads::job,
    workloads::controller,
    workloads::stateful,
    workloads::asking,
    volumes::claim,
    volumes::unclaimed,
    volumes::snapshotted,
    settings::token,
    settings::secret,
    settings::service,
    settings::slice,
    settings::map,
    settings::of_actions,
    cluster::definition,
    cluster::namespace,
    cluster::rights,
    cluster::webhook,
    cluster::api_service,
    cluster::node,
    cluster::event,
    cluster::own,
    cluster::privileged,
    cluster::class,
    cluster::parcel,
    cluster::unserved,
    // Items of which several kinds meet.
    workloads::fighting,
    volumes::claimed_by_pod,
    settings::elsewhere,
];

/// One kind of item, in one of its variations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) kind: usize,
    pub(super) variation: u8,
}

/// What is in a backup.
#[derive(Clone, Debug, Default)]
pub(super) struct Backup {
    pub(super) objects: Vec<Value>,
    pub(super) volumes: BTreeMap<String, DataIn>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) copies: Vec<Copied>,
}

impl Backup {
    /// The types of the items of a resource, one for each version: `v1/Pod` for `pods`.
    pub(super) fn types_of(&self, resource: &str) -> BTreeSet<String> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let types = self.objects.iter().filter_map(|object| {
            let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
            let lower = kind.to_lowercase();
            let fits = plural == format!("{lower}s") || plural == format!("{lower}es");
            let own = version.split_once('/').map_or("", |(group, _)| group);
            (fits && own == group).then(|| format!("{version}/{kind}"))
        });
        types.collect()
    }

    /// The names that an object may have in the cluster: snapshots and their contents get one of the restore, and volumes
    /// that are created from snapshots may.
    pub(super) fn names_in_cluster(&self, resource: &str, name: &str) -> Vec<String> {
        match resource {
            "volumesnapshots.snapshot.storage.k8s.io" => vec![restored_name("ru", name)],
            "volumesnapshotcontents.snapshot.storage.k8s.io" => {
                let content = self
                    .objects
                    .iter()
                    .find(|one| one["kind"] == "VolumeSnapshotContent" && one["metadata"]["name"] == name);
                let snapshot = content.and_then(|one| one["spec"]["volumeSnapshotRef"]["name"].as_str());
                vec![restored_name("ru", snapshot.unwrap_or_default())]
            }
            "persistentvolumes" => vec![name.to_owned(), other_name("ru", name)],
            _ => vec![name.to_owned()],
        }
    }
}

pub(super) fn backup(lines: &[Line]) -> Backup {
    let mut made = Backup { objects: vec![object("v1", "Namespace", "shop")], ..Backup::default() };
    for (number, line) in lines.iter().enumerate() {
        let first = made.objects.len();
        KINDS[line.kind](&mut made, usize::from(line.variation), number);
        if line.variation % 2 == 1 {
            for object in &mut made.objects[first..] {
                if object["metadata"]["namespace"] != "vault" {
                    object["metadata"]["labels"]["app"] = json!("web");
                }
            }
        }
    }
    made
}

/// Adds an object of namespace `shop`, with the line's number in its name.
fn add(made: &mut Backup, version: &str, kind: &str, number: usize, fields: Value) {
    let name = format!("shop/{}{number}", kind.to_lowercase());
    add_named(made, version, kind, &name, fields);
}

/// Adds an object; `place` is `namespace/name` or a name. `fields` are merged into it.
#[expect(clippy::needless_pass_by_value, reason = "every caller makes its fields for this call")]
fn add_named(made: &mut Backup, version: &str, kind: &str, place: &str, fields: Value) {
    let mut object = object(version, kind, place);
    lifeboat_cluster::testing::merge(&mut object, &fields);
    made.objects.push(object);
}
