//! Commands that show or change what is in snapshots.

use rstest::rstest;
use serde_json::{Value, json};

use crate::repository::bench::{Bench, code, messages, stderr, stdout};

#[test]
fn what_is_in_a_snapshot_is_listed_found_compared_and_counted() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    std::fs::write(bench.path("data/second"), "more").unwrap();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    let listed = messages(&bench.lifeboat(["ls", "latest", "--json"]));
    assert_eq!(listed[0]["message_type"], "snapshot");
    assert!(listed.iter().any(|node| node["name"] == "second" && node["size"] == 4), "{listed:?}");
    let found: Value = serde_json::from_slice(&bench.lifeboat(["find", "sec*", "--json"]).stdout).unwrap();
    assert_eq!((found.as_array().unwrap().len(), &found[0]["hits"]), (1, &json!(1)));
    let changes = messages(&bench.lifeboat(["diff", "latest~1", "latest", "--json"]));
    assert!(changes.iter().any(|change| change["modifier"] == "+"), "{changes:?}");
    assert_eq!(changes.last().unwrap()["added"]["files"], 1);
    let stats: Value = serde_json::from_slice(&bench.lifeboat(["stats", "--json"]).stdout).unwrap();
    assert_eq!(stats["snapshots_count"], 2);
}

#[test]
fn tags_are_changed_and_snapshots_copied() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data", "--tag", "a"])), 0);
    let output = bench.lifeboat(["tag", "--add", "b", "--remove", "a", "--json"]);
    assert_eq!(messages(&output).pop().unwrap()["changed_snapshots"], 1, "{}", stderr(&output));
    assert_eq!(bench.snapshots()[0]["tags"], json!(["b"]));
    let into = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command
            .args(["--repo", "other", "--from-repo", "repo"])
            .env("RESTIC_FROM_PASSWORD", "a password")
            .output()
            .unwrap()
    };
    let output = into(&["init", "--copy-chunker-params"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = into(&["copy"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(code(&bench.lifeboat(["check", "--read-data", "-r", "other"])), 0);
    assert!(stderr(&into(&["copy"])).contains("exists already"));
}

#[rstest]
#[case("CACHEDIR.TAG", &["--exclude-caches"])]
#[case(".nobackup", &["--exclude-if-present", ".nobackup:foo"])]
fn a_tag_file_without_its_header_is_a_warning(#[case] name: &str, #[case] flags: &[&str]) {
    let bench = Bench::new();
    std::fs::write(bench.path("data").join(name), "something else").unwrap();
    let output = bench.lifeboat([["backup", "data"].as_slice(), flags].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains(name), "{}", stderr(&output));
    assert!(stdout(&bench.lifeboat(["ls", "latest"])).contains("/data/file"));
}

#[test]
fn a_missing_snapshot_is_reported_and_left_out() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    for arguments in [
        "snapshots deadbeef",
        "snapshots nothing-at-all",
        "tag --add x deadbeef",
        "stats deadbeef",
        "find file -s deadbeef",
        "copy --from-repo repo deadbeef",
    ] {
        let mut command = bench.restic_command(arguments.split(' '));
        let output = command.env("RESTIC_FROM_PASSWORD", "a password").output().unwrap();
        assert_eq!(code(&output), 0, "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains("ignoring '"), "{arguments}: {}", stderr(&output));
    }
    assert_eq!(bench.snapshots()[0].get("tags"), None);
}

#[test]
fn ncdu_gets_a_file_that_it_can_load() {
    let bench = Bench::new();
    assert_eq!(code(&bench.lifeboat(["backup", "data"])), 0);
    let output = bench.lifeboat(["ls", "latest", "--ncdu"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value[0], &value[1], &value[3][0]["name"]), (&json!(1), &json!(2), &json!("/")));
    let directory = &value[3][1];
    assert_eq!((&directory[0]["name"], &directory[1]["name"]), (&json!("data"), &json!("file")));
    assert_eq!((&directory[1]["asize"], &directory[1]["dsize"]), (&json!(7), &json!(512)));
}
