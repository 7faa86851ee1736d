//! Commands, exit codes and output.

mod content;

use std::process::Stdio;

use rstest::rstest;
use serde_json::{Value, json};

use super::bench::{Bench, code, messages, stderr, stdout};

#[test]
fn what_was_backed_up_is_restored() {
    let bench = Bench::new();
    let output = bench.lifeboat(["backup", "data", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let summary = messages(&output).pop().unwrap();
    assert_eq!((&summary["message_type"], &summary["files_new"]), (&json!("summary"), &json!(1)));
    let id = summary["snapshot_id"].as_str().unwrap();
    assert_eq!(bench.snapshots()[0]["id"], id);
    let selection = format!("{}:/data", &id[..8]);
    let output = bench.lifeboat(["restore", &selection, "--target", "out", "--verify", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(messages(&output).pop().unwrap()["message_type"], "summary");
    assert_eq!(std::fs::read_to_string(bench.path("out/file")).unwrap(), "content");
    assert_eq!(bench.locks(), 0);
}

#[test]
fn a_path_that_is_missing_makes_the_backup_incomplete() {
    let bench = Bench::new();
    let output = bench.lifeboat(["backup", "data", "missing"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("missing"), "{}", stderr(&output));
    assert_eq!(bench.snapshots().len(), 1);
    assert_eq!(code(&bench.lifeboat(["backup", "missing"])), 1);
    assert_eq!(bench.snapshots().len(), 1);
}

#[test]
fn exit_codes_are_restics() {
    let bench = Bench::without_repository();
    for arguments in [["snapshots"].as_slice(), &["backup", "data"], &["check"], &["unlock"]] {
        assert_eq!(code(&bench.lifeboat(arguments)), 10, "{arguments:?}");
    }
    assert_eq!(code(&bench.lifeboat(["init"])), 0);
    assert_eq!(code(&bench.lifeboat(["init"])), 1);
    let output = bench.command(["snapshots"]).env("RESTIC_PASSWORD", "wrong").output().unwrap();
    assert_eq!(code(&output), 12, "{}", stderr(&output));
    assert_eq!(code(&bench.lifeboat(["restore", "latest", "--target", "x"])), 1);
    assert_eq!(code(&bench.lifeboat(["backup", "--no-such-flag"])), 2);
}

#[test]
fn with_json_the_error_is_json_as_well() {
    let bench = Bench::without_repository();
    let output = bench.lifeboat(["snapshots", "--json"]);
    assert_eq!((code(&output), stdout(&output)), (10, String::new()));
    let error: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
    assert_eq!((&error["message_type"], &error["code"]), (&json!("exit_error"), &json!(10)));
}

#[test]
fn without_a_repository_or_password_the_error_says_how_to_give_one() {
    let bench = Bench::new();
    let output = bench.command(["snapshots"]).env_remove("RESTIC_REPOSITORY").output().unwrap();
    assert!(code(&output) == 1 && stderr(&output).contains("--repo"), "{}", stderr(&output));
    let output = bench.command(["snapshots"]).env_remove("RESTIC_PASSWORD").output().unwrap();
    assert!(code(&output) == 1 && stderr(&output).contains("--password-file"), "{}", stderr(&output));
}

#[test]
fn the_repository_and_its_password_are_named_in_every_way_of_restic() {
    let bench = Bench::new();
    std::fs::write(bench.path("password"), "a password\n").unwrap();
    std::fs::write(bench.path("location"), format!("{}\n", bench.path("repo").display())).unwrap();
    let bare = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.env_remove("RESTIC_PASSWORD").env_remove("RESTIC_REPOSITORY").output().unwrap()
    };
    for arguments in [
        ["-r", "repo", "-p", "password", "snapshots"].as_slice(),
        &["snapshots", "--repo", "repo", "--password-file", "password"],
        &["snapshots", "--repository-file", "location", "--password-command", "echo 'a password'"],
        &["snapshots", "--repo", "local:repo", "--password-file", "password"],
    ] {
        let output = bare(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    }
    let output = bare(&["snapshots", "-r", "repo", "--password-command", "false"]);
    assert!(code(&output) == 1 && stderr(&output).contains("'false'"), "{}", stderr(&output));
}

#[test]
fn keys_are_added_used_changed_and_removed() {
    let bench = Bench::new();
    std::fs::write(bench.path("second"), "second").unwrap();
    std::fs::write(bench.path("third"), "third").unwrap();
    let as_ = |password: &str, arguments: &[&str]| {
        bench.command(arguments).env("RESTIC_PASSWORD", password).output().unwrap()
    };
    assert_eq!(code(&as_("a password", &["key", "add", "--new-password-file", "second", "--host", "h"])), 0);
    let keys: Vec<Value> = serde_json::from_slice(&as_("second", &["key", "list", "--json"]).stdout).unwrap();
    assert_eq!(keys.len(), 2);
    let current = keys.iter().find(|key| key["current"] == true).unwrap();
    assert_eq!(current["hostName"], "h");
    let first = keys.iter().find(|key| key["current"] == false).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(code(&as_("a password", &["key", "remove", &first[..8]])), 1, "the key in use stays");
    assert_eq!(code(&as_("second", &["key", "remove", &first[..8]])), 0);
    assert_eq!(code(&as_("a password", &["snapshots"])), 12);
    assert_eq!(code(&as_("second", &["key", "passwd", "--new-password-file", "third"])), 0);
    assert_eq!(code(&as_("second", &["snapshots"])), 12);
    assert_eq!(code(&as_("third", &["snapshots"])), 0);
}

#[test]
fn forget_and_prune_free_the_space_at_once_only_with_grace_0() {
    let bench = Bench::new();
    for content in ["one", "two", "three"] {
        std::fs::write(bench.path("data/file"), content).unwrap();
        assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    }
    let output = bench.lifeboat(["forget", "--keep-last", "1", "--json"]);
    let groups: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (groups[0]["keep"].as_array().unwrap().len(), groups[0]["remove"].as_array().unwrap().len()),
        (1, 2)
    );
    assert_eq!(bench.snapshots().len(), 1);
    let packs = || stdout(&bench.lifeboat(["list", "packs"])).lines().count();
    let before = packs();
    assert_eq!(code(&bench.lifeboat(["prune"])), 0);
    assert!(packs() >= before, "packs wait for their grace time");
    assert_eq!(code(&bench.lifeboat(["prune", "--grace", "0"])), 0);
    assert!(packs() < before);
    assert_eq!(code(&bench.lifeboat(["check", "--read-data"])), 0);
}

#[test]
fn check_finds_a_damaged_pack() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    let id = stdout(&bench.lifeboat(["list", "packs"])).lines().next().unwrap().to_owned();
    let pack = bench.path(&format!("repo/data/{}/{id}", &id[..2]));
    let mut content = std::fs::read(&pack).unwrap();
    content[5] ^= 1;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, content).unwrap();
    let output = bench.lifeboat(["check", "--read-data", "--json"]);
    assert_eq!(code(&output), 1);
    assert!(messages(&output).pop().unwrap()["num_errors"].as_u64().unwrap() > 0);
    assert!(stderr(&output).contains(&id[..8]), "{}", stderr(&output));
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = Bench::new();
    let output = bench.lifeboat(["backup", "data", "-n"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(bench.snapshots().is_empty() && stdout(&bench.lifeboat(["list", "packs"])).is_empty());
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let bench = Bench::new();
    let output = bench.command(["backup", "data"]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(stderr(&output), "");
    assert!(!stdout(&output).contains('\u{1b}') && stdout(&output).contains("saved"), "{}", stdout(&output));
}

/// Help describes the command and never shows the cluster's flags, of which -n would be taken for a dry run.
#[rstest]
#[case("init")]
#[case("backup")]
#[case("restore")]
#[case("forget")]
#[case("prune")]
#[case("check")]
#[case("lock")]
fn help_of_repository_commands_has_no_flags_of_the_cluster(#[case] command: &str) {
    let bench = Bench::without_repository();
    let help = stdout(&bench.lifeboat([command, "--help"]));
    assert!(
        help.contains("--repo <LOCATION>") && help.contains(&format!("lifeboat repository {command}")),
        "{help}"
    );
    assert!(!help.contains("kubeconfig") && !help.contains("--namespace"), "{help}");
}

/// A lock that is not released would block every prune for half an hour.
#[test]
fn a_reader_that_goes_away_leaves_no_lock() {
    let bench = Bench::new();
    for number in 0..2000 {
        std::fs::write(bench.path(&format!("data/a-name-that-fills-the-pipe-{number}")), "").unwrap();
    }
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    let mut child =
        bench.command(["ls", "latest"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output).contains("×")), (141, false), "{}", stderr(&output));
    assert_eq!(bench.locks(), 0);
}

#[test]
fn a_repository_without_a_password_is_made_and_opened_only_with_the_flag() {
    let bench = Bench::without_repository();
    let without =
        |arguments: &[&str]| bench.command(arguments).env_remove("RESTIC_PASSWORD").output().unwrap();
    assert_eq!(code(&without(&["init"])), 1);
    assert!(!bench.path("repo/config").exists());
    let output = without(&["init", "--insecure-no-password"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(code(&without(&["snapshots"])), 1);
    assert_eq!(code(&without(&["snapshots", "--insecure-no-password"])), 0);
    std::fs::write(bench.path("second"), "second").unwrap();
    let no_password = "--insecure-no-password";
    assert_eq!(code(&without(&["key", "passwd", "--new-password-file", "second", no_password])), 0);
    assert_eq!(code(&without(&["snapshots", no_password])), 12);
    let second = ["--password-file", "second"];
    let with = |arguments: &[&str]| without(&[arguments, second.as_slice()].concat());
    assert_eq!(code(&with(&["key", "add", "--new-insecure-no-password"])), 0);
    assert_eq!(code(&without(&["snapshots", no_password])), 0);
    assert_eq!(code(&with(&["key", "passwd", "--new-insecure-no-password"])), 0);
    assert_eq!(code(&with(&["snapshots"])), 12);
}

#[test]
fn who_forgets_everything_on_purpose_prunes_it_with_the_same_command() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "--host", "h", "data"])), 0);
    let all = ["forget", "--host", "h", "--unsafe-allow-remove-all", "--prune", "--grace", "0"];
    let output = bench.lifeboat(all.iter().chain(&["--dry-run"]));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(bench.snapshots().len(), 1);
    let output = bench.lifeboat(all);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&bench.lifeboat(["list", "packs"])), "");
    assert_eq!(bench.locks(), 0);
}

#[test]
fn the_last_snapshot_by_name_is_forgotten_but_its_data_waits_for_a_word() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    let output = bench.lifeboat(["forget", "latest", "--prune", "--grace", "0"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("prune --allow-no-snapshots"), "{}", stderr(&output));
    assert_eq!(code(&bench.lifeboat(["prune", "--allow-no-snapshots", "--grace", "0"])), 0);
}

#[test]
fn a_lock_that_cannot_be_read_is_reported_until_all_are_removed() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("repo/locks")).unwrap();
    std::fs::write(bench.path("repo/locks").join("ab".repeat(32)), "nonsense").unwrap();
    let output = bench.lifeboat(["snapshots"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("unlock --remove-all"), "{}", stderr(&output));
    let output = bench.lifeboat(["unlock"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("unlock --remove-all"), "{}", stderr(&output));
    assert_eq!(code(&bench.lifeboat(["unlock", "--remove-all"])), 0);
    assert_eq!(code(&bench.lifeboat(["snapshots"])), 0);
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_leaves_no_lock() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    for arguments in [
        "ls latest",
        "find file",
        "list blobs",
        "list snapshots --json",
        "key list",
        "snapshots",
        "cat masterkey",
        "dump latest /data/file",
        "restore latest --target out --json",
        "backup data --json",
        "forget --keep-last 1 --prune",
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = bench.command(arguments.split(' ')).stdout(Stdio::from(full)).output().unwrap();
        assert_eq!((code(&output), bench.locks()), (1, 0), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains("No space left on device"), "{arguments}: {}", stderr(&output));
    }
}

#[test]
fn a_dump_whose_reader_goes_away_ends_as_other_programs_do() {
    let bench = Bench::new();
    std::fs::write(bench.path("data/large"), vec![b'x'; 20_000_000]).unwrap();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    let mut child = super::bench::piped(&mut bench.command(["dump", "latest", "/data/large"]));
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output), bench.locks()), (141, String::new(), 0));
}

#[test]
fn unlock_reports_the_holder_of_a_kept_lock_and_how_to_remove_it() {
    let bench = Bench::new();
    let mut holder =
        super::bench::piped(&mut bench.command(["lock", "--", "sh", "-c", "echo held; exec cat"]));
    let mut line = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let output = bench.lifeboat(["unlock"]);
    assert_eq!((code(&output), bench.locks()), (0, 1), "{}", stderr(&output));
    let pid = format!("process {} of", holder.id());
    for text in [pid.as_str(), "renewed", "unlock --remove-all"] {
        assert!(stderr(&output).contains(text), "{text}: {}", stderr(&output));
    }
    let output = bench.lifeboat(["prune"]);
    assert_eq!(code(&output), 11);
    assert!(stderr(&output).contains("unlock --remove-all"), "{}", stderr(&output));
    assert_eq!(code(&bench.lifeboat(["unlock", "--remove-all"])), 0);
    assert_eq!((code(&bench.lifeboat(["prune"])), bench.locks()), (0, 0));
}

#[test]
fn the_json_of_forget_with_prune_is_the_list_alone() {
    let bench = Bench::new();
    for _ in 0..2 {
        assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    }
    for dry in [["--dry-run"].as_slice(), &[]] {
        let arguments = [["forget", "--keep-last", "1", "--prune", "--json"].as_slice(), dry].concat();
        let output = bench.lifeboat(arguments);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let messages = messages(&output);
        assert!(messages.len() == 1 && messages[0].is_array(), "{messages:?}");
    }
}

#[test]
fn a_backup_of_nothing_fails_and_makes_no_snapshot() {
    let bench = Bench::new();
    let output =
        bench.command(["backup", ".", "--exclude", "*"]).current_dir(bench.path("data")).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("empty"), "{}", stderr(&output));
    assert!(bench.snapshots().is_empty());
}

#[test]
fn the_caches_of_this_machine_are_listed() {
    let output = Bench::new().lifeboat(["cache"]);
    assert!(code(&output) == 0 && stdout(&output).contains("REPOSITORY"), "{}", stderr(&output));
}
