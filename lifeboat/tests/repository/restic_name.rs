//! The program under the name `restic`: restic's command line, and the short forms for pipes.

use std::process::Stdio;

use rstest::rstest;

use super::bench::{Bench, code, stderr, stdout, with_input};

#[test]
fn the_short_forms_read_and_write_a_pipe() {
    let bench = Bench::new();
    let output = with_input(&mut bench.restic_command(["backup"]), b"create table t;");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(bench.snapshots()[0]["paths"], serde_json::json!(["/stdin"]));
    let restored = bench.restic(["restore"]);
    assert_eq!(code(&restored), 0, "{}", stderr(&restored));
    assert_eq!(stdout(&restored), "create table t;");
}

#[test]
fn a_restore_into_a_pipe_takes_only_the_snapshot_of_a_stream() {
    let bench = Bench::new();
    assert_eq!(code(&bench.restic(["backup", "data"])), 0);
    let output = bench.restic(["restore"]);
    assert_eq!((code(&output), stdout(&output)), (1, String::new()));
    assert!(stderr(&output).contains("--target"), "{}", stderr(&output));
}

#[test]
fn without_a_pipe_the_short_forms_are_refused_as_restic_refuses_them() {
    let bench = Bench::new();
    let output = bench.restic(["backup"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("nothing to back up"), "{}", stderr(&output));
    let file = std::fs::File::create(bench.path("out")).unwrap();
    let output = bench.restic_command(["restore", "latest"]).stdout(Stdio::from(file)).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--target"), "{}", stderr(&output));
}

#[test]
fn lifeboat_itself_reads_a_pipe_only_if_asked_to() {
    let bench = Bench::new();
    let output = with_input(&mut bench.command(["backup"]), b"data");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--stdin"), "{}", stderr(&output));
}

#[rstest]
#[case(&["backup", "data", "--tag", "a,b", "-H", "web", "-o", "local.connections=3"])]
#[case(&["-q", "backup", "data", "-x", "-e", "*.tmp", "--json"])]
#[case(&["snapshots", "--json", "--latest", "1", "-g", "host"])]
#[case(&["forget", "-l", "1", "-H", "2", "-d", "3", "--keep-within", "1y", "-n"])]
#[case(&["prune", "-n", "--max-unused", "unlimited"])]
#[case(&["check", "--read-data-subset", "1/2"])]
#[case(&["unlock"])]
#[case(&["key", "list"])]
#[case(&["version"])]
#[case(&["generate", "--bash-completion", "-"])]
#[case(&["stats", "--mode", "raw-data"])]
fn restics_flags_are_understood(#[case] arguments: &[&str]) {
    let bench = Bench::new();
    let output = bench.restic(arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[rstest]
#[case("mount", "restore --include")]
#[case("self-update", "update Lifeboat")]
#[case("recover", "restic itself")]
fn what_is_missing_says_what_to_use_instead(#[case] command: &str, #[case] instead: &str) {
    let bench = Bench::without_repository();
    let output = bench.restic([command, "--whatever", "x"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains(instead), "{}", stderr(&output));
}

#[test]
fn wrong_usage_ends_with_1_and_names_the_right_flag() {
    let bench = Bench::without_repository();
    let output = bench.restic(["backup", "--exclude-fil", "x", "data"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--exclude-file"), "{}", stderr(&output));
}

#[rstest]
#[case(&["key"], "passwd")]
#[case(&["repair"], "index")]
#[case(&[], "backup")]
fn a_command_without_its_subcommand_shows_help(#[case] arguments: &[&str], #[case] word: &str) {
    let output = Bench::without_repository().restic(arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains(word), "{}", stdout(&output));
}

#[test]
fn flags_may_be_repeated_and_lists_of_ids_are_lines() {
    let bench = Bench::new();
    assert_eq!(code(&bench.restic(["backup", "data", "-q"])), 0);
    let output = bench.restic(["forget", "--keep-last", "2", "--keep-last", "1", "--compact", "-c"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let id = bench.snapshots()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(stdout(&bench.restic(["list", "snapshots", "--json"])), format!("{id}\n"));
}
