//! Namespaces at each level of Pod Security, and those that ask for movers without root, back up and restore; the API server refuses nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{Engine, RESTORE_SESSIONS, StashTest, contents, random};
use rstest::rstest;
use serde_json::Value;

use super::workloads::{deployment, into, put_deployment_with};

const CONFIGURATION: &str = "BackupConfiguration";
/// The user of the app, and its group.
const USER: u32 = 1000;

/// What every level admits.
const OF_POD: &str = "securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}";
const OF_CONTAINER: &str = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}";

/// Files of the app's user, which nobody else can read.
fn fill(directory: &Path) -> Listing {
    chown(directory, Some(USER), Some(USER)).unwrap();
    fs::create_dir(directory.join("own")).unwrap();
    fs::write(directory.join("own/secret"), "of the application").unwrap();
    fs::write(directory.join("bytes"), random(1 << 20)).unwrap();
    fs::set_permissions(directory.join("own/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(directory.join("own"), fs::Permissions::from_mode(0o700)).unwrap();
    for path in ["own/secret", "own", "bytes"] {
        chown(directory.join(path), Some(USER), Some(USER)).unwrap();
    }
    contents(directory)
}

/// An app in a namespace of this level, with a BackupConfiguration `nightly`; and its data.
pub(crate) fn start(level: &str) -> (StashTest, Listing) {
    let label = format!("pod-security.kubernetes.io/enforce={level}");
    let test = StashTest::labelled(&[&label]);
    test.put_repository("repo");
    put_deployment_with(&test, "web", OF_POD, OF_CONTAINER);
    let before = fill(&test.directory("web", 0, "data"));
    test.put_configuration("nightly", &deployment("app", "web"), "");
    (test, before)
}

#[rstest]
#[case::restricted("restricted", false)]
#[case::baseline("baseline", false)]
#[case::privileged("privileged", false)]
#[case::movers_without_root("privileged", true)]
fn a_namespace_of_this_level_backs_up_and_restores(#[case] level: &str, #[case] asks: bool) {
    let (test, before) = start(level);
    if asks {
        let annotation = r#"{"metadata": {"annotations": {"lifeboat.io/movers": "restricted"}}}"#;
        test.patch("namespace", &test.tenant.name, annotation);
    }
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_stored("repo", "app", "/source/data", &before);
    let directory = test.directory("web", 0, "data");
    fs::remove_dir_all(directory.join("own")).unwrap();
    fs::write(directory.join("bytes"), "damaged").unwrap();
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), level);
    let owners = back["status"]["conditions"].to_string();
    assert!(!owners.contains("OwnersNotRestored"), "all files are the app's own: {owners}");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_file_that_the_mover_cannot_read_fails_its_host_and_the_snapshot_is_never_the_latest() {
    let (test, before) = start("restricted");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let hidden = test.directory("web", 0, "data").join("hidden");
    fs::write(&hidden, "of root").unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600)).unwrap();
    // The policy keeps two; the complete snapshot is older than three that are not.
    for _ in 0..3 {
        let session = test.run(CONFIGURATION, "nightly", "Failed");
        let error =
            session["status"]["targets"][0]["stats"][0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains("1 file could not be read") && error.contains("hidden"), "{error}");
    }
    let all = test.backups("repo");
    let is_incomplete = |one: &&Value| one["tags"].to_string().contains("lifeboat-incomplete");
    let complete: Vec<&Value> = all.iter().filter(|one| !is_incomplete(one)).collect();
    assert_eq!(complete.len(), 1, "the complete snapshot stays: {all:#?}");
    let id = complete[0]["id"].as_str().unwrap();
    test.repository("repo").assert_restores(&[id], "/source/data", &before);
    fs::remove_file(&hidden).unwrap();
    fs::write(test.directory("web", 0, "data").join("bytes"), "damaged").unwrap();
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["stats"][0]["paths"][0]["snapshot"], id, "{:#}", back["status"]);
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "from the complete snapshot");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.repository("repo").ok(Engine::Restic, &["check", "--no-lock"]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_root_owned_file_comes_back_without_its_owner_where_movers_are_not_root() {
    let (test, before) = start("privileged");
    let foreign = test.directory("web", 0, "data").join("foreign");
    fs::write(&foreign, "of another user").unwrap();
    chown(&foreign, Some(2000), Some(2000)).unwrap();
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::remove_file(&foreign).unwrap();
    let annotation = r#"{"metadata": {"annotations": {"lifeboat.io/movers": "restricted"}}}"#;
    test.patch("namespace", &test.tenant.name, annotation);
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    let (status, message) = lifeboat_e2e::condition(&back, "OwnersNotRestored");
    assert!(status == "True" && message.contains("foreign"), "{:#}", back["status"]);
    test.wait_for_ready("web", 1);
    let found = test.directory("web", 0, "data").join("foreign");
    assert_eq!(fs::read_to_string(found).unwrap(), "of another user");
    assert!(before.0.contains_key(Path::new("bytes")));
    test.assert_nothing_is_left("repo");
}
