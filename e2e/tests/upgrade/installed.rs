//! The Deployment of the old build is replaced by that of the new one, as people do it: `lifeboat install` once more, while
//! movers of a Backup and of a Restore are held in the middle of their work. The old pods get the time to hand over.

use std::fs;
use std::path::PathBuf;

use lifeboat_e2e::{
    Engine, Fault, Gate, Installation, Namespace, OneVolume, Program, Release, Repository, Way, contents,
    get, kubectl, lifeboat, random, s3, unique, volume_directory, wait_for,
};
use serde_json::Value;

/// Where `install` puts the movers.
const MOVERS: &str = "lifeboat-movers";
const FLAGS: [&str; 1] = ["--node-access"];

/// A location behind a gate. The Backups and the Restore of the test are deleted with it.
struct Location {
    name: String,
    gate: Gate,
}

impl Location {
    fn create(installation: &Installation) -> Self {
        let (name, gate) = (unique("upgrade"), Gate::before(&s3().endpoint));
        let config = format!("region={},s3Url={},s3ForcePathStyle=true", s3().region, gate.url());
        Release::Old
            .command()
            .args(["backup-location", "create", &name, "--provider", "aws", "--bucket", "lifeboat"])
            .args(["--prefix", &name, "--config", &config, "--credential", "cloud-credentials=cloud"])
            .ok();
        installation.wait_for_phase(&name, "Available", 60);
        Self { name, gate }
    }

    fn repository(&self, namespace: &str) -> Repository {
        let secret = get(&["-n", "lifeboat", "secret", "velero-repo-credentials"]);
        let encoded = secret["data"]["repository-password"].as_str().unwrap();
        let password = Program::new("base64").arg("-d").input(encoded).ok();
        let url = format!("s3:{}/lifeboat/{}/restic/{namespace}", s3().endpoint, self.name);
        Repository::with_password(url, &password)
    }

    /// How many snapshots genuine restic finds.
    fn snapshots(&self, namespace: &str) -> usize {
        let repository = self.repository(namespace);
        repository.ok(Engine::Restic, &["check", "--read-data"]);
        let text = repository.ok(Engine::Restic, &["snapshots", "--json"]);
        serde_json::from_str::<Vec<Value>>(&text).unwrap().len()
    }
}

impl Drop for Location {
    fn drop(&mut self) {
        self.gate.open();
        lifeboat().args(["backup-location", "delete", &self.name, "--confirm"]).run();
    }
}

/// A pod with one volume; gives where the volume is.
fn running(app: &Namespace) -> PathBuf {
    app.kubectl().args(["wait", "pod/db", "--for=condition=Ready", "--timeout=120s"]).ok();
    volume_directory(&get(&["-n", &app.name, "pod", "db"]), "data")
}

fn filled(prefix: &str) -> Namespace {
    let app = Namespace::new(prefix);
    app.apply(&OneVolume::manifests(Way::Files, "box-csi", "ReadWriteOnce"));
    let directory = running(&app);
    fs::write(directory.join("file"), format!("data of {prefix}")).unwrap();
    fs::write(directory.join("large"), random(5 << 20)).unwrap();
    app
}

/// By the command line of the old build.
fn begin(kind: &str, name: &str, arguments: &[&str]) {
    Release::Old.command().args([kind, "create", name]).args(arguments).ok();
}

fn assert_completed(kind: &str, name: &str) {
    let status = wait_for(&format!("the end of {kind} {name}"), 150, || {
        let object = get(&["-n", "lifeboat", &format!("{kind}s.velero.io"), name]);
        match object["status"]["phase"].as_str() {
            Some("Completed" | "PartiallyFailed" | "Failed" | "FailedValidation") => {
                Ok(object["status"].clone())
            }
            _ => Err(object["status"].to_string()),
        }
    });
    if status["phase"] != "Completed" {
        let described = lifeboat().args([kind, "describe", name, "--details"]).run();
        let logs = lifeboat().args([kind, "logs", name]).run();
        panic!("{kind} {name}: {status}\n{}\n{}", described.stdout, logs.stdout);
    }
}

/// UID and image of each mover's pod.
fn movers() -> Vec<(String, String)> {
    let pods = get(&["-n", MOVERS, "pods"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = pods["items"].as_array().cloned().unwrap_or_default();
    let of = |pod: &Value| (text(&pod["metadata"]["uid"]), text(&pod["spec"]["containers"][0]["image"]));
    let mut found: Vec<(String, String)> = items.iter().map(of).collect();
    found.sort();
    found
}

/// The leader is a pod of this build.
fn wait_for_leader_of(installation: &Installation, release: Release) {
    wait_for("a leader of the new build", 60, || {
        let leader = get(&["-n", "lifeboat", "pod", &installation.leader()]);
        let image = leader["spec"]["containers"][0]["image"].clone();
        if image == release.image() { Ok(()) } else { Err(image.to_string()) }
    });
}

#[test]
fn a_backup_and_a_restore_go_on_while_the_deployment_is_replaced() {
    lifeboat().arg("uninstall").run();
    let installation = Installation::of(Release::Old, &FLAGS);
    let location = Location::create(&installation);
    let (saved, lost) = (filled("saved"), filled("lost"));
    let before = contents(&running(&lost));
    let (kept, begun) = (unique("kept"), unique("begun"));
    let backup = |name: &str, app: &Namespace| {
        let flags = ["--include-namespaces", &app.name, "--storage-location", &location.name];
        begin("backup", name, &flags);
    };
    backup(&kept, &lost);
    assert_completed("backup", &kept);
    kubectl().args(["delete", "namespace", &lost.name, "--timeout=120s"]).ok();

    // Both movers wait for storage.
    let (put, got) = (format!("/restic/{}/data/", saved.name), format!("/restic/{}/data/", lost.name));
    let earlier = location.gate.seen().len();
    location.gate.close("PUT", &put, Fault::Hold, 1000);
    location.gate.close("GET", &got, Fault::Hold, 1000);
    backup(&begun, &saved);
    begin("restore", &begun, &["--from-backup", &kept]);
    wait_for("two movers in the middle of their work", 120, || {
        let seen = location.gate.seen().split_off(earlier);
        let is_there = |method: &str, part: &str| {
            seen.iter().any(|line| line.starts_with(method) && line.contains(part))
        };
        if is_there("PUT", &put) && is_there("GET", &got) { Ok(()) } else { Err(seen.join("\n")) }
    });
    let held = movers();
    assert!(held.len() == 2 && held.iter().all(|(_, image)| *image == Release::Old.image()), "{held:?}");

    let installation = Installation::of(Release::New, &FLAGS);
    wait_for_leader_of(&installation, Release::New);
    assert_eq!(movers(), held, "movers go on while the server is replaced");
    location.gate.open();
    assert_completed("backup", &begun);
    assert_completed("restore", &begun);
    before.assert_same(&contents(&running(&lost)), "restored by both builds");
    assert_eq!(location.snapshots(&saved.name), 1, "the volume is stored once");
    assert_eq!(location.snapshots(&lost.name), 1);
    wait_for("the end of all movers", 60, || {
        let left = movers();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    for name in [&kept, &begun] {
        lifeboat().args(["backup", "delete", name, "--confirm", "--wait"]).ok();
    }
}
