//! Programs start with the first call, so these tests need none.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use lifeboat_api::velero::BackupStorageLocation;
use lifeboat_plugin::host::{HostSettings, Kind, Plugin};
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::locations::{Opening, SecretValues, Secrets, opening};

fn host() -> PluginHost {
    let plugin = Plugin {
        kind: Kind::ObjectStore,
        name: "velero.io/aws".into(),
        program: "/plugins/velero-plugin-for-aws".into(),
    };
    PluginHost::of(HostSettings::new(PathBuf::new()), vec![plugin])
}

fn location(spec: &Value) -> BackupStorageLocation {
    let metadata = json!({"name": "default", "uid": "u"});
    serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
        "metadata": metadata, "spec": spec}))
    .unwrap()
}

fn secrets(version: &str) -> Secrets {
    let values = [("cloud".to_owned(), b"[default]".to_vec()), ("ca".to_owned(), b"PEM".to_vec())].into();
    let secret = SecretValues { version: version.into(), values };
    [("mine".to_owned(), Some(secret.clone())), ("cloud-credentials".to_owned(), Some(secret))].into()
}

fn with_plugin(spec: &Value, version: &str) -> PluginOpening {
    match opening(&location(spec), &secrets(version), &host()) {
        Ok(Opening::Plugin(opening)) => opening,
        Ok(Opening::BuiltIn(_)) => panic!("built in"),
        Err(problem) => panic!("{}", problem.message),
    }
}

/// A location with credentials of its own.
fn own() -> Value {
    json!({"provider": "aws", "objectStorage": {"bucket": "b", "prefix": "/p/", "caCertRef": {"name": "mine", "key": "ca"}},
        "config": {"region": "r"}, "credential": {"name": "mine", "key": "cloud"}})
}

fn files(directory: &TempDir) -> Vec<PathBuf> {
    std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[rstest]
#[case::short("aws")]
#[case::whole("velero.io/aws")]
fn an_installed_plugin_wins_over_the_built_in_store(#[case] provider: &str) {
    let mut spec = own();
    spec["provider"] = provider.into();
    let opening = with_plugin(&spec, "1");
    assert_eq!(opening.used, "plugin velero.io/aws (/plugins/velero-plugin-for-aws)");
    assert_eq!((opening.location.bucket.as_str(), opening.location.prefix.as_str()), ("b", "p"));
    let config: Vec<_> = opening.location.config.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(config, [("caCert", "PEM"), ("region", "r")]);
    assert!(opening.credentials.is_some());
}

#[test]
fn a_location_without_credentials_of_its_own_leaves_them_to_the_environment() {
    let spec = json!({"provider": "aws", "objectStorage": {"bucket": "b"}});
    let opening = with_plugin(&spec, "1");
    assert!(opening.credentials.is_none());
    assert!(opening.location.config.is_empty());
}

#[test]
fn other_providers_stay_with_the_built_in_store_and_unknown_ones_hear_of_both_ways() {
    let spec = |provider: &str| json!({"provider": provider, "objectStorage": {"bucket": "b"}});
    let built_in = opening(&location(&spec("gcp")), &Secrets::new(), &host());
    assert!(matches!(built_in, Ok(Opening::BuiltIn(_))));
    let problem = opening(&location(&spec("tape")), &Secrets::new(), &host()).err().unwrap();
    for words in ["aws, gcp, azure", "'velero.io/tape'", "lifeboat plugin add"] {
        assert!(problem.message.contains(words), "{}", problem.message);
    }
}

#[tokio::test]
async fn credentials_are_in_a_file_for_this_user_as_long_as_the_store_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let stores = PluginStores::default();
    let store = stores.open(&host(), directory.path(), &with_plugin(&own(), "1")).unwrap();
    let [file] = &files(&directory)[..] else { panic!("{:?}", files(&directory)) };
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(file).unwrap(), b"[default]");
    stores.close().await;
    assert!(file.exists(), "somebody uses it");
    drop(store);
    assert!(files(&directory).is_empty());
}

#[tokio::test]
async fn one_process_serves_a_location_until_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let stores = PluginStores::default();
    let open = |version: &str| stores.open(&host(), directory.path(), &with_plugin(&own(), version)).unwrap();
    let first = open("1");
    let before = files(&directory);
    drop(first);
    let again = open("1");
    assert_eq!(files(&directory), before);
    let changed = open("2");
    assert_eq!(files(&directory).len(), 2, "the old one is still used");
    drop(again);
    assert_eq!(files(&directory).len(), 1);
    assert_ne!(files(&directory), before);
    stores.forget("u");
    drop(changed);
    assert!(files(&directory).is_empty(), "one that did not do well is not kept");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_nobody_uses_ends() {
    let directory = tempfile::tempdir().unwrap();
    let stores = PluginStores::default();
    let store = stores.open(&host(), directory.path(), &with_plugin(&own(), "1")).unwrap();
    sleep(IDLE * 3).await;
    assert_eq!(files(&directory).len(), 1, "it is used");
    drop(store);
    sleep(IDLE).await;
    assert!(files(&directory).is_empty());
}
