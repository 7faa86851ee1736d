//! Streams from a pipe or a command. A failed producer leaves no snapshot wherever the failure can be detected.

use std::io::Write;

use rstest::rstest;

use super::bench::{Bench, code, piped, stderr, stdout, with_input};

#[test]
fn standard_input_becomes_one_file_and_comes_back_byte_for_byte() {
    let bench = Bench::new();
    let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut command = bench.command(["backup", "--stdin", "--stdin-filename", "dump.sql"]);
    let output = with_input(&mut command, &content);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let dumped = bench.lifeboat(["dump", "latest", "dump.sql"]);
    assert_eq!(code(&dumped), 0, "{}", stderr(&dumped));
    assert!(dumped.stdout == content);
    assert_eq!(bench.snapshots()[0]["paths"], serde_json::json!(["/dump.sql"]));
}

#[test]
fn empty_input_is_an_error_unless_it_is_allowed() {
    let bench = Bench::new();
    let output = with_input(&mut bench.command(["backup", "--stdin"]), b"");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("empty"), "{}", stderr(&output));
    assert!(bench.snapshots().is_empty());
    let output = with_input(&mut bench.command(["backup", "--stdin", "--allow-empty-input"]), b"");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(bench.snapshots().len(), 1);
}

/// A producer that fails after 0, 1 and many bytes, by its exit code and by a signal.
#[rstest]
#[case("exit 1")]
#[case("printf x; exit 1")]
#[case("head -c 20000000 /dev/urandom; exit 1")]
#[case("kill -KILL $$")]
#[case("printf x; kill -KILL $$")]
#[case("head -c 20000000 /dev/urandom; kill -KILL $$")]
#[case("exec /nonexistent/program")]
fn a_command_that_fails_leaves_no_snapshot(#[case] script: &str) {
    let bench = Bench::new();
    let output = bench.lifeboat(["backup", "--stdin-from-command", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(bench.snapshots().is_empty());
    assert_eq!(bench.locks(), 0);
}

#[test]
fn the_output_of_a_command_that_ends_well_is_a_snapshot() {
    let bench = Bench::new();
    let arguments =
        ["backup", "--stdin-filename", "out", "--stdin-from-command", "--", "printf", "a%s", "-b"];
    let output = bench.lifeboat(arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&bench.lifeboat(["dump", "latest", "/out"])), "a-b");
}

/// The documented limit of a plain pipe: the reader sees the end of the input, not whether the producer failed.
#[test]
fn in_a_plain_pipe_the_failure_of_the_left_side_is_not_seen() {
    let bench = Bench::new();
    let mut child = piped(&mut bench.command(["backup", "--stdin"]));
    child.stdin.take().unwrap().write_all(b"half of").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(bench.snapshots().len(), 1);
}

#[test]
fn without_a_terminal_a_missing_password_is_an_error_that_names_the_flags() {
    let bench = Bench::new();
    let mut command = bench.command(["backup", "--stdin"]);
    let output = with_input(command.env_remove("RESTIC_PASSWORD"), b"data");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--password-file"), "{}", stderr(&output));
}

#[test]
fn an_interrupted_backup_ends_with_130_and_gives_its_lock_back() {
    let bench = Bench::new();
    let mut child = piped(&mut bench.command(["backup", "--stdin"]));
    let mut input = child.stdin.take().unwrap();
    // More than a pipe buffers, so that the backup is running (and holds its lock) when the write returns.
    input.write_all(&vec![7; 1 << 20]).unwrap();
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert_eq!(bench.locks(), 0);
    assert!(bench.snapshots().is_empty());
}

#[test]
fn an_interrupted_backup_ends_its_silent_command_and_gives_its_lock_back() {
    let bench = Bench::new();
    let script = "sleep 1000 & echo $! > process; wait";
    let child = piped(&mut bench.command(["backup", "--stdin-from-command", "--", "sh", "-c", script]));
    let process = || std::fs::read_to_string(bench.path("process")).unwrap_or_default().trim().to_owned();
    while process().is_empty() {
        std::thread::yield_now();
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert_eq!(bench.locks(), 0);
    let is_alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while is_alive() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(!is_alive(), "what the command started is gone");
}

#[test]
fn an_interrupted_command_leaves_no_lock_even_while_it_takes_it() {
    let bench = Bench::new();
    let child = piped(&mut bench.command(["prune"]));
    // An exclusive lock is checked twice, with a pause between; the signal is sent in the pause.
    while bench.locks() == 0 {
        std::thread::yield_now();
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert!([0, 130].contains(&code(&output)), "it may have been faster: {}", stderr(&output));
    assert_eq!(bench.locks(), 0);
}
