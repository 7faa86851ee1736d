//! `lifeboat stash`, also under the name `kubectl-stash`, with the rights of whoever runs it.

use std::fs;
use std::os::unix::fs::symlink;

use lifeboat_e2e::{
    Engine, PASSWORD, Program, RESTORE_SESSIONS, Repository, StashTest, contents, lifeboat, variable,
};

use super::workloads::{deployment, into, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";

/// A command in the tenant's namespace.
fn stash(test: &StashTest, arguments: &[&str]) -> Program {
    lifeboat().arg("stash").args(arguments).args(["-n", &test.tenant.name])
}

#[test]
fn a_backup_is_started_paused_followed_downloaded_and_deleted_by_command() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    stash(&test, &["pause", "backup", "--backupconfig", "nightly"]).ok();
    assert_eq!(test.invoker(CONFIGURATION, "nightly")["spec"]["paused"], true);
    let unchanged = test.undisturbed();
    let said = stash(&test, &["trigger", "nightly", "--wait"]).ok();
    assert!(said.contains("succeeded") && said.contains("app"), "{said}");
    unchanged.assert_unchanged();
    stash(&test, &["resume", "backup", "--backupconfig", "nightly"]).ok();
    assert_eq!(test.invoker(CONFIGURATION, "nightly")["spec"]["paused"], false);
    let watched = stash(&test, &["watch", "bc/nightly"]).ok();
    assert!(watched.contains("Succeeded") || watched.contains("succeeded"), "{watched}");

    let target = tempfile::tempdir().unwrap();
    let into = target.path().to_str().unwrap();
    stash(&test, &["download", "repo", "--host", "app", "--paths", "/source/data", "--destination", into])
        .ok();
    let downloaded = [target.path().join("source/data"), target.path().to_owned()];
    let directory = downloaded.iter().find(|path| path.join("which").exists());
    let mut expected = before.clone();
    let mut found = contents(directory.unwrap_or_else(|| panic!("nothing was downloaded into {into}")));
    for listing in [&mut expected, &mut found] {
        listing.0.remove(std::path::Path::new(""));
    }
    expected.assert_same(&found, "downloaded");

    stash(&test, &["check", "repo"]).ok();
    let id = test.backups("repo")[0]["id"].as_str().unwrap()[..8].to_owned();
    stash(&test, &["delete", "snapshot", &format!("repo-{id}")]).ok();
    assert!(test.backups("repo").is_empty());
    let debugged = stash(&test, &["debug", "backup", "--backupconfig", "nightly"]).ok();
    assert!(debugged.contains("nightly") && !debugged.contains("correct horse"), "{debugged}");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_restore_that_failed_is_left_by_command_with_the_data_as_it_is() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    // A directory with files is where the snapshot has a file.
    let directory = test.directory("web", 0, "data");
    fs::remove_file(directory.join("which")).unwrap();
    fs::create_dir(directory.join("which")).unwrap();
    fs::write(directory.join("which/own"), "of the application").unwrap();
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Failed");
    assert_eq!(test.replicas("deployments", "web"), 0);
    stash(&test, &["resume-workload", "restoresession/back"]).ok();
    test.wait_for_ready("web", 1);
    let own = fs::read_to_string(test.directory("web", 0, "data").join("which/own")).unwrap();
    assert_eq!(own, "of the application");
    // The data may be half restored: backups are still skipped, until a person says that it is good.
    let skipped = stash(&test, &["trigger", "nightly", "--wait"]).refused();
    assert!(skipped.contains("back"), "{skipped}");
    stash(&test, &["resume", "restoresession/back"]).ok();
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

#[test]
fn kubectl_finds_the_commands_under_upstreams_name() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    let programs = tempfile::tempdir().unwrap();
    symlink(variable("LIFEBOAT_BIN"), programs.path().join("kubectl-stash")).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let trigger = ["stash", "trigger", "nightly", "--wait", "-n", &test.tenant.name];
    let said = Program::new("kubectl").env("PATH", &path).args(trigger).ok();
    assert!(said.contains("succeeded"), "{said}");
    test.repository("repo").ok(Engine::Restic, &["check", "--no-lock"]);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_repository_is_unlocked_pruned_and_indexed_anew_and_its_keys_are_listed_by_command() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    for verb in ["unlock", "rebuild-index", "prune"] {
        stash(&test, &[verb, "repo"]).ok();
    }
    let keys = stash(&test, &["key", "list", "repo"]).ok();
    assert_eq!(keys.lines().filter(|line| line.contains('*')).count(), 1, "{keys}");
    assert!(!keys.contains("correct horse"), "{keys}");
    let missing = stash(&test, &["prune", "gone"]).refused();
    assert!(missing.contains("gone"), "{missing}");
    test.repository("repo").ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    test.assert_stored("repo", "app", "/source/data", &before);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.assert_nothing_is_left("repo");
}

/// The ids of a repository's keys: the one in use, and the others.
fn keys(test: &StashTest) -> (Vec<String>, Vec<String>) {
    let listed = stash(test, &["key", "list", "repo"]).ok();
    let lines = listed.lines().skip(1).filter(|line| !line.trim().is_empty());
    let (used, others): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains('*'));
    let id =
        |line: &&str| line.trim_start_matches([' ', '*']).split(' ').next().unwrap_or_default().to_owned();
    (used.iter().map(id).collect(), others.iter().map(id).collect())
}

#[test]
fn keys_of_a_repository_are_added_changed_and_removed_by_command() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let directory = tempfile::tempdir().unwrap();
    let file = |password: &str| {
        let path = directory.path().join(password);
        fs::write(&path, password).unwrap();
        path.display().to_string()
    };
    let opens = |password: &str| {
        let url = test.repository("repo").url;
        Repository::with_password(url, password).run(Engine::Restic, &["cat", "config", "--no-lock"]).code
            == 0
    };
    stash(&test, &["key", "add", "repo", "--new-password-file", &file("second"), "--user", "ann"]).ok();
    let (used, others) = keys(&test);
    assert_eq!((used.len(), others.len()), (1, 1));
    assert!(opens(PASSWORD) && opens("second"));
    // The one in use stays, because nobody could open the repository with what the Secret has.
    stash(&test, &["key", "remove", "repo", "--id", &used[0]]).refused();
    stash(&test, &["key", "remove", "repo", "--id", &others[0]]).ok();
    assert!(opens(PASSWORD) && !opens("second"));
    // A changed password belongs into the Secret.
    let changed = stash(&test, &["key", "update", "repo", "--new-password-file", &file("third")]).run();
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    assert!(
        changed.stderr.contains("RESTIC_PASSWORD") && changed.stderr.contains("keys"),
        "{}",
        changed.stderr
    );
    assert!(opens("third") && !opens(PASSWORD));
    let refused = stash(&test, &["key", "list", "repo"]).refused();
    assert!(refused.contains("password") && !refused.contains(PASSWORD), "{refused}");
    test.put_secret("keys", "third");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    stash(&test, &["key", "update", "repo", "--new-password-file", &file(PASSWORD)]).ok();
    test.put_secret("keys", PASSWORD);
    test.run(CONFIGURATION, "nightly", "Succeeded");
    let (used, others) = keys(&test);
    assert_eq!((used.len(), others.len()), (1, 0), "each change replaced the key");
    test.assert_stored("repo", "app", "/source/data", &before);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_repository_of_version_1_is_upgraded_by_command_and_backed_up_to_before_and_after() {
    let test = StashTest::start();
    let repository = test.repository("repo");
    repository.ok(Engine::Restic, &["init", "--repository-version", "1"]);
    let version = || {
        let config = repository.ok(Engine::Restic, &["cat", "config", "--no-lock"]);
        serde_json::from_str::<serde_json::Value>(&config).unwrap()["version"].clone()
    };
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(version(), 1);
    test.assert_stored("repo", "app", "/source/data", &before);
    stash(&test, &["migrate", "repo"]).ok();
    assert_eq!(version(), 2);
    stash(&test, &["migrate", "repo"]).refused();
    test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(test.backups("repo").len(), 2);
    test.assert_stored("repo", "app", "/source/data", &before);
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    repository.ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
    test.wait_for_ready("web", 1);
    test.assert_nothing_is_left("repo");
}
