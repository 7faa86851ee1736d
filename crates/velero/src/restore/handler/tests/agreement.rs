//! A dry run and a restore agree: for backups of every kind that has an action or a rule of its own, against objects that
//! exist already, with each policy, mapping, modifier and filter.

use std::collections::BTreeSet;

use lifeboat_plan::items::modifiers::Modifiers;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use super::super::RestoredItems;
use super::generated::{Backup, KINDS, Line, backup};
use super::world::{Api, World, spool};
use lifeboat_items::preview::{PlannedItem, Would};

/// What the cluster has in an item's place before the restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Equal,
    Different,
    Terminating,
}

/// The settings of a restore.
#[derive(Clone, Debug)]
struct Settings {
    policy: Option<&'static str>,
    mapped: bool,
    untrusted: bool,
    allowed: bool,
    excluded: Vec<&'static str>,
    labelled: bool,
    data: bool,
    csi_served: bool,
    modifier: Option<&'static str>,
}

/// What became of an item, in a preview or in a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Created,
    Updated,
    Untouched,
    Failed,
}

const MODIFIERS: [&str; 2] = [
    "version: v1\nresourceModifierRules: [{conditions: {groupResource: configmaps}, mergePatches: [{patchData: '{\"data\": {\"b\": \"2\"}}'}]}]",
    "version: v1\nresourceModifierRules: [{conditions: {groupResource: services}, patches: [{operation: test, path: /spec/none, value: x}]}]",
];

fn settings() -> impl Strategy<Value = Settings> {
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
    (
        policy,
        any::<bool>(),
        rarely(),
        rarely(),
        excluded,
        rarely(),
        prop::bool::weighted(0.8),
        any::<bool>(),
        modifier,
    )
        .prop_map(
            |(policy, mapped, untrusted, allowed, excluded, labelled, data, csi_served, modifier)| Settings {
                policy,
                mapped,
                untrusted,
                allowed,
                excluded,
                labelled,
                data,
                csi_served,
                modifier,
            },
        )
}

fn lines() -> impl Strategy<Value = Vec<(Line, Before)>> {
    let line = (0..KINDS, 0_u8..16).prop_map(|(kind, variation)| Line { kind, variation });
    let before = prop_oneof![
        3 => Just(Before::Nothing),
        2 => Just(Before::Equal),
        2 => Just(Before::Different),
        1 => Just(Before::Terminating)
    ];
    prop::collection::vec((line, before), 1..7)
}

fn world(backup: &Backup, settings: &Settings, there: Vec<(String, Value)>) -> World {
    let mut world = World::new(backup.objects.clone());
    let mut spec = json!({"excludedResources": settings.excluded, "restorePVs": settings.data});
    if let Some(policy) = settings.policy {
        spec["existingResourcePolicy"] = json!(policy);
    }
    if settings.mapped {
        spec["namespaceMapping"] = json!({"shop": "copy"});
    }
    if settings.labelled {
        spec["labelSelector"] = json!({"matchLabels": {"app": "web"}});
    }
    world.spec = spec;
    if settings.allowed {
        world.annotations = json!({"lifeboat.io/allow-privileged": "true"});
    }
    world.untrusted = settings.untrusted.then(|| "theirs".to_owned());
    world.modifiers = settings.modifier.map(|text| Modifiers::parse(text).unwrap()).unwrap_or_default();
    world.csi = true;
    world.csi_served = settings.csi_served;
    world.volumes = backup.volumes.clone();
    world.snapshots = backup.snapshots.clone();
    world.copies = backup.copies.clone();
    world.also_there = there;
    let own =
        json!({"metadata": {"name": "b", "namespace": "lifeboat"}, "spec": {"storageLocation": "default"}});
    world.also_there.push(("/apis/velero.io/v1/namespaces/lifeboat/backups/b".to_owned(), own));
    world.short(std::time::Duration::from_millis(30));
    // An object that is being deleted is gone after the first look at it, however long that look takes.
    world.times.terminating = std::time::Duration::from_secs(20);
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

/// What the cluster holds before: made from what a restore into an empty cluster creates.
async fn before(backup: &Backup, settings: &Settings, states: &[Before]) -> Vec<(String, Value)> {
    let open = Settings { untrusted: false, excluded: Vec::new(), labelled: false, ..settings.clone() };
    let (_, api) = world(backup, &open, Vec::new()).restore().await;
    let made = api.objects();
    let mut there = Vec::new();
    for (number, (path, mut object)) in made.into_iter().enumerate() {
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

fn previewed(would: &Would) -> Fate {
    match would {
        Would::Create => Fate::Created,
        Would::Update => Fate::Updated,
        Would::Skip(_) | Would::NotSelected(_) => Fate::Untouched,
        Would::Fail(_) => Fate::Failed,
    }
}

/// What a restore did, by its resource list, its errors and what the API server was asked.
struct Done {
    list: BTreeSet<String>,
    errors: String,
    asked: Vec<String>,
}

impl Done {
    fn new(ended: &RestoredItems, api: &Api) -> Self {
        let list = ended.list.types().flat_map(|(kind, items)| {
            items.iter().map(move |item| format!("{kind} {item}")).collect::<Vec<_>>()
        });
        let errors: Vec<String> = ended.results.errors.all().map(|(_, text)| text.to_string()).collect();
        Self { list: list.collect(), errors: errors.join("\n"), asked: api.asked.lock().unwrap().clone() }
    }

    /// Whether an error names the item.
    fn has_error(&self, resource_id: &str) -> bool {
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
        self.errors.match_indices(resource_id).any(|(at, _)| ends(&self.errors[at + resource_id.len()..]))
    }

    fn fate(&self, planned: &PlannedItem, backup: &Backup) -> Fate {
        let name = planned.item.rsplit('/').next().unwrap_or_default();
        let is_namespace = planned.resource == "namespaces";
        let (place, kind) = if is_namespace {
            (planned.namespace.clone().unwrap_or_else(|| name.to_owned()), "v1/Namespace".to_owned())
        } else {
            let place =
                planned.namespace.as_ref().map_or_else(|| name.to_owned(), |home| format!("{home}/{name}"));
            (place, backup.kind_of(&planned.resource))
        };
        let resource_id = format!("{}/{place}", planned.resource);
        let listed_place = place.clone();
        let listed = |word: &str| self.list.contains(&format!("{kind} {listed_place}({word})"));
        let resource = planned.resource.split('.').next().unwrap_or_default();
        let name = &backup.name_in_cluster(resource, name);
        let place = if is_namespace {
            place
        } else {
            planned.namespace.as_ref().map_or_else(|| name.clone(), |home| format!("{home}/{name}"))
        };
        let path = match planned.namespace.as_ref().filter(|_| !is_namespace) {
            Some(home) => format!("/namespaces/{home}/{resource}/{name}"),
            None => format!("/{resource}/{place}"),
        };
        let patched = || self.asked.iter().any(|asked| asked.starts_with("PATCH") && asked.ends_with(&path));
        if listed("created") {
            Fate::Created
        } else if listed("updated") || patched() {
            Fate::Updated
        } else if listed("failed") && self.has_error(&resource_id) {
            Fate::Failed
        } else {
            Fate::Untouched
        }
    }
}

async fn agree(lines: Vec<(Line, Before)>, settings: Settings) -> Result<(), TestCaseError> {
    let (lines, states): (Vec<Line>, Vec<Before>) = lines.into_iter().unzip();
    let backup = backup(&lines);
    let there = before(&backup, &settings, &states).await;
    let (planned, api) = world(&backup, &settings, there.clone()).dry_run().await;
    let written = api.asked.lock().unwrap().clone();
    prop_assert!(written.is_empty(), "the preview wrote {written:?}");
    let (ended, api) = world(&backup, &settings, there).restore_from(spool(&backup.objects).await).await;
    let done = Done::new(&ended, &api);
    for item in &planned.items {
        let (preview, restore) = (previewed(&item.would), done.fate(item, &backup));
        prop_assert_eq!(
            preview,
            restore,
            "{:?}\nlist {:?}\nerrors {}\nwarnings {:?}\nnotes {:?}",
            item,
            done.list,
            done.errors,
            ended.results.warnings,
            planned.notes
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_preview_says_what_the_restore_does(lines in lines(), settings in settings()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(agree(lines, settings))?;
    }
}

/// Every kind in every variation, into a cluster that has nothing, and into one that has other objects.
#[tokio::test]
async fn a_preview_says_what_the_restore_does_for_every_kind() {
    for kind in 0..KINDS {
        for before in [Before::Nothing, Before::Different] {
            let settings = Settings {
                policy: None,
                mapped: false,
                untrusted: false,
                allowed: false,
                excluded: Vec::new(),
                labelled: false,
                data: true,
                csi_served: true,
                modifier: None,
            };
            let lines = (0..16).map(|variation| (Line { kind, variation }, before)).collect();
            Box::pin(agree(lines, settings)).await.unwrap();
        }
    }
}
