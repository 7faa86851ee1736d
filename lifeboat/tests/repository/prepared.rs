//! Prepared snapshots: a snapshot is in the repository only after its commit, and a commit needs the lock under which
//! the backup ran.

use super::bench::{Bench, code, stderr, stdout, with_input};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lifeboat");

/// Runs a script under the repository's lock; `$L` is the program.
fn under_lock(bench: &Bench, script: &str) -> std::process::Output {
    let mut command = bench.command(["lock", "--", "sh", "-euc", script]);
    command.env("L", PROGRAM).env("F", bench.path("prepared")).output().unwrap()
}

const PREPARE: &str = "printf data | LIFEBOAT_PREPARED_SNAPSHOT=$F $L repository backup --stdin -q";

#[test]
fn a_prepared_snapshot_is_there_only_after_its_commit() {
    let bench = Bench::new();
    let script = format!("{PREPARE}; $L repository snapshots --json; $L repository commit $F");
    let output = under_lock(&bench, &script);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).starts_with("[]\n"), "{}", stdout(&output));
    assert_eq!(bench.snapshots().len(), 1);
    assert!(!bench.path("prepared").exists() && bench.locks() == 0);
}

#[test]
fn a_discarded_snapshot_never_comes_about() {
    let bench = Bench::new();
    let output = under_lock(&bench, &format!("{PREPARE}; $L repository discard $F"));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(bench.snapshots().is_empty() && !bench.path("prepared").exists());
}

#[test]
fn a_commit_after_the_lock_was_given_back_is_refused() {
    let bench = Bench::new();
    assert_eq!(code(&under_lock(&bench, PREPARE)), 0);
    let output = bench.lifeboat(["commit".as_ref(), bench.path("prepared").as_os_str()]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("lock"), "{}", stderr(&output));
    assert!(bench.snapshots().is_empty());
}

#[test]
fn a_snapshot_cannot_be_prepared_without_a_lock() {
    let bench = Bench::new();
    let mut command = bench.command(["backup", "--stdin"]);
    let output = with_input(command.env("LIFEBOAT_PREPARED_SNAPSHOT", bench.path("prepared")), b"data");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("lifeboat repository lock"), "{}", stderr(&output));
    assert!(!bench.path("prepared").exists());
}

#[test]
fn a_file_that_holds_a_prepared_snapshot_is_not_overwritten() {
    let bench = Bench::new();
    let output = under_lock(&bench, &format!("{PREPARE}; {PREPARE}"));
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("commit"), "{}", stderr(&output));
}

#[test]
fn commit_takes_only_what_a_backup_prepared() {
    let bench = Bench::new();
    std::fs::write(bench.path("prepared"), "{}").unwrap();
    let output = under_lock(&bench, "$L repository commit $F");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("contains no prepared snapshot"), "{}", stderr(&output));
    assert!(bench.path("prepared").exists());
}

#[test]
fn lock_ends_as_its_command_ends_and_leaves_no_lock() {
    let bench = Bench::new();
    for (script, expected) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        assert_eq!(code(&under_lock(&bench, script)), expected, "{script}");
        assert_eq!(bench.locks(), 0);
    }
    let output = bench.lifeboat(["lock", "--", "/nonexistent/command"]);
    assert_eq!(code(&output), 127);
    assert!(stderr(&output).contains("/nonexistent/command"), "{}", stderr(&output));
}

#[test]
fn under_an_exclusive_lock_others_end_with_11() {
    let bench = Bench::new();
    let mut command = bench.command(["lock", "--exclusive", "--", PROGRAM, "repository", "snapshots"]);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 11, "{}", stderr(&output));
    assert!(stderr(&output).contains("--retry-lock"), "{}", stderr(&output));
}

#[test]
fn a_signal_to_lock_reaches_its_command_and_the_lock_is_given_back() {
    use std::io::{BufRead, BufReader};
    let bench = Bench::new();
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done";
    let mut child = bench
        .command(["lock", "--", "sh", "-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), bench.locks()), ("ready\n", 1));
    let killed = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(bench.locks(), 0);
}

#[test]
fn a_backup_is_not_prepared_under_an_exclusive_lock_and_says_why() {
    let bench = Bench::new();
    let mut command = bench.command(["lock", "--exclusive", "--", "sh", "-euc", PREPARE]);
    let output = command.env("L", PROGRAM).env("F", bench.path("prepared")).output().unwrap();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("without `--exclusive`"), "{}", stderr(&output));
}

#[test]
fn the_example_of_the_docs_fails_when_the_producer_does() {
    let bench = Bench::new();
    let text = include_str!("../../../docs/repository.md");
    let start = text.find("lifeboat repository lock -- bash").unwrap();
    let script = &text[start..start + text[start..].find("```").unwrap()];
    let script = script.replace("lifeboat repository", "$L repository").replace("/tmp/snapshot", "$F");
    for (producer, expected, snapshots) in [("echo half; false", 1, 0), ("echo whole", 0, 1)] {
        let script = script.replace("pg_dump db", &format!("{{ {producer}; }}"));
        let mut command = bench.command(["snapshots"]);
        let settings: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command = std::process::Command::new("bash");
        command.args(["-c", &script]).envs(settings).env("L", PROGRAM).env("F", bench.path("prepared"));
        let output = command.output().unwrap();
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        assert_eq!((bench.snapshots().len(), bench.locks()), (snapshots, 0));
    }
}
