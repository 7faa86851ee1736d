//! Bad input: many wrong objects in one namespace at once. Each is named with its reason, none harms the others, and nothing is left.

use lifeboat_e2e::{Engine, RESTORE_SESSIONS, S3, StashTest, get, s3, wait_for};
use serde_json::Value;

use super::bad_tasks::BadTasks;
use super::workloads::{claim_target, deployment, into, member, put_deployment, target};

const CONFIGURATION: &str = "BackupConfiguration";
const BATCH: &str = "BackupBatch";

/// A wrong object by its name, and what its status says. Quotes are left out: in JSON they are escaped.
type Case = (&'static str, &'static [&'static str]);

fn says_all(said: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| said.contains(part))
}

/// A namespace with a Deployment that is backed up, and Repository `repo`. Movers that do not start are given up soon.
fn shop() -> StashTest {
    let test = StashTest::alone(&["--mover-prepare-timeout", "20s"]);
    test.put_repository("repo");
    put_deployment(&test, "web");
    test.put_configuration("good", &deployment("good", "web"), "");
    test.run(CONFIGURATION, "good", "Succeeded");
    test
}

/// The good one still works, and nothing of the others is left.
fn assert_unharmed(test: &StashTest) {
    let stored = test.backups("repo").len();
    test.run(CONFIGURATION, "good", "Succeeded");
    assert_eq!(test.backups("repo").len(), (stored + 1).min(2), "of the others nothing is stored");
    test.assert_no_mover_is_left();
    let locks = test.repository("repo").ok(Engine::Restic, &["list", "locks", "--no-lock"]);
    assert_eq!(locks.trim(), "", "locks are left");
}

/// A Repository of this name with this Secret and backend, and a BackupConfiguration of the same name on it.
fn on_repository(name: &str, secret: &str, backend: &str) -> String {
    format!(
        "apiVersion: stash.appscode.com/v1alpha1
kind: Repository
metadata: {{name: {name}}}
spec:
  backend:
    {backend}
    storageSecretName: {secret}
---
{}",
        configuration(name, name, &deployment(name, "web"), "")
    )
}

fn configuration(name: &str, repository: &str, target: &str, more: &str) -> String {
    format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: {name}}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: {repository}}}
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  target: {target}
{more}---
"
    )
}

fn batch(name: &str, members: &[String], more: &str) -> String {
    format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: BackupBatch
metadata: {{name: {name}}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: repo}}
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  members: [{}]
{more}---
",
        members.join(", ")
    )
}

/// Waits until each invoker is in this phase and its status says all of its case.
fn assert_named(test: &StashTest, kind: &str, phase: &str, cases: &[Case]) {
    for (name, parts) in cases {
        wait_for(&format!("{kind} {name} {phase} with {parts:?}"), 180, || {
            let found = test.invoker(kind, name);
            let said = found["status"].to_string();
            if found["status"]["phase"] == phase && says_all(&said, parts) { Ok(()) } else { Err(said) }
        });
    }
}

/// Secrets that each lack something, or have something that is wrong.
fn bad_secrets(s3: &S3) -> String {
    let secret = |name: &str, data: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, stringData: {{{data}}}}}\n---\n")
    };
    let keys = format!("AWS_ACCESS_KEY_ID: {}, AWS_SECRET_ACCESS_KEY: {}", s3.access_key, s3.secret_key);
    let half = format!("RESTIC_PASSWORD: x, AWS_ACCESS_KEY_ID: {}", s3.access_key);
    [
        secret("without-password", &keys),
        secret("half", &half),
        secret("another-password", &format!("RESTIC_PASSWORD: wrong, {keys}")),
        secret("wrong-keys", &format!("{half}, AWS_SECRET_ACCESS_KEY: wrong")),
    ]
    .concat()
}

#[test]
fn a_repository_that_cannot_be_used_is_named_with_what_is_wrong_with_it() {
    let test = shop();
    let (s3, prefix) = (s3(), format!("{}/repo", test.tenant.name));
    let backend = |endpoint: &str, prefix: &str| {
        format!("s3: {{endpoint: '{endpoint}', bucket: lifeboat, prefix: '{prefix}', region: {}}}", s3.region)
    };
    let good = backend(&s3.endpoint, &prefix);
    let other = backend(&s3.endpoint, &format!("{prefix}-other"));
    let mut all = bad_secrets(&s3);
    // The same machine, where nothing listens.
    let gone = s3.endpoint.rsplit_once(':').map(|(host, _)| format!("{host}:1")).unwrap();
    for (name, secret, backend) in [
        ("no-secret", "none", good.as_str()),
        ("no-password", "without-password", &other),
        ("half-keys", "half", &other),
        ("wrong-password", "another-password", &good),
        ("wrong-keys", "wrong-keys", &other),
        ("no-server", "keys", &backend(&gone, "x")),
        ("own-machine", "keys", &backend("http://127.0.0.1:9", "x")),
        ("metadata", "keys", &backend("http://169.254.169.254", "x")),
        ("user-in-url", "keys", "rest: {url: 'http://user:hidden@backup.example.org/x'}"),
        ("swift", "keys", "swift: {container: x}"),
    ] {
        all += &on_repository(name, secret, backend);
    }
    all += &configuration("no-repository", "gone", &deployment("no-repository", "web"), "");
    test.tenant.apply(&all);
    assert_named(
        &test,
        CONFIGURATION,
        "NotReady",
        &[
            ("no-repository", &["RepositoryFound", "/gone does not exist"]),
            ("no-secret", &["BackendSecretFound", "/none", "does not exist"]),
            ("no-password", &["without-password", "RESTIC_PASSWORD"]),
            ("half-keys", &["half", "AWS_SECRET_ACCESS_KEY"]),
            ("wrong-password", &["password opens none of the"]),
            ("wrong-keys", &["the credentials for"]),
            ("no-server", &["cannot reach"]),
            ("own-machine", &["127.0.0.1", "is not used"]),
            ("metadata", &["169.254.169.254", "is not used"]),
            ("user-in-url", &["a user, a password or a query"]),
            ("swift", &["spec.backend.swift is not supported"]),
        ],
    );
    let repository = get(&["-n", &test.tenant.name, "repositories.stash.appscode.com", "user-in-url"]);
    for object in [repository, test.invoker(CONFIGURATION, "user-in-url")] {
        let status = object["status"].to_string();
        assert!(!status.contains("hidden"), "a password is in a status: {status}");
    }
    // What was wrong with a password does not touch the repository that is there.
    assert_unharmed(&test);
}

/// Batches whose members do not fit together, and one with a hook that is not for batches.
fn apply_bad_batches(test: &StashTest, exec: &str) {
    let stateful_set = member(&target("app", "apps/v1", "StatefulSet", "db"));
    test.tenant.apply(
        &[
            batch("equal-hosts", &[stateful_set, member(&deployment("app-1", "web"))], ""),
            batch("no-aliases", &[member(&deployment("", "web")), member(&deployment("", "other"))], ""),
            batch("command", &[member(&deployment("command", "web"))], exec),
        ]
        .concat(),
    );
}

#[test]
fn an_invoker_that_cannot_work_is_invalid_and_names_the_field() {
    let test = shop();
    let of = |name: &str, from: &str, to: &str| {
        let target = deployment(name, "web");
        assert!(target.contains(from), "{target}");
        configuration(name, "repo", &target.replace(from, to), "")
    };
    let hook = |text: &str| format!("  hooks: {{preBackup: {text}}}\n");
    let mut all = [
        of("kind", "kind: Deployment", "kind: CronJob"),
        of("below-no-mount", "paths: [/source/data]", "paths: [/var/lib]"),
        of("relative", "paths: [/source/data]", "paths: [data]"),
        of("upwards", "mountPath: /source/data}", "mountPath: /source/data, subPath: ../x}"),
        of("argument", "paths: [/source/data]", "paths: [/source/data], args: [--ignore-inode]"),
        of("tag", "paths: [/source/data]", "paths: [/source/data], args: [--tag=lifeboat-safety]"),
    ]
    .concat();
    let template = "{httpPost: {host: example.org, port: 80, body: '{{ now }}'}}";
    all += &configuration("template", "repo", &deployment("template", "web"), &hook(template));
    test.tenant.apply(&all);
    apply_bad_batches(&test, &hook("{exec: {command: [id]}}"));
    assert_named(
        &test,
        CONFIGURATION,
        "Invalid",
        &[
            ("kind", &["spec.target.ref.kind", "CronJob"]),
            ("below-no-mount", &["path /var/lib is below no mount"]),
            ("relative", &["target.paths", "is not an absolute path"]),
            ("upwards", &["subPath", "without '..'"]),
            ("argument", &["spec.target.args", "--ignore-inode"]),
            ("tag", &["lifeboat-safety", "is reserved"]),
            ("template", &["spec.hooks.preBackup", "now", "is not supported"]),
        ],
    );
    assert_named(
        &test,
        BATCH,
        "Invalid",
        &[
            ("equal-hosts", &["StatefulSet db", "Deployment web", "app-1"]),
            ("no-aliases", &["Deployment web", "Deployment other", "host-0"]),
            ("command", &["spec.hooks.preBackup: exec"]),
        ],
    );
    // A session of an invoker that is not Ready is skipped, with the reason.
    let skipped = test.ended(&test.begin(CONFIGURATION, "kind"));
    let said = skipped["status"].to_string();
    assert!(skipped["status"]["phase"] == "Skipped" && said.contains("CronJob"), "{said}");
    refused_at_once(&test);
    assert_unharmed(&test);
}

/// What the API server refuses, in its own words.
fn refused_at_once(test: &StashTest) {
    let members = [member(&deployment("a", "web"))];
    let two_places = format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: two-places}}
spec:
  repository: {{name: repo}}
  rules: [{{snapshots: [latest]}}]
  target: {}
",
        into("good", "Deployment", "web").replacen('{', "{rules: [{snapshots: [latest]}], ", 1)
    );
    for (manifest, part) in [
        (
            batch("orders", &members, "  maintainOrder: true\n  executionOrder: Parallel\n"),
            "maintainOrder contradicts executionOrder",
        ),
        (two_places, "rules are already set in target.rules"),
    ] {
        let manifest = manifest.trim_end_matches("---\n");
        let said = test.kubectl().args(["create", "-f", "-"]).input(manifest).refused();
        assert!(said.contains(part), "{said}");
    }
}

/// A BackupConfiguration of a claim of its name, so that no session waits for another.
fn of_claim(name: &str, more: &str) -> String {
    let claim = format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {{requests: {{storage: 64Mi}}}}}}
---
"
    );
    claim + &configuration(name, "repo", &claim_target(name, name), more)
}

#[test]
fn a_session_that_cannot_work_fails_with_the_cause() {
    let test = shop();
    let tasks = BadTasks::apply();
    let with =
        |task: &str, more: &str| of_claim(task, &format!("  task: {{name: {}}}\n{more}", tasks.name(task)));
    put_deployment(&test, "api");
    let volume = deployment("volume", "web").replace("name: data", "name: other");
    let small =
        "  runtimeSettings: {container: {resources: {requests: {memory: 8Mi}, limits: {memory: 8Mi}}}}\n";
    let all = [
        configuration("volume", "repo", &volume, ""),
        configuration("small", "repo", &deployment("small", "api"), small),
        of_claim("no-task", "  task: {name: none-backup-1}\n"),
        with("no-function", ""),
        with("variable", ""),
        with("addon", ""),
        with("image", ""),
        with("full", "  tempDir: {medium: Memory, sizeLimit: 1Mi}\n"),
    ];
    test.tenant.apply(&all.concat());
    let cases: [Case; 8] = [
        ("volume", &["other", "does not have", "expected one of data"]),
        ("small", &["more memory"]),
        ("no-task", &["task.name: there is no Task", "none-backup-1"]),
        ("no-function", &["there is no Function", "no-function"]),
        ("variable", &["nothing", "has no value"]),
        ("addon", &["stashed/stash-mysql:8.0.14", "addon of Stash"]),
        ("image", &["localhost/no-such-image:1"]),
        ("full", &["No space left on device"]),
    ];
    let sessions: Vec<(Case, String)> = cases
        .iter()
        .map(|case| {
            test.wait_for_phase(CONFIGURATION, case.0, "Ready");
            (*case, test.begin(CONFIGURATION, case.0))
        })
        .collect();
    for ((name, parts), session) in sessions {
        let ended = test.ended(&session);
        let said = ended["status"].to_string();
        assert_eq!(ended["status"]["phase"], "Failed", "{name}: {said}");
        assert!(says_all(&said, parts), "{name}: {parts:?} are not in {said}");
    }
    assert_unharmed(&test);
}

#[test]
fn a_restore_that_cannot_work_fails_with_the_cause_and_stops_nothing() {
    let test = shop();
    let pods = test.undisturbed();
    let snapshot = test.backups("repo")[0]["id"].as_str().unwrap()[..8].to_owned();
    let of = |alias: &str, more: &str| {
        let target = into(alias, "Deployment", "web").replacen('{', &format!("{{{more}, "), 1);
        format!("  target: {target}")
    };
    let plain = format!("  target: {}", into("good", "Deployment", "web"));
    for (name, spec) in [
        ("unknown-host", of("good", "rules: [{targetHosts: [good, other]}]")),
        ("no-rule", of("good", "rules: [{targetHosts: [other]}]")),
        ("other-host", of("else", &format!("rules: [{{snapshots: ['{snapshot}']}}]"))),
        ("no-id", of("good", "rules: [{snapshots: [newest]}]")),
        ("no-such-path", of("good", "rules: [{paths: [/source/data, /source/gone]}]")),
        ("no-task", format!("{plain}\n  task: {{name: none-restore-1}}")),
        ("no-target", format!("  timeOut: 5s\n  target: {}", into("good", "Deployment", "gone"))),
        ("arguments", of("good", "args: [--delete]")),
    ] {
        test.restore(name, &spec, "");
    }
    test.tenant.apply(&format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: no-repository}}
spec:
  repository: {{name: gone}}
  timeOut: 5s
{plain}
"
    ));
    let cases: [(&str, &str, &[&str]); 9] = [
        ("unknown-host", "Failed", &["targetHosts names other", "its hosts are good"]),
        ("no-rule", "Failed", &["no rule applies to a host", "host good: /source/data (snapshot"]),
        ("other-host", "Failed", &["is of host good", "source host else"]),
        ("no-id", "Failed", &["newest", "is not the id of a snapshot"]),
        ("no-such-path", "Failed", &["path /source/gone is below no mount"]),
        ("no-task", "Failed", &["there is no Task", "none-restore-1"]),
        ("no-target", "Failed", &["/gone"]),
        ("arguments", "Invalid", &["spec.target.args", "--delete"]),
        ("no-repository", "Failed", &["/gone does not exist"]),
    ];
    for (name, phase, parts) in cases {
        let found: Value = test.restored(RESTORE_SESSIONS, name);
        let said = found["status"].to_string();
        assert_eq!(found["status"]["phase"], phase, "{name}: {said}");
        assert!(says_all(&said, parts), "{name}: {parts:?} are not in {said}");
        assert!(found["status"]["standstill"].is_null(), "{name}: nothing was stopped: {said}");
    }
    pods.assert_unchanged();
    // None of them has written, so none keeps the next backup from running.
    assert_unharmed(&test);
}
