//! Secrets that are planted, also in the output of a hook that is marked as secret, and a search for them wherever a user or a reader of the bucket could find them.

use std::fs;
use std::path::Path;

use lifeboat_e2e::{Fault, HostServer, OneVolume, Program, Way, kubectl, s3};

const DATABASE: &str = "canary-of-the-database-7c1f";
const MOVER: &str = "canary-of-a-mover-91ab";
const REPOSITORY: &str = "canary-of-the-repository-5d20";

/// A Secret that the pod's hook prints.
const HOOK: &str = "
apiVersion: v1
kind: Secret
metadata: {name: database}
stringData: {password: DATABASE}
---
";

/// What is searched for: a name for the message, and the text.
fn planted() -> Vec<(&'static str, String)> {
    let encoded = |text: &str| Program::new("base64").args(["-w", "0"]).input(text).ok().trim().to_owned();
    let mut all = vec![("the storage key", s3().secret_key)];
    all.push(("the file of credentials", encoded(&s3().credentials())));
    for (name, text) in [
        ("the database password", DATABASE),
        ("the content of a mover's Secret", MOVER),
        ("the repository password", REPOSITORY),
    ] {
        all.push((name, text.to_owned()));
        all.push((name, encoded(text)));
    }
    all
}

/// Fails if one of the planted texts is in `text`.
fn assert_absent(place: &str, text: &[u8]) {
    for (name, planted) in planted() {
        let found = text.windows(planted.len()).any(|window| window == planted.as_bytes());
        assert!(!found, "{name} is in {place}");
    }
}

/// Every object of the bucket, as it is and unpacked.
fn search_bucket(server: &HostServer) {
    let directory = tempfile::tempdir().unwrap();
    let keys = server.bucket.keys();
    assert!(keys.iter().any(|key| key.ends_with(".tar.gz")), "{keys:?}");
    assert!(keys.iter().any(|key| key.contains("/data/")), "no volume was stored: {keys:?}");
    for key in keys {
        let file = directory.path().join("object");
        server.bucket.get(&key, &file);
        assert_absent(&key, &fs::read(&file).unwrap());
        if file_type(&key) == "gz" {
            assert_absent(&format!("{key}, unpacked"), &unpacked(&file));
        }
    }
}

fn file_type(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(_, suffix)| suffix)
}

fn unpacked(file: &Path) -> Vec<u8> {
    let plain = file.with_extension("plain");
    let script = format!("gzip -dc {} > {}", file.display(), plain.display());
    Program::new("sh").args(["-c", &script]).ok();
    fs::read(plain).unwrap()
}

/// The arguments of every process of Lifeboat on this machine, the movers in the nodes of the box included.
fn search_arguments() {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let all = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let is_ours = |arguments: &Vec<u8>| {
        let program = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
        Path::new(&*String::from_utf8_lossy(program)).file_name().is_some_and(|name| name == "lifeboat")
    };
    let ours: Vec<Vec<u8>> = all.filter(is_ours).collect();
    assert!(!ours.is_empty(), "no process of Lifeboat was found");
    for arguments in ours {
        assert_absent(&format!("the arguments {}", String::from_utf8_lossy(&arguments)), &arguments);
    }
}

/// All objects but Secrets: custom resources with their status, Jobs, pods, ConfigMaps, events.
fn search_cluster(test: &OneVolume) {
    let kinds = "backups.velero.io,restores.velero.io,podvolumebackups.velero.io,backuprepositories.velero.io,\
                 backupstoragelocations.velero.io,jobs,pods,configmaps,events,events.events.k8s.io,persistentvolumeclaims";
    for namespace in [&test.server.namespace, &test.server.movers(), &test.app.name] {
        let objects = kubectl().args(["-n", namespace, "get", kinds, "-o", "json"]).ok();
        assert_absent(&format!("the objects of {namespace}"), objects.as_bytes());
    }
}

/// A pod whose hook prints a password.
fn manifests() -> String {
    let pod = OneVolume::manifests(Way::Files, "box-csi", "ReadWriteOnce");
    let hook = r#"[\"sh\", \"-c\", \"echo $PASSWORD; echo $PASSWORD >&2\"]"#;
    let annotations = format!(
        "backup.velero.io/backup-volumes: data, lifeboat.io/hook-output: secret, \
         pre.hook.backup.velero.io/command: \"{hook}\""
    );
    let variable = "env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: database, key: password}}}]";
    let pod = pod.replace("backup.velero.io/backup-volumes: data", &annotations).replace(
        "    command: [sleep, infinity]\n",
        &format!("    command: [sleep, infinity]\n    {variable}\n"),
    );
    format!("{}{pod}", HOOK.replace("DATABASE", DATABASE))
}

#[test]
fn planted_secrets_are_found_nowhere() {
    let server = HostServer::start("canary", &[]);
    server.set_password(REPOSITORY);
    let test = OneVolume::on(server, Way::Files, &manifests());
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: mover-canary, namespace: {}}}\nstringData: {{password: {MOVER}}}\n",
        test.server.movers()
    );
    lifeboat_e2e::apply(&secret);
    // The tenant's own Secret would be in a backup of its namespace, as any object. The mover runs during the search.
    test.server.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let without = ["--include-namespaces", &test.app.name, "--exclude-resources", "secrets"];
    test.server.lifeboat().args(["backup", "create", "volume"]).args(without).ok();
    test.server.storage.wait_until_reached(90);
    search_arguments();
    search_cluster(&test);
    test.server.storage.open();
    let (volume, _) = test.ended("volume");
    test.server.assert_phase(&volume, &["Completed"]);
    let namespaces = format!("{},{}", test.server.namespace, test.server.movers());
    let whole = test.server.backup("whole", &["--include-namespaces", &namespaces]);
    test.server.assert_phase(&whole, &["Completed"]);
    let restored = test.server.restore("again", "whole", &[]);
    test.server.assert_phase(&restored, &["Completed", "PartiallyFailed"]);
    for (kind, name) in [("backup", "volume"), ("backup", "whole"), ("restore", "again")] {
        let shown = format!("{}{}", test.server.logs(kind, name), test.server.described(kind, name));
        assert_absent(&format!("log and description of {kind} {name}"), shown.as_bytes());
    }
    assert_absent("the server's log", test.server.log_text().as_bytes());
    search_bucket(&test.server);
    search_cluster(&test);
    kubectl().args(["-n", &test.server.movers(), "delete", "secret", "mover-canary"]).ok();
    test.assert_nothing_is_left();
}

#[test]
fn a_backup_that_names_the_servers_secrets_has_them() {
    let server = HostServer::start("canary-named", &[]);
    let named = ["--include-namespaces", &server.namespace, "--include-resources", "secrets"];
    server.assert_phase(&server.backup("named", &named), &["Completed"]);
    let described = server.described("backup", "named");
    assert!(described.contains("cloud-credentials"), "{described}");
    let all = ["--include-namespaces", &server.namespace];
    server.assert_phase(&server.backup("all", &all), &["Completed"]);
    let described = server.described("backup", "all");
    assert!(!described.contains("cloud-credentials"), "{described}");
    assert!(described.contains("BackupStorageLocation"), "{described}");
    server.no_mover_is_left();
}
