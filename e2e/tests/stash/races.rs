//! Two BackupBatches on one repository: one runs and the other names it, however close together they come.

use std::thread;

use lifeboat_e2e::{StashTest, condition, wait_for};
use serde_json::Value;

use super::workloads::{deployment, member, put_deployment};

const BATCH: &str = "BackupBatch";
const RACES: usize = 10;

/// The manifests of one side of all races: batch `<side>-<number>` on its Repository.
fn side(side: &str, repository: impl Fn(usize) -> String) -> String {
    let batches = (0..RACES).map(|number| {
        format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: BackupBatch
metadata: {{name: {side}-{number}}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: {}}}
  retentionPolicy: {{name: keep, keepLast: 5, prune: false}}
  members:
  - {}
",
            repository(number),
            member(&deployment(side, "web"))
        )
    });
    batches.collect::<Vec<String>>().join("---\n")
}

/// Creates both sides at the same time, and waits until each race is decided; gives winner and loser of each.
fn race(test: &StashTest, left: &str, right: &str) -> Vec<(Value, Value)> {
    thread::scope(|scope| {
        for manifests in [left, right] {
            scope.spawn(|| test.tenant.apply(manifests));
        }
    });
    (0..RACES).map(|number| decided(test, &format!("left-{number}"), &format!("right-{number}"))).collect()
}

/// Waits until one is Ready and the other names it.
fn decided(test: &StashTest, one: &str, other: &str) -> (Value, Value) {
    wait_for(&format!("the end of the race of {one} and {other}"), 120, || {
        let batches = [test.invoker(BATCH, one), test.invoker(BATCH, other)];
        let phases = [&batches[0]["status"]["phase"], &batches[1]["status"]["phase"]];
        let (winner, loser) = match phases.map(|phase| phase.as_str().unwrap_or_default()) {
            ["Ready", "Invalid"] => (0, 1),
            ["Invalid", "Ready"] => (1, 0),
            _ => return Err(format!("{} {}", batches[0]["status"], batches[1]["status"])),
        };
        let name = batches[winner]["metadata"]["name"].as_str().unwrap();
        let says_so = condition(&batches[loser], "ValidationPassed").1.contains(&format!("/{name},"))
            && batches[loser]["status"].to_string().contains("RepositoryInUse");
        if says_so {
            Ok((batches[winner].clone(), batches[loser].clone()))
        } else {
            Err(batches[loser]["status"].to_string())
        }
    })
}

/// The winner of the first race runs, the loser is skipped, and takes over when the winner is gone.
fn assert_one_runs_and_the_other_follows(test: &StashTest, races: &[(Value, Value)]) {
    let name = |batch: &Value| batch["metadata"]["name"].as_str().unwrap().to_owned();
    let (winner, loser) = (name(&races[0].0), name(&races[0].1));
    test.run(BATCH, &winner, "Succeeded");
    let skipped = test.ended(&test.begin(BATCH, &loser));
    assert_eq!(skipped["status"]["phase"], "Skipped", "{skipped}");
    test.delete(&["backupbatch", &winner]);
    test.run(BATCH, &loser, "Succeeded");
}

#[test]
fn of_two_batches_on_one_repository_one_runs_and_the_other_names_it() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    for number in 0..RACES {
        test.put_repository(&format!("repo-{number}"));
    }
    let on = |number: usize| format!("repo-{number}");
    let races = race(&test, &side("left", on), &side("right", on));
    assert_one_runs_and_the_other_follows(&test, &races);
    assert_eq!(test.snapshots("repo-0").len(), 2);
    test.assert_nothing_is_left("repo-0");
}

#[test]
fn of_two_batches_on_two_repositories_with_one_bucket_one_runs_and_the_other_names_it() {
    let test = StashTest::start();
    put_deployment(&test, "web");
    for number in 0..RACES {
        let backend = test.s3_backend(&format!("repo-{number}"));
        for side in ["left", "right"] {
            test.put_repository_with(&format!("{side}-{number}"), &backend, "");
        }
    }
    let left = side("left", |number| format!("left-{number}"));
    let right = side("right", |number| format!("right-{number}"));
    let races = race(&test, &left, &right);
    assert_one_runs_and_the_other_follows(&test, &races);
    assert_eq!(test.snapshots("repo-0").len(), 2);
    test.assert_nothing_is_left("repo-0");
}
