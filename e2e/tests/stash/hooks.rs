//! Hooks: by their policies after a host that failed, in the pods of a restore, and over HTTP around a batch. The gate before the storage
//! plays the service that is called, and knows each request.

use std::fs;

use lifeboat_e2e::{Fault, RESTORE_SESSIONS, StashTest, condition, contents, wait_for};
use serde_json::Value;

use super::workloads::{deployment, into, member, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";
const BATCH: &str = "BackupBatch";

/// A hook that notes a word in the volume together with its pod, and then ends so.
fn note(word: &str, then: &str) -> String {
    format!("exec: {{command: [sh, -c, 'echo {word} $HOSTNAME >> /source/data/hooks; {then}']}}")
}

/// What the hooks have noted, each word with the pod; it is forgotten.
fn noted(test: &StashTest) -> Vec<String> {
    let path = test.directory("web", 0, "data").join("hooks");
    let lines = fs::read_to_string(&path).unwrap_or_default();
    let _ = fs::remove_file(&path);
    lines.lines().map(str::to_owned).collect()
}

fn pod(test: &StashTest) -> String {
    test.pods("web")[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn the_hook_after_a_host_runs_by_its_policy_also_if_the_one_before_failed() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    let pod = pod(&test);
    let (before, after) = (format!("before {pod}"), format!("after {pod}"));
    let mut stored = 0;
    for (name, then, policy, is_run) in [
        ("failed-always", "exit 3", "Always", true),
        ("failed-on-failure", "exit 3", "OnFailure", true),
        ("failed-on-success", "exit 3", "OnSuccess", false),
        ("good-on-failure", "exit 0", "OnFailure", false),
        ("good-on-success", "exit 0", "OnSuccess", true),
    ] {
        let (pre, post) = (note("before", then), note("after", "sync"));
        let hooks =
            format!("  hooks: {{preBackup: {{{pre}}}, postBackup: {{executionPolicy: {policy}, {post}}}}}\n");
        test.put_configuration(name, &deployment(name, "web"), &hooks);
        let is_good = then == "exit 0";
        let session = test.run(CONFIGURATION, name, if is_good { "Succeeded" } else { "Failed" });
        let host = &session["status"]["targets"][0]["stats"][0];
        assert_eq!(host["preHook"], if is_good { "Succeeded" } else { "Failed" }, "{name}: {host}");
        assert_eq!(host["postHook"], if is_run { "Succeeded" } else { "Skipped" }, "{name}: {host}");
        let expected = if is_run { vec![before.clone(), after.clone()] } else { vec![before.clone()] };
        assert_eq!(noted(&test), expected, "{name}");
        stored += usize::from(is_good);
        assert_eq!(test.backups("repo").len(), stored, "{name}: a host whose hook failed is not backed up");
        test.delete(&["backupconfiguration", name]);
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_hook_on_final_failure_runs_after_the_last_try_only() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    let (pre, post) = (note("before", "exit 3"), note("after", "sync"));
    let hooks = format!(
        "  retryConfig: {{maxRetry: 1, delay: 1s}}\n  hooks: {{preBackup: {{{pre}}}, postBackup: {{executionPolicy: OnFinalRetryFailure, {post}}}}}\n"
    );
    test.put_configuration("nightly", &deployment("app", "web"), &hooks);
    test.wait_for_phase(CONFIGURATION, "nightly", "Ready");
    test.tenant.apply(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupSession
metadata: {name: first}
spec: {retryLeft: 1, invoker: {apiGroup: stash.appscode.com, kind: BackupConfiguration, name: nightly}}
",
    );
    let mut tries = wait_for("both tries", 120, || {
        let failed: Vec<Value> =
            test.sessions().into_iter().filter(|one| one["status"]["phase"] == "Failed").collect();
        if failed.len() == 2 { Ok(failed) } else { Err(format!("{} have failed", failed.len())) }
    });
    tries.sort_by_key(|one| one["spec"]["retryLeft"].as_i64());
    for (session, left, hook) in [(&tries[0], 0, "Succeeded"), (&tries[1], 1, "Skipped")] {
        assert_eq!(session["spec"]["retryLeft"], left, "{session}");
        assert_eq!(session["status"]["targets"][0]["stats"][0]["postHook"], hook, "{session}");
    }
    let words: Vec<String> =
        noted(&test).iter().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
    assert_eq!(words, ["before", "before", "after"]);
    assert!(test.backups("repo").is_empty());
    test.wait_until_idle();
    test.assert_nothing_is_left("repo");
}

#[test]
fn the_hooks_of_a_restore_run_in_the_pod_before_it_and_in_the_new_one() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    let spec = |then: &str| {
        let (pre, post) = (note("before", then), note("after", "sync"));
        let target = into("app", "Deployment", "web");
        format!(
            "  hooks: {{preRestore: {{{pre}}}, postRestore: {{executionPolicy: Always, {post}}}}}\n  target: {target}"
        )
    };
    // Where the hook before it fails, nothing is stopped and nothing is written.
    let (old, pods) = (pod(&test), test.undisturbed());
    test.restore("refused", &spec("exit 3"), "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    assert_eq!(condition(&refused, "PreRestoreHookExecutionSucceeded").0, "False", "{refused}");
    assert_eq!(noted(&test), [format!("before {old}"), format!("after {old}")]);
    let which = fs::read_to_string(test.directory("web", 0, "data").join("which")).unwrap();
    assert_eq!(which, "damaged");
    pods.assert_unchanged();
    test.restore("back", &spec("sync"), "");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    let host = &back["status"]["stats"][0];
    assert_eq!((&host["preHook"], &host["postHook"]), (&"Succeeded".into(), &"Succeeded".into()), "{host}");
    test.wait_for_ready("web", 1);
    assert_ne!(pod(&test), old, "the workload was stopped");
    assert_eq!(noted(&test), [format!("before {old}"), format!("after {}", pod(&test))]);
    let found = contents(&test.directory("web", 0, "data"));
    let is_alike = |name: &str| {
        let of = |listing: &lifeboat_e2e::tree::Listing| {
            listing.0.get(std::path::Path::new(name)).map(|one| one.content.clone())
        };
        of(&before) == of(&found)
    };
    assert!(is_alike("which") && is_alike("bytes") && is_alike("own/secret"), "it was restored");
    test.assert_nothing_is_left("repo");
}

/// The requests to the service so far.
fn calls(test: &StashTest) -> Vec<String> {
    test.storage.seen().into_iter().filter(|line| line.contains("/hook/")).collect()
}

/// The hooks of a batch: a GET before it, a POST that says how it ended after it.
fn http_hooks(test: &StashTest, policy: &str) -> String {
    let url = test.storage.url();
    let (host, port) = url.trim_start_matches("http://").split_once(':').unwrap();
    format!(
        "  hooks:
    preBackup: {{httpGet: {{host: {host}, port: {port}, path: /hook/before}}}}
    postBackup:
      executionPolicy: {policy}
      httpPost:
        host: {host}
        port: {port}
        path: '/hook/{{{{ if eq .Status.Phase \"Failed\" }}}}bad{{{{ else }}}}good{{{{ end }}}}/{{{{ .Invoker.Name }}}}'
        body: '{{\"error\": {{{{ toJson .Status.Error }}}}}}'
"
    )
}

fn global(session: &Value) -> [String; 2] {
    ["GlobalPreBackupHookSucceeded", "GlobalPostBackupHookSucceeded"].map(|kind| condition(session, kind).0)
}

#[test]
fn the_hooks_of_a_batch_are_called_over_http_and_say_how_it_ended() {
    let test = StashTest::start();
    test.put_repository("repo");
    put_deployment(&test, "web");
    let answer = |method: &str, status: u16| {
        test.storage.close(method, "/hook/", Fault::Answer(status, "{}".to_owned()), usize::MAX);
    };
    answer("GET", 200);
    answer("POST", 200);
    let web = member(&deployment("app", "web"));
    // A member fails: the hook after the batch runs all the same, and says so.
    test.put_batch(
        "all",
        &[member(&deployment("gone", "gone")), web.clone()],
        &http_hooks(&test, "OnFailure"),
    );
    let session = test.run(BATCH, "all", "Failed");
    assert_eq!(global(&session), ["True", "True"], "{session}");
    assert_eq!(test.snapshots("repo"), ["app /source/data"]);
    assert_eq!(calls(&test), ["GET /hook/before", "POST /hook/bad/all"]);
    // No member fails: it is not its turn.
    test.put_batch("all", &[web], &http_hooks(&test, "OnFailure"));
    test.wait_until_observed(BATCH, "all");
    let session = test.run(BATCH, "all", "Succeeded");
    assert_eq!(global(&session), ["True", ""], "{session}");
    assert_eq!(calls(&test).len(), 3, "{:?}", calls(&test));
    // The service refuses: no member runs, and the hook after the batch has its turn.
    test.storage.open();
    answer("GET", 500);
    answer("POST", 200);
    let session = test.run(BATCH, "all", "Failed");
    assert_eq!(global(&session), ["False", "True"], "{session}");
    let (_, message) = condition(&session, "GlobalPreBackupHookSucceeded");
    assert!(message.contains("500"), "{message}");
    assert_eq!(test.snapshots("repo").len(), 2, "no member ran");
    test.storage.open();
    test.assert_nothing_is_left("repo");
}
