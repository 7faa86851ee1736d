//! The settings of a restore, and what the cluster has before it.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::items::modifiers::Modifiers;
use lifeboat_plugin::actions::{RestoreItemAction, RestoreOutcome};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::generated::Backup;
use super::super::world::{World, object};
use crate::testing::acts::Acts;

/// What the cluster has in an item's place before the restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    Equal,
    Different,
    Terminating,
}

/// The ConfigMaps in the cluster that configure actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Configured {
    #[default]
    Nothing,
    /// One for each action, and a storage class that exists.
    Well,
    /// A storage class that does not exist.
    MissingClass,
    /// Two for each action, which every one of them refuses.
    Twice,
}

/// The settings of a restore.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) policy: Option<&'static str>,
    pub(super) mapped: bool,
    pub(super) untrusted: bool,
    pub(super) allowed: bool,
    pub(super) excluded: Vec<&'static str>,
    /// Whether a namespace is excluded from which actions ask for items.
    pub(super) vault_excluded: bool,
    pub(super) labelled: bool,
    pub(super) data: bool,
    pub(super) csi_served: bool,
    pub(super) modifier: Option<&'static str>,
    pub(super) node_ports: bool,
    /// The types whose status is restored.
    pub(super) statuses: Option<&'static str>,
    pub(super) configured: Configured,
    /// The versions of Parcels that the cluster serves; it prefers the first.
    pub(super) parcels: &'static [&'static str],
    /// Whether the service behind webhooks has an endpoint, and whether that is ready.
    pub(super) endpoint: Option<bool>,
    /// Whether the test's own action says at once that its additional items are ready; otherwise it never does.
    pub(super) ready: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: None,
            mapped: false,
            untrusted: false,
            allowed: false,
            excluded: Vec::new(),
            vault_excluded: false,
            labelled: false,
            data: true,
            csi_served: true,
            modifier: None,
            node_ports: false,
            statuses: None,
            configured: Configured::Nothing,
            parcels: &["v1"],
            endpoint: None,
            ready: true,
        }
    }
}

const MODIFIERS: [&str; 2] = [
    "version: v1\nresourceModifierRules: [{conditions: {groupResource: configmaps}, mergePatches: [{patchData: '{\"data\": {\"b\": \"2\"}}'}]}]",
    "version: v1\nresourceModifierRules: [{conditions: {groupResource: services}, patches: [{operation: test, path: /spec/none, value: x}]}]",
];

/// All settings.
pub(super) fn settings() -> impl Strategy<Value = Settings> {
    (selection(), cluster()).prop_map(|(selection, cluster)| Settings {
        configured: cluster.configured,
        parcels: cluster.parcels,
        endpoint: cluster.endpoint,
        csi_served: cluster.csi_served,
        ready: cluster.ready,
        node_ports: cluster.node_ports,
        statuses: cluster.statuses,
        ..selection
    })
}

/// What a Restore selects and how; the other settings are the ordinary ones.
fn selection() -> impl Strategy<Value = Settings> {
    let policy = prop_oneof![Just(None), Just(Some("none")), Just(Some("update"))];
    let excluded = prop::sample::subsequence(
        vec![
            "persistentvolumes",
            "secrets",
            "namespaces",
            "jobs.batch",
            "volumesnapshots.snapshot.storage.k8s.io",
        ],
        0..=2,
    );
    let modifier = prop_oneof![2 => Just(None), 1 => prop::sample::select(&MODIFIERS[..]).prop_map(Some)];
    let rarely = || prop::bool::weighted(0.25);
    let mostly = prop::bool::weighted(0.8);
    (policy, any::<bool>(), rarely(), rarely(), excluded, rarely(), rarely(), mostly, modifier).prop_map(
        |(policy, mapped, untrusted, allowed, excluded, vault_excluded, labelled, data, modifier)| Settings {
            policy,
            mapped,
            untrusted,
            allowed,
            excluded,
            vault_excluded,
            labelled,
            data,
            modifier,
            ..Settings::default()
        },
    )
}

/// What the cluster has and serves, and what is asked for objects of single types; the other settings are the ordinary
/// ones.
fn cluster() -> impl Strategy<Value = Settings> {
    let configured = prop_oneof![
        3 => Just(Configured::Nothing),
        3 => Just(Configured::Well),
        1 => Just(Configured::MissingClass),
        1 => Just(Configured::Twice)
    ];
    let parcels =
        prop_oneof![Just(&["v1"][..]), Just(&["v2", "v1"][..]), Just(&["v2"][..]), Just(&["v3"][..])];
    let endpoint = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    let statuses = prop_oneof![2 => Just(None), 1 => Just(Some("*")), 1 => Just(Some("deployments.apps"))];
    let mostly = prop::bool::weighted(0.8);
    (configured, parcels, endpoint, statuses, any::<bool>(), mostly, any::<bool>()).prop_map(
        |(configured, parcels, endpoint, statuses, csi_served, ready, node_ports)| Settings {
            csi_served,
            node_ports,
            statuses,
            configured,
            parcels,
            endpoint,
            ready,
            ..Settings::default()
        },
    )
}

impl Settings {
    fn spec(&self) -> Value {
        let mut spec = json!({"excludedResources": self.excluded, "restorePVs": self.data});
        if let Some(policy) = self.policy {
            spec["existingResourcePolicy"] = json!(policy);
        }
        if self.mapped {
            spec["namespaceMapping"] = json!({"shop": "copy"});
        }
        if self.vault_excluded {
            spec["excludedNamespaces"] = json!(["vault"]);
        }
        if self.labelled {
            spec["labelSelector"] = json!({"matchLabels": {"app": "web"}});
        }
        if self.node_ports {
            spec["preserveNodePorts"] = json!(true);
        }
        if let Some(types) = self.statuses {
            spec["restoreStatus"] = json!({"includedResources": [types]});
        }
        spec
    }

    /// What the cluster has whatever is in the backup.
    fn always_there(&self) -> Vec<(String, Value)> {
        let own = json!({"metadata": {"name": "b", "namespace": "lifeboat"}, "spec": {"storageLocation": "default"}});
        let mut there = vec![("/apis/velero.io/v1/namespaces/lifeboat/backups/b".to_owned(), own)];
        there.extend(self.config_maps());
        let class = object("storage.k8s.io/v1", "StorageClass", "slow");
        there.push(("/apis/storage.k8s.io/v1/storageclasses/slow".to_owned(), class));
        if let Some(ready) = self.endpoint {
            let slice = json!({"metadata": {"name": "of-behind", "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "behind"}},
                "endpoints": [{"conditions": {"ready": ready}}]});
            let path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/of-behind";
            there.push((path.to_owned(), slice));
        }
        there
    }

    fn config_maps(&self) -> Vec<(String, Value)> {
        let class = if self.configured == Configured::MissingClass { "missing" } else { "slow" };
        let copies = match self.configured {
            Configured::Nothing => 0,
            Configured::Well | Configured::MissingClass => 1,
            Configured::Twice => 2,
        };
        let mut maps = Vec::new();
        for (action, data) in [
            ("change-storage-class", json!({"fast": class})),
            ("change-image-name", json!({"1": "i,mirror/i"})),
            ("pod-volume-restore", json!({"image": "mirror/image:1"})),
        ] {
            for copy in 0..copies {
                let name = format!("{action}-{copy}");
                let path = format!("/api/v1/namespaces/lifeboat/configmaps/{name}");
                let labels = json!({"velero.io/plugin-config": "",
                    format!("velero.io/{action}"): "RestoreItemAction"});
                let metadata = json!({"name": name, "namespace": "lifeboat", "labels": labels});
                maps.push((path, json!({"metadata": metadata, "data": data})));
            }
        }
        maps
    }
}

/// An action that asks for the item that the annotation of its own names, and waits for it.
fn asking(ready: bool) -> Arc<dyn RestoreItemAction> {
    let action: Acts<RestoreOutcome> = Acts::on(&["cronjobs"], |mut item| {
        let annotations = item["metadata"]["annotations"].clone();
        let Some(key) = annotations["test/asks"].as_str() else { return Ok(RestoreOutcome::item(item)) };
        item["metadata"]["annotations"]["restore.velero.io/must-include-additional-items"] =
            annotations["test/insists"].clone();
        let secret = ItemId::namespaced(GroupResource::new("", "secrets"), "vault", key);
        Ok(RestoreOutcome {
            additional_items: vec![secret],
            wait_for_additional_items: true,
            ..RestoreOutcome::item(item)
        })
    });
    Arc::new(action.ready(move |_, _| Ok(ready)))
}

/// A restore of the backup with these settings into a cluster that has these objects too.
pub(super) fn world(backup: &Backup, settings: &Settings, there: Vec<(String, Value)>) -> World {
    let mut world = World::new(backup.objects.clone());
    world.spec = settings.spec();
    if settings.allowed {
        world.annotations = json!({"lifeboat.io/allow-privileged": "true"});
    }
    world.untrusted = settings.untrusted.then(|| "theirs".to_owned());
    world.modifiers = settings.modifier.map(|text| Modifiers::parse(text).unwrap()).unwrap_or_default();
    world.csi = true;
    world.csi_served = settings.csi_served;
    world.serves = settings.parcels.iter().map(|version| parcel_version(version)).collect();
    world.actions.push(asking(settings.ready));
    world.volumes = backup.volumes.clone();
    world.snapshots = backup.snapshots.clone();
    world.copies = backup.copies.clone();
    world.also_there = settings.always_there();
    world.also_there.extend(there);
    world.short(Duration::from_millis(30));
    // An object that is being deleted is gone after the first look at it, however long that look takes.
    world.times.terminating = Duration::from_secs(20);
    world.rule = Box::new(|asked, api| {
        if asked.method != "GET" {
            return None;
        }
        let object = api.object(&asked.path)?;
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            api.server.remove(&asked.path);
        }
        Some((200, object))
    });
    world
}

fn parcel_version(version: &str) -> (String, String) {
    (format!("shipping.example.com/{version}"), "Parcel".to_owned())
}

/// What the cluster holds before: made from what a restore into an empty cluster creates.
pub(super) async fn before(backup: &Backup, settings: &Settings, states: &[Before]) -> Vec<(String, Value)> {
    let open = Settings { untrusted: false, excluded: Vec::new(), labelled: false, ..settings.clone() };
    let (_, api) = world(backup, &open, Vec::new()).restore().await;
    let always = settings.always_there();
    let made = api.objects().into_iter().filter(|(path, _)| always.iter().all(|(known, _)| known != path));
    let mut there = Vec::new();
    for (number, (path, mut object)) in made.enumerate() {
        let state = states[number % states.len()];
        if state == Before::Nothing
            || path.contains("datadownloads")
            || path.contains("/namespaces/lifeboat/")
        {
            continue;
        }
        object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        match state {
            Before::Different => object["metadata"]["annotations"]["changed"] = json!("yes"),
            Before::Terminating if !is_needed(&object) => {
                object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
            }
            _ => {}
        }
        there.push((path, object));
    }
    there
}

/// Whether other items are restored differently while this object is missing. A restore continues with them while it waits
/// for the deletion, and a dry run cannot know how long that takes; it names the object.
fn is_needed(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    let needed = ["Namespace", "ServiceAccount", "PersistentVolume", "PersistentVolumeClaim", "StorageClass"];
    needed.contains(&kind) || kind.starts_with("VolumeSnapshot") || kind.starts_with("CustomResource")
}
