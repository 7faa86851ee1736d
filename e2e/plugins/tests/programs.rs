//! Programs that are not plugins, or not for this host: each becomes a problem with a message, and no process is left.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use lifeboat_plugin::host::Kind;
use lifeboat_test_plugins::Plugins;
use rstest::rstest;
use tokio::io::{AsyncBufReadExt, BufReader};

const MISBEHAVING: &str = env!("CARGO_BIN_EXE_misbehaving");

#[rstest]
#[case::no_plugin("echo hello; sleep 1000", "it printed \"hello\"")]
#[case::garbage("head -c 100000 /dev/zero; sleep 1000", "where a plugin prints its address")]
#[case::wrong_cookie(
    "test \"$OTHER\" = x || { echo 'This binary is a plugin. These are not meant to be executed directly.' >&2; exit 1; }",
    "another host"
)]
#[case::wrong_protocol("echo '1|1|unix|/tmp/x|grpc|'; sleep 1000", "version 1 of Velero's plugin protocol")]
#[case::wrong_core("echo '9|2|unix|/tmp/x|grpc|'; sleep 1000", "version 9 of go-plugin's protocol")]
#[case::no_socket(
    "echo '1|2|unix|/nonexistent/socket|grpc|'; sleep 1000",
    "'/nonexistent/socket' cannot be used"
)]
#[case::exits_at_once("exit 0", "it ended at once (exit status: 0) without output")]
#[case::exits_with_output("echo 'no config' >&2; exit 3", "exit status: 3")]
#[case::is_killed("kill -9 $$", "signal: 9")]
#[tokio::test]
async fn a_program_that_is_no_plugin_is_a_problem_with_a_message(#[case] script: &str, #[case] reason: &str) {
    let plugins = Plugins::new().with_script("a", script).with("b", MISBEHAVING);
    let host = plugins.host().await;
    assert_eq!(host.problems().len(), 1, "{:?}", host.problems());
    let message = &host.problems()[0].message;
    assert!(message.contains(reason) && message.contains("/plugins/a'"), "{message}");
    assert!(host.find(Kind::ObjectStore, "example.io/misbehaving").is_some(), "the others are there");
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_program_that_hangs_ends_at_its_timeout() {
    let mut plugins = Plugins::new().with_script("hangs", "sleep 1000");
    plugins.settings.timeouts.start = Duration::from_millis(300);
    let begin = Instant::now();
    let host = plugins.host().await;
    assert!(begin.elapsed() < Duration::from_secs(20));
    let message = &host.problems()[0].message;
    assert!(message.contains("sent no plugin handshake within 300ms"), "{message}");
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_program_that_floods_standard_error_costs_nothing() {
    let mut plugins = Plugins::new().with_script("floods", "yes 'endless output' >&2");
    plugins.settings.timeouts.start = Duration::from_secs(1);
    let host = plugins.host().await;
    assert!(host.problems()[0].message.contains("sent no plugin handshake"), "{:?}", host.problems());
    plugins.nothing_left().await;
}

/// A program for a loader that no image has: based on the machine's shell, because our own programs are linked
/// statically.
fn program_with_loader(loader: &str) -> Vec<u8> {
    let mut program = std::fs::read("/bin/sh").unwrap();
    let known = b"/lib64/ld-linux-x86-64.so.2";
    let at = program.windows(known.len()).position(|window| window == known).expect("a dynamic program");
    program[at..at + known.len()].fill(0);
    program[at..at + loader.len()].copy_from_slice(loader.as_bytes());
    program
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_program_whose_loader_is_missing_says_so() {
    let plugins = Plugins::new().with_file("glibc", program_with_loader("/lib/ld-nowhere.so.1"));
    let host = plugins.host().await;
    let message = &host.problems()[0].message;
    assert!(message.contains("needs the dynamic loader '/lib/ld-nowhere.so.1'"), "{message}");
    assert!(message.contains("static build"), "{message}");
}

#[tokio::test]
async fn files_that_no_machine_runs_are_named() {
    let plugins = Plugins::new()
        .with_file("archive", b"PK\x03\x04 not a program")
        .with_file("script", b"#!/opt/python\nprint()")
        .with_file("nothing", b"");
    let host = plugins.host().await;
    let all: Vec<_> = host.problems().iter().map(|problem| problem.message.as_str()).collect();
    assert!(all[0].contains("neither a Linux program nor a script"), "{all:?}");
    assert!(all[1].contains("the file is empty"), "{all:?}");
    assert!(all[2].contains("'/opt/python'"), "{all:?}");
}

#[tokio::test]
async fn two_programs_with_the_same_plugins_are_both_named_and_neither_is_used() {
    let plugins = Plugins::new().with("one", MISBEHAVING).with("two", MISBEHAVING);
    let host = plugins.host().await;
    assert!(host.plugins().is_empty());
    let message = &host.problems()[0].message;
    assert!(message.contains("/plugins/one' and '") && message.contains("/plugins/two'"), "{message}");
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_directory_that_is_not_there_has_no_plugins() {
    let mut plugins = Plugins::new();
    plugins.settings.directory = plugins.path().join("nowhere");
    let host = plugins.host().await;
    assert!(host.plugins().is_empty() && host.problems().is_empty());
}

#[tokio::test]
async fn a_plugin_gets_its_flags_and_never_a_repository_password() {
    let script = "echo \"$@\" > \"$TMPDIR/seen\"; env >> \"$TMPDIR/seen\"; exit 1";
    let mut plugins = Plugins::new().with_script("curious", script);
    let server = [("RESTIC_PASSWORD", "secret"), ("AWS_REGION", "eu"), ("PLUGIN_CLIENT_CERT", "x")];
    let server = server.map(|(name, value)| (name.into(), value.into()));
    plugins.settings.environment.extend(lifeboat_plugin::host::plugin_environment(server));
    plugins.host().await;
    let seen = std::fs::read_to_string(plugins.path().join("seen")).unwrap();
    assert!(seen.starts_with("--log-level=debug --features=EnableCSI\n"), "{seen}");
    for wanted in
        ["VELERO_PLUGIN=hello", "PLUGIN_PROTOCOL_VERSIONS=2", "PLUGIN_MIN_PORT=10000", "AWS_REGION=eu"]
    {
        assert!(seen.contains(wanted), "{wanted} is not in {seen}");
    }
    assert!(!seen.contains("secret") && !seen.contains("PLUGIN_CLIENT_CERT"), "{seen}");
}

#[tokio::test]
async fn no_plugin_outlives_a_server_that_is_killed() {
    let plugins = Plugins::new().with("p", MISBEHAVING);
    let mut server = tokio::process::Command::new(env!("CARGO_BIN_EXE_hosting"))
        .arg(&plugins.settings.directory)
        .env_clear()
        .envs(plugins.settings.environment.iter().cloned())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut line).await.unwrap();
    assert!(line.starts_with("Ok("), "{line}");
    assert_eq!(plugins.processes().len(), 2, "the server and its plugin");
    server.kill().await.unwrap();
    for _ in 0..500 {
        if plugins.processes().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the plugin outlived its server");
}
