//! Both products write the same files for the same namespace: names, order of entries, contents.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::app::App;
use super::bucket::{Files, names};
use super::{Product, unique};

#[test]
fn both_write_the_same_files_for_the_same_namespace() {
    let app = App::start("files");
    let (ours, theirs) = (unique("files-ours"), unique("files-theirs"));
    Product::Lifeboat.backup(&ours, &app.namespace.name);
    Product::Velero.backup(&theirs, &app.namespace.name);
    let (ours, theirs) = (Files::fetch(&ours), Files::fetch(&theirs));

    assert_eq!(ours.names(), theirs.names());
    assert_eq!(ours.names(), golden());
    same_companions(&ours, &theirs);
    same_backup_object(&ours, &theirs);
    same_archive(&ours, &theirs);
}

/// The files that Velero wrote for the backup that crate `archive` reads in its tests.
fn golden() -> Vec<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/archive/tests");
    names(&tests.join("golden/velero-1.18.3/bucket/backups/golden"), "golden")
}

fn same_companions(ours: &Files, theirs: &Files) {
    for file in ["resource-list.json", "volumesnapshots.json", "podvolumebackups.json", "itemoperations.json"]
    {
        let file = format!("NAME-{file}.gz");
        assert_eq!(ours.json(&file), theirs.json(&file), "{file}");
    }
    for file in ["NAME-volumeinfo.json.gz", "NAME-results.gz"] {
        assert_eq!(ours.json(file), theirs.json(file), "{file}");
    }
}

/// Names, times and defaults differ between the products; what was requested and how it ended does not.
fn same_backup_object(ours: &Files, theirs: &Files) {
    let (ours, theirs) = (ours.json("velero-backup.json"), theirs.json("velero-backup.json"));
    for pointer in [
        "/apiVersion",
        "/kind",
        "/spec/includedNamespaces",
        "/spec/ttl",
        "/spec/defaultVolumesToFsBackup",
        "/status/phase",
        "/status/formatVersion",
        "/status/version",
        "/status/progress",
    ] {
        assert_eq!(ours.pointer(pointer), theirs.pointer(pointer), "{pointer}");
    }
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&ours["status"]), keys(&theirs["status"]));
}

fn same_archive(ours: &Files, theirs: &Files) {
    let set = |entries: &[String]| entries.iter().cloned().collect::<BTreeSet<_>>();
    let (our_entries, their_entries) = (ours.entries(), theirs.entries());
    assert_eq!(set(&our_entries), set(&their_entries));
    assert_eq!(our_entries.len(), set(&our_entries).len(), "an entry is there twice");
    for entries in [&our_entries, &their_entries] {
        order_rules(entries);
    }
    let (mut our_objects, mut their_objects) = (ours.objects(), theirs.objects());
    for objects in [&mut our_objects, &mut their_objects] {
        for object in objects.values_mut() {
            settle(object);
        }
    }
    for (entry, object) in &our_objects {
        assert_eq!(object, &their_objects[entry], "{entry}");
    }
}

/// Each item is stored twice, one entry after the other: under its name, then under its version. A definition follows
/// its custom resources.
fn order_rules(entries: &[String]) {
    let items: Vec<&String> = entries.iter().filter(|entry| entry.starts_with("resources/")).collect();
    for pair in items.chunks(2) {
        let [first, second] = pair else { panic!("an item without its versioned twin: {pair:?}") };
        let unversioned: String = second
            .split('/')
            .filter(|part| !part.ends_with("-preferredversion"))
            .collect::<Vec<_>>()
            .join("/");
        assert!(second.contains("-preferredversion/"), "{first} is not followed by its twin: {second}");
        assert_eq!(**first, unversioned);
    }
    let place = |part: &str| items.iter().position(|entry| entry.contains(part)).unwrap();
    assert!(place("resources/widgets.") < place("resources/customresourcedefinitions."), "{items:?}");
}

/// Removes what changes by itself between two backups.
fn settle(object: &mut Value) {
    for pointer in ["/metadata/resourceVersion", "/metadata/managedFields", "/status"] {
        if let Some(value) = object.pointer_mut(pointer) {
            *value = json!(null);
        }
    }
}
