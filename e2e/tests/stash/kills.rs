//! The server is killed at each of its writes to the API server in a session, and at random; movers are killed while they restore. The end is
//! the same as without: the data is stored or back, once; or the workload is held down with everything that is needed to go back.

use std::fs;
use std::thread;
use std::time::Duration;

use lifeboat_e2e::tree::{Listing, Random};
use lifeboat_e2e::{
    Engine, Fault, RESTORE_SESSIONS, StashTest, condition, contents, lifeboat, mover_process, random, signal,
    wait_for,
};
use rstest::rstest;
use serde_json::Value;

use super::workloads::{deployment, into, member, put_deployment, put_stateful_set, target};

const CONFIGURATION: &str = "BackupConfiguration";
const BATCH: &str = "BackupBatch";
/// How often the server is killed at a random moment, and of one session at most.
const KILLS: usize = 50;
const AT_MOST: usize = 3;
/// About as long as a session of these tests takes, in milliseconds.
const LASTS: u64 = 8_000;
/// More writes than a session has.
const MOST_WRITES: usize = 120;
/// Restores whose mover is killed at a random moment.
const MOVER_KILLS: usize = 6;

/// Whether a request writes something that a session needs: into the tenant's namespace, or a reservation. Events are not needed.
fn is_write(tenant: &str) -> impl FnMut(&str, &str) -> bool + Send + use<> {
    let tenant = format!("/namespaces/{tenant}/");
    move |method, path| {
        let writes = ["POST", "PUT", "PATCH", "DELETE"].contains(&method);
        let of_session = path.contains(&tenant) || path.contains("lifeboat-stash-repository-");
        writes && of_session && !path.contains("/events") && !path.contains("dryRun")
    }
}

/// A server of its own, and a Deployment whose hooks note when they run; its Repository has been used once.
fn shop() -> (StashTest, Listing) {
    let test = StashTest::alone(&[]);
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    let hook = |text: &str| format!("{{exec: {{command: [sh, -c, 'echo {text} >> /tmp/hooks']}}}}");
    let hooks = format!("  hooks: {{preBackup: {}, postBackup: {}}}\n", hook("before"), hook("after"));
    test.put_configuration("web", &deployment("app", "web"), &hooks);
    test.run(CONFIGURATION, "web", "Succeeded");
    (test, before)
}

/// What the hooks have noted since the last time.
fn hooks(test: &StashTest) -> Vec<String> {
    let read = "cat /tmp/hooks; rm -f /tmp/hooks";
    let said = test.kubectl().args(["exec", "deployment/web", "--", "sh", "-c", read]).ok();
    said.lines().map(str::to_owned).collect()
}

fn is_over(object: &Value) -> bool {
    matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Skipped" | "Invalid"))
}

/// Kills the server when the write is reached that its gate waits for; false if the work ended before, with nothing left to clean up.
fn killed(test: &mut StashTest, object: impl Fn(&StashTest) -> Value) -> bool {
    let reached = wait_for("the write, or the end", 150, || {
        if test.server.cluster.is_reached() {
            return Ok(true);
        }
        if is_over(&object(test)) && test.left().is_empty() { Ok(false) } else { Err("it goes on") }
    });
    if reached {
        test.kill_server();
    } else {
        test.server.cluster.open();
    }
    reached
}

/// Each write is carried out, and the server dies before it hears of that; the first ones also before they are carried out.
#[rstest]
#[case::after_it_was_carried_out(Fault::HoldAnswer, MOST_WRITES)]
#[case::before_it_arrived(Fault::Hold, 4)]
fn a_server_killed_at_each_write_of_a_backup_ends_it_as_without(#[case] fault: Fault, #[case] most: usize) {
    let (mut test, before) = shop();
    hooks(&test);
    let mut writes = 0;
    for number in 0..most {
        let stored = test.backups("repo").len();
        test.server.cluster.close_where(fault.clone(), number, 1, is_write(&test.tenant.name));
        let session = test.begin(CONFIGURATION, "web");
        let was_killed = killed(&mut test, |test| test.session(&session));
        let ended = test.ended(&session);
        assert_eq!(ended["status"]["phase"], "Succeeded", "killed at write {number}: {:#}", ended["status"]);
        test.assert_nothing_is_left("repo");
        // Two stay by the policy; of one session there is one.
        assert_eq!(test.backups("repo").len(), (stored + 1).min(2), "killed at write {number}");
        // A hook that began before the kill may run twice; what it began is always ended.
        let steps = hooks(&test);
        let ends = (steps.first().map(String::as_str), steps.last().map(String::as_str));
        assert_eq!(ends, (Some("before"), Some("after")), "killed at write {number}: {steps:?}");
        writes = number;
        if !was_killed {
            break;
        }
    }
    assert!(writes >= most.min(8) - 1, "a session has more writes than {writes}");
    test.assert_stored("repo", "app", "/source/data", &before);
}

/// After each kill the next server goes on with the same step and the same snapshots: the data is back, and the workload runs. Two tests,
/// each with every second write, so that they run side by side.
#[rstest]
#[case::even(0)]
#[case::odd(1)]
fn a_server_killed_at_each_write_of_a_restore_in_place_brings_the_data_back(#[case] first: usize) {
    let (mut test, before) = shop();
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    let mut writes = 0;
    for number in (first..MOST_WRITES).step_by(2) {
        let name = format!("back-{number}");
        let directory = test.directory("web", 0, "data");
        fs::remove_dir_all(directory.join("own")).unwrap();
        fs::write(directory.join("which"), format!("damaged {number}")).unwrap();
        test.server.cluster.close_where(Fault::HoldAnswer, number, 1, is_write(&test.tenant.name));
        test.restore(&name, &spec, "");
        let was_killed = killed(&mut test, |test| test.restore_now(RESTORE_SESSIONS, &name));
        let back = test.restored_as(RESTORE_SESSIONS, &name, "Succeeded");
        assert_eq!(back["status"]["standstill"]["step"], "Started", "killed at write {number}");
        test.wait_for_ready("web", 1);
        assert_eq!(test.replicas("deployments", "web"), 1, "killed at write {number}");
        before
            .assert_same(&contents(&test.directory("web", 0, "data")), &format!("killed at write {number}"));
        assert_whole_safety_copy(&test, &back, &format!("damaged {number}"));
        test.assert_nothing_is_left("repo");
        test.delete(&[RESTORE_SESSIONS, &name]);
        writes = number;
        if !was_killed {
            break;
        }
    }
    assert!(writes >= 8, "a restore has more writes than {writes}");
}

/// The copy that a restore names has what was there before it.
fn assert_whole_safety_copy(test: &StashTest, restore: &Value, which: &str) {
    let copies = restore["status"]["stats"][0]["safetyCopies"].as_array().cloned().unwrap_or_default();
    assert_eq!(copies.len(), 1, "{:#}", restore["status"]);
    let id = copies[0]["name"].as_str().unwrap();
    let dump = ["dump", id, "/source/data/which", "--no-lock"];
    assert_eq!(test.repository("repo").ok(Engine::Restic, &dump), which);
}

/// Storage holds all reads of data after the next snapshot is stored, which is the safety copy: the restore's own.
fn hold_reads_after_the_safety_copy(test: &StashTest) {
    let mut is_copied = false;
    test.storage.close_where(Fault::Hold, 0, usize::MAX, move |method, path| {
        is_copied |= method == "PUT" && path.contains("/snapshots/");
        is_copied && method == "GET" && path.contains("/data/")
    });
}

/// Kills every mover of the restore while storage holds what it reads.
fn kill_movers(test: &StashTest, restore: &str) {
    test.storage.wait_until_reached(120);
    let mut killed: Vec<String> = Vec::new();
    wait_for("the end of the restore", 180, || {
        let found = test.restore_now(RESTORE_SESSIONS, restore);
        if is_over(&found) {
            return Ok(());
        }
        if let Some(pod) = newest_mover(test, &killed) {
            signal("-KILL", &mover_process(&pod));
            killed.push(uid(&pod));
        }
        Err(found["status"].to_string())
    });
    assert_eq!(killed.len(), 2, "a mover that was killed is followed by one other");
}

/// The mover that was made last, if it runs and is not one of these.
fn newest_mover(test: &StashTest, but: &[String]) -> Option<Value> {
    let mut movers = test.movers();
    movers.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].to_string());
    movers.pop().filter(|pod| pod["status"]["phase"] == "Running" && !but.contains(&uid(pod)))
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn ids(test: &StashTest) -> Vec<String> {
    test.backups("repo").iter().map(|one| one["id"].to_string()).collect()
}

/// A Deployment that is backed up, and then changed; gives what it has now, which a rollback gives back.
fn changed_after_its_backup(test: &StashTest) -> Listing {
    test.put_repository("repo");
    put_deployment(test, "web");
    let directory = test.directory("web", 0, "data");
    fs::write(directory.join("large"), random(24 << 20)).unwrap();
    test.put_configuration("web", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "web", "Succeeded");
    change(test, "of today")
}

fn change(test: &StashTest, which: &str) -> Listing {
    let directory = test.directory("web", 0, "data");
    fs::write(directory.join("which"), which).unwrap();
    fs::write(directory.join("large"), which).unwrap();
    contents(&directory)
}

#[test]
fn a_restore_whose_movers_are_killed_holds_the_workload_down_and_a_rollback_gives_the_old_bytes() {
    let test = StashTest::start();
    let today = changed_after_its_backup(&test);
    let good = ids(&test);
    hold_reads_after_the_safety_copy(&test);
    test.restore("back", &format!("  target: {}", into("app", "Deployment", "web")), "");
    kill_movers(&test, "back");
    test.storage.open();
    let failed = test.restored_as(RESTORE_SESSIONS, "back", "Failed");
    assert_eq!(failed["status"]["standstill"]["step"], "HeldDown", "{:#}", failed["status"]);
    assert_eq!(condition(&failed, "WorkloadStarted").0, "False");
    assert_eq!(test.replicas("deployments", "web"), 0);
    assert_whole_safety_copy(&test, &failed, "of today");
    test.assert_nothing_is_left("repo");

    // Ten due times pass; no good snapshot goes, and none is made of half-restored data.
    let often = r#"{"spec": {"schedule": "@every 3s", "retentionPolicy": {"keepLast": 1}}}"#;
    test.patch("backupconfiguration", "web", often);
    wait_for("ten due times", 120, || {
        let sessions = test.sessions();
        let in_phase = |phase: &str| sessions.iter().filter(|one| one["status"]["phase"] == phase).count();
        assert_eq!(in_phase("Succeeded"), 1, "a backup ran on half-restored data");
        if in_phase("Skipped") >= 10 { Ok(()) } else { Err(format!("{} were skipped", in_phase("Skipped"))) }
    });
    test.patch("backupconfiguration", "web", r#"{"spec": {"schedule": "0 3 1 1 *"}}"#);
    assert_eq!(ids(&test), good, "no good snapshot is gone");

    roll_back(&test, "back");
    today.assert_same(&contents(&test.directory("web", 0, "data")), "rolled back");
    test.wait_until_idle();
    test.run(CONFIGURATION, "web", "Succeeded");
    test.assert_nothing_is_left("repo");
}

fn roll_back(test: &StashTest, restore: &str) {
    let argument = format!("restoresession/{restore}");
    lifeboat().args(["stash", "rollback", &argument, "-n", &test.tenant.name, "--wait"]).ok();
    test.wait_for_ready("web", 1);
}

/// The restore's mover is killed once at any moment of the restore, also while it writes: another one completes the work, or the workload is
/// down and can go back.
#[test]
fn a_restore_survives_kills_of_its_mover_at_random_moments() {
    let seed = std::env::var("LIFEBOAT_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut moments = Random::new(seed);
    let test = StashTest::start();
    changed_after_its_backup(&test);
    let stored = ids(&test);
    for round in 0..MOVER_KILLS {
        let today = change(&test, &format!("of round {round}"));
        let name = format!("back-{round}");
        test.restore(&name, &format!("  target: {}", into("app", "Deployment", "web")), "");
        let first = wait_for("a mover", 90, || newest_mover(&test, &[]).ok_or("there is none"));
        thread::sleep(Duration::from_millis(moments.next() % 3_000));
        // It may be the one of the safety copy, that of the restore, or none any more.
        let killed = newest_mover(&test, &[]).is_some_and(|pod| kill_if_it_runs(&pod));
        let what = format!("seed {seed}, round {round}, after {}, killed: {killed}", uid(&first));
        let back = test.restored(RESTORE_SESSIONS, &name);
        let is_held = back["status"]["standstill"]["step"] == "HeldDown";
        if is_held {
            assert_whole_safety_copy(&test, &back, &format!("of round {round}"));
            roll_back(&test, &name);
        }
        test.wait_for_ready("web", 1);
        let found = contents(&test.directory("web", 0, "data"));
        if back["status"]["phase"] == "Failed" {
            // What the snapshot had and was not there before stays.
            let lost = today.differences(&found).into_iter().find(|line| !line.ends_with("is extra"));
            assert_eq!(lost, None, "{what}, held down: {is_held}");
        } else {
            assert_eq!(back["status"]["phase"], "Succeeded", "{what}: {:#}", back["status"]);
            let large = fs::read(test.directory("web", 0, "data").join("large")).unwrap();
            assert!(large == random(24 << 20), "{what}");
        }
        assert_eq!(ids(&test), stored, "{what}: the backups are as they were");
        test.assert_nothing_is_left("repo");
    }
}

/// Kills the process of a mover; false if it has ended already.
fn kill_if_it_runs(pod: &Value) -> bool {
    let uid = uid(pod);
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mine = pids.find(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&format!("LIFEBOAT_POD_UID={uid}"))
    });
    mine.is_some_and(|pid| lifeboat_e2e::Program::new("kill").args(["-KILL", &pid]).run().code == 0)
}

/// Backups of three hosts, by a server that is killed up to three times in each.
#[test]
fn backups_survive_kills_of_the_server_at_random_moments() {
    let seed = std::env::var("LIFEBOAT_SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut moments = Random::new(seed);
    let mut test = StashTest::alone(&[]);
    test.put_repository("repo");
    put_deployment(&test, "web");
    put_stateful_set(&test, "db");
    let members = [member(&target("db", "apps/v1", "StatefulSet", "db")), member(&deployment("app", "web"))];
    test.put_batch("all", &members, "");
    test.wait_for_phase(BATCH, "all", "Ready");
    let (mut kills, mut sessions) = (0, 0);
    while kills < KILLS {
        let watched = test.undisturbed();
        // Something new to upload.
        fs::write(test.directory("web", 0, "data").join("news"), format!("session {sessions}")).unwrap();
        let before = contents(&test.directory("web", 0, "data"));
        let session = test.begin(BATCH, "all");
        for _ in 0..AT_MOST {
            thread::sleep(Duration::from_millis(moments.next() % LASTS));
            test.kill_server();
            kills += 1;
            if is_over(&test.session(&session)) {
                break;
            }
        }
        let ended = test.ended(&session);
        let what = format!("seed {seed}, {kills} kills");
        assert_eq!(ended["status"]["phase"], "Succeeded", "{what}: {:#}", ended["status"]);
        sessions += 1;
        test.assert_nothing_is_left("repo");
        assert_eq!(test.backups("repo").len(), 3 * sessions.min(5), "{what}: each host is stored once");
        test.assert_stored("repo", "app", "/source/data", &before);
        watched.assert_unchanged();
    }
    test.repository("repo").ok(Engine::Restic, &["check", "--read-data", "--no-lock"]);
}
