//! Access to the repository: locks of others, passwords, maintenance.

use std::fs;
use std::process::{Child, Command, Stdio};

use lifeboat_e2e::{Engine, OneVolume, Program, get, random, signal, variable, wait_for};

/// A process of another cluster that holds a repository's lock.
struct Holder(Child);

impl Holder {
    fn of(test: &OneVolume, flags: &[&str]) -> Self {
        let repository = test.repository();
        let mut command = Command::new(variable("LIFEBOAT_BIN"));
        command.args(["repository", "lock"]).args(flags).args(["--", "sleep", "120"]);
        command.env("RESTIC_REPOSITORY", &repository.url).env("RESTIC_PASSWORD", test.server.password());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the lock", 30, || {
            let locks = repository.ok(Engine::Restic, &["list", "locks", "--no-lock"]);
            if locks.trim().is_empty() { Err("not there".to_owned()) } else { Ok(()) }
        });
        Self(child)
    }

    fn let_go(mut self) {
        signal("-TERM", &self.0.id().to_string());
        self.0.wait().unwrap();
    }

    /// Kills the holder; its lock stays.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The holder's name in messages.
fn this_host() -> String {
    Program::new("hostname").ok().trim().to_owned()
}

#[test]
fn a_locked_repository_keeps_the_copy_waiting_and_its_holder_is_named() {
    let test = OneVolume::start(&[]);
    test.assert_next_run_succeeds("before");
    let holder = Holder::of(&test, &["--exclusive"]);
    test.begin("waiting");
    let host = this_host();
    wait_for("the name of the holder", 60, || {
        let message = test.copy("waiting")["status"]["message"].as_str().unwrap_or_default().to_owned();
        if message.contains(&host) { Ok(()) } else { Err(message) }
    });
    holder.let_go();
    let (backup, _) = test.ended("waiting");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_next_run_succeeds("after");
}

#[test]
fn a_lock_of_a_dead_holder_elsewhere_is_waited_for_as_long_as_a_copy_may_take_and_named() {
    let test = OneVolume::start(&["--fs-backup-timeout", "25s"]);
    test.assert_next_run_succeeds("before");
    Holder::of(&test, &["--exclusive"]).kill();
    test.begin("orphaned");
    test.assert_failed("orphaned", &[&this_host()]);
    // Only restic's timeout of half an hour, or a user, may remove it.
    let unlock = test.repository();
    assert_eq!(unlock.ok(Engine::Restic, &["list", "locks", "--no-lock"]).lines().count(), 1);
    unlock.ok(Engine::Restic, &["unlock", "--remove-all"]);
    test.assert_next_run_succeeds("after");
}

#[test]
fn a_reader_elsewhere_keeps_no_copy_waiting_and_keeps_its_lock() {
    let test = OneVolume::start(&[]);
    test.assert_next_run_succeeds("before");
    let holder = Holder::of(&test, &[]);
    test.assert_backup_succeeds("beside");
    let locks = test.repository().ok(Engine::Restic, &["list", "locks", "--no-lock"]);
    assert_eq!(locks.lines().count(), 1, "{locks}");
    holder.let_go();
    test.assert_no_lock();
}

#[test]
fn a_wrong_password_fails_the_volume_with_a_message_and_the_right_one_fixes_it() {
    let test = OneVolume::start(&[]);
    test.assert_next_run_succeeds("before");
    let password = test.server.password();
    test.server.set_password("another");
    test.begin("wrong");
    test.assert_failed("wrong", &["password"]);
    test.server.set_password(&password);
    test.assert_next_run_succeeds("after");
}

#[test]
fn maintenance_frees_the_space_of_deleted_backups() {
    let test = OneVolume::start(&[]);
    let large = test.directory().join("only-in-first");
    fs::write(&large, random(8 << 20)).unwrap();
    test.assert_next_run_succeeds("first");
    fs::remove_file(&large).unwrap();
    test.assert_next_run_succeeds("second");
    test.server.lifeboat().args(["backup", "delete", "first", "--confirm", "--wait"]).ok();
    let repositories = test.server.lifeboat().args(["repo", "get"]).ok();
    assert!(repositories.contains("Ready"), "{repositories}");
    test.server.lifeboat().args(["repo", "maintain", "--all", "--wait"]).ok();
    let repository = get(&["-n", &test.server.namespace, "backuprepositories"])["items"][0].clone();
    assert_eq!(repository["status"]["recentMaintenance"][0]["result"], "Succeeded", "{repository}");
    test.server.no_mover_is_left();
    test.assert_next_run_succeeds("third");
}
