//! Volumes in native snapshots: the example plugin of our SDK, which copies directories of this machine, with its three
//! ways of reporting progress. The byte count grows during the call, data is restored, and one object stays for each
//! operation.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lifeboat_e2e::{
    HostServer, Namespace, Program, apply, bound, delete_namespace, directory_volume, get, kubectl, unique,
    variable, wait_for,
};
use rstest::rstest;
use serde_json::Value;
use tempfile::TempDir;

/// A server, and a claim whose volume is a directory of this machine.
pub(crate) struct Setting {
    pub(crate) server: HostServer,
    pub(crate) app: Namespace,
    pub(crate) volume: String,
    directory: TempDir,
}

impl Setting {
    /// `config`: settings of the location beside its directories.
    pub(crate) fn new(prefix: &str, config: &str) -> Self {
        Self::with_flags(prefix, config, &[])
    }

    pub(crate) fn with_flags(prefix: &str, config: &str, flags: &[&str]) -> Self {
        let plugin = variable("LIFEBOAT_SNAPSHOTTER_PLUGIN");
        let server = HostServer::with_plugins(prefix, flags, &[("directory-snapshotter", &plugin)]);
        let app = Namespace::new("volumes-app");
        let directory = tempfile::tempdir().unwrap();
        let setting = Self { volume: unique("pv"), server, app, directory };
        for name in ["data/deep", "snapshots", "volumes"] {
            fs::create_dir_all(setting.path(name)).unwrap();
        }
        let random = |bytes| format!("head -c {bytes} /dev/urandom");
        for (file, bytes) in [("data/large", 2_500_000), ("data/deep/small", 500_000)] {
            let command = format!("{} > {}", random(bytes), setting.path(file).display());
            Program::new("sh").args(["-c", &command]).ok();
        }
        setting.apply(config);
        setting
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn apply(&self, config: &str) {
        apply(&format!(
            "apiVersion: velero.io/v1
kind: VolumeSnapshotLocation
metadata: {{name: directories, namespace: {namespace}}}
spec:
  provider: example.io/directory-snapshotter
  config: {{snapshots: {snapshots}, volumes: {volumes}{config}}}
",
            namespace = self.server.namespace,
            snapshots = self.path("snapshots").display(),
            volumes = self.path("volumes").display(),
        ));
        apply(&directory_volume(&self.volume, &self.app.name, &self.path("data").to_string_lossy()));
        bound(&self.app.name);
    }

    /// Starts a backup.
    pub(crate) fn begin(&self, name: &str) {
        let create = ["backup", "create", name, "--include-namespaces", &self.app.name];
        self.server.lifeboat().args(create).args(["--volume-snapshot-locations", "directories"]).ok();
    }

    /// The objects of a kind for this backup.
    pub(crate) fn objects(&self, kind: &str, backup: &str) -> Vec<Value> {
        let list = get(&["-n", &self.server.namespace, kind]);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items
            .into_iter()
            .filter(|item| {
                let labelled = item["metadata"]["labels"]["velero.io/backup-name"] == backup;
                labelled || item["spec"]["backup"] == backup
            })
            .collect()
    }

    fn lose_the_app(&self) {
        delete_namespace(&self.app.name);
        kubectl().args(["delete", "pv", &self.volume]).ok();
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        kubectl().args(["delete", "pv", &self.volume, "--wait=false"]).run();
    }
}

/// `kubectl get -w` during a test.
struct Watch {
    child: Child,
    file: PathBuf,
}

impl Watch {
    fn of(setting: &Setting, kind: &str) -> Self {
        let file = setting.path(kind);
        let columns = "-o=custom-columns=PHASE:.status.phase,DONE:.status.progress.bytesDone";
        let child = Command::new("kubectl")
            .args(["-n", &setting.server.namespace, "get", kind, "-w", "--no-headers", columns])
            .stdout(File::create(&file).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, file }
    }

    /// The distinct byte counts in the order of their appearance.
    fn bytes(mut self) -> Vec<i64> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let text = fs::read_to_string(&self.file).unwrap();
        let mut seen: Vec<i64> =
            text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
        seen.dedup();
        seen
    }
}

fn same(one: &Path, other: &Path) {
    Program::new("diff").args(["-r", &one.to_string_lossy(), &other.to_string_lossy()]).ok();
}

fn only(objects: &[Value]) -> &Value {
    assert_eq!(objects.len(), 1, "one object for each operation: {objects:#?}");
    &objects[0]
}

#[rstest]
#[case::asked(", bytesPerSecond: '600000'", true)]
#[case::object(", bytesPerSecond: '600000', progress: object", true)]
#[case::silent(", bytesPerSecond: '1500000', progress: none", false)]
fn a_volume_comes_back_from_its_snapshot_and_shows_how_far_it_is(#[case] config: &str, #[case] grows: bool) {
    let mut setting = Setting::new("snapshots", config);
    let watch = Watch::of(&setting, "volumepluginbackups");
    setting.begin("one");
    wait_for("an object during the call", 60, || {
        let objects = setting.objects("volumepluginbackups", "one");
        let running = objects.iter().any(|object| object["status"]["completionTimestamp"].is_null());
        if running { Ok(()) } else { Err(format!("{objects:?}")) }
    });
    let server = &setting.server;
    let backup = server.ended("backup", "one");
    server.assert_phase(&backup, &["Completed"]);
    assert_eq!(backup["status"]["volumeSnapshotsCompleted"], 1, "{}", backup["status"]);
    let bytes = watch.bytes();
    if grows {
        assert!(bytes.len() >= 3 && bytes.is_sorted(), "{bytes:?}");
        assert_eq!(bytes.last(), Some(&3_000_000));
    }
    let made = setting.objects("volumepluginbackups", "one");
    let made = only(&made);
    assert_eq!(made["status"]["phase"], "Completed", "{made}");
    assert!(
        made["status"]["completionTimestamp"].is_string() && made["status"]["startTimestamp"].is_string()
    );
    assert_eq!(made["spec"]["volume"], setting.volume.as_str());
    assert_eq!(made["spec"]["plugin"], "example.io/directory-snapshotter");
    let snapshot = made["status"]["snapshotID"].as_str().unwrap().to_owned();
    same(&setting.path("data"), &setting.path("snapshots").join(&snapshot));
    assert_eq!(made["metadata"]["labels"]["velero.io/snapshot-id"], snapshot.as_str(), "{made}");
    let described = server.described("backup", "one");
    for text in [setting.volume.as_str(), &snapshot, "example.io/directory-snapshotter"] {
        assert!(described.contains(text), "{text} is missing in:\n{described}");
    }
    // What the plugin says about its snapshot, whichever way it reports progress.
    assert_eq!(made["spec"]["pluginSpecific"]["method"] == "copy", grows, "{made}");
    assert_eq!(described.contains("method: copy"), grows, "{described}");

    restored(&setting, &snapshot, grows);
    after_everything_was_lost(&mut setting, &snapshot);
    let server = &setting.server;
    server.lifeboat().args(["backup", "delete", "one", "--confirm", "--wait"]).ok();
    assert!(!setting.path("snapshots").join(&snapshot).exists(), "the snapshot goes with its backup");
    wait_for("the end of its object", 60, || {
        let left = setting.objects("volumepluginbackups", "one");
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// Restores the volume; its object goes with the Restore.
fn restored(setting: &Setting, snapshot: &str, grows: bool) {
    let server = &setting.server;
    setting.lose_the_app();
    let watch = Watch::of(setting, "volumepluginrestores");
    let restore = server.restore("one", "one", &[]);
    server.assert_phase(&restore, &["Completed"]);
    let bytes = watch.bytes();
    assert!(!grows || (bytes.len() >= 3 && bytes.is_sorted()), "{bytes:?}");
    let volume = get(&["pv", &bound(&setting.app.name)]);
    let path = PathBuf::from(volume["spec"]["hostPath"]["path"].as_str().unwrap());
    assert!(path.starts_with(setting.path("volumes")), "a new volume: {volume}");
    same(&setting.path("data"), &path);
    let list = get(&["-n", &server.namespace, "volumepluginrestores"]);
    let restored = only(list["items"].as_array().unwrap());
    assert_eq!(restored["status"]["phase"], "Completed", "{restored}");
    assert_eq!(restored["spec"]["snapshotID"], snapshot);
    assert!(restored["status"]["volumeID"].as_str().is_some_and(|id| !id.is_empty()), "{restored}");
    assert_eq!(restored["spec"]["pluginSpecific"]["method"] == "copy", grows, "{restored}");
    assert_eq!(server.described("restore", "one").contains("method: copy"), grows);
    server.lifeboat().args(["restore", "delete", "one", "--confirm"]).ok();
    wait_for("the end of the restore's object", 60, || {
        let left = get(&["-n", &server.namespace, "volumepluginrestores"]);
        if left["items"].as_array().is_some_and(Vec::is_empty) { Ok(()) } else { Err(left.to_string()) }
    });
}

/// Deletes Lifeboat's objects; the bucket is synced again.
fn after_everything_was_lost(setting: &mut Setting, snapshot: &str) {
    setting.server.kill();
    for kind in ["backups.velero.io", "restores.velero.io", "volumepluginbackups", "volumepluginrestores"] {
        let names = setting.server.kubectl().args(["get", kind, "-o", "name"]).ok();
        for name in names.lines() {
            let free = ["patch", name, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
            setting.server.kubectl().args(free).run();
            setting.server.kubectl().args(["delete", name, "--ignore-not-found"]).ok();
        }
    }
    assert!(setting.objects("volumepluginbackups", "one").is_empty());
    setting.server.kill_and_restart();
    let back = wait_for("the synced object", 90, || {
        let objects = setting.objects("volumepluginbackups", "one");
        if objects.is_empty() { Err("none".to_owned()) } else { Ok(objects) }
    });
    let back = only(&back);
    assert_eq!(back["status"]["snapshotID"], snapshot, "{back}");
    assert_eq!(back["status"]["phase"], "Completed", "{back}");
    let described = setting.server.described("backup", "one");
    assert!(described.contains(snapshot), "{described}");
}

/// The recording plugin in Go, which takes no snapshots and records its requests.
#[test]
fn every_method_of_a_snapshotter_in_go_is_called() {
    let server = super::recorder("go-snapshots", &[]);
    let app = Namespace::new("go-volumes");
    let pv = unique("go-pv");
    let location = "{region: here}";
    apply(&format!(
        "apiVersion: velero.io/v1
kind: VolumeSnapshotLocation
metadata: {{name: recorded, namespace: {}}}
spec: {{provider: example.io/snapshotter, config: {location}}}
",
        server.namespace
    ));
    apply(&directory_volume(&pv, &app.name, "/go/data"));
    bound(&app.name);
    let flags = ["--include-namespaces", &app.name, "--volume-snapshot-locations", "recorded"];
    let backup = server.backup("go", &[&flags[..], &["--labels", "team=red"]].concat());
    server.assert_phase(&backup, &["Completed"]);
    let made = &server.recorded("snapshotter", "CreateSnapshot")[0];
    assert_eq!((&made["volume"], &made["config"]["region"]), (&"/go/data".into(), &"here".into()), "{made}");
    for (tag, value) in [("velero.io/backup", "go"), ("velero.io/pv", &pv), ("team", "red")] {
        assert_eq!(made["tags"][tag], value, "{made}");
    }
    delete_namespace(&app.name);
    kubectl().args(["delete", "pv", &pv]).ok();
    server.assert_phase(&server.restore("go", "go", &[]), &["Completed"]);
    let restored = get(&["pv", &bound(&app.name)]);
    assert_eq!(restored["spec"]["hostPath"]["path"], "volume-of-snapshot-of-/go/data", "{restored}");
    let again = &server.recorded("snapshotter", "CreateVolumeFromSnapshot")[0];
    assert_eq!((&again["type"], &again["iops"]), (&"recorded".into(), &100.into()), "{again}");
    server.lifeboat().args(["backup", "delete", "go", "--confirm", "--wait"]).ok();
    for call in ["Init", "GetVolumeID", "GetVolumeInfo", "SetVolumeID", "DeleteSnapshot"] {
        assert!(!server.recorded("snapshotter", call).is_empty(), "{call} was not called");
    }
    kubectl().args(["delete", "pv", restored["metadata"]["name"].as_str().unwrap(), "--wait=false"]).ok();
}

#[test]
fn snapshotters_are_called_in_the_order_of_the_volumes() {
    let server = super::recorder("ordered-snapshots", &[]);
    let apps = ["one", "two", "three"].map(|name| Namespace::new(&format!("ordered-{name}")));
    let volumes: Vec<String> = apps.iter().map(|app| format!("pv-{}", app.name)).collect();
    apply(&format!(
        "apiVersion: velero.io/v1
kind: VolumeSnapshotLocation
metadata: {{name: recorded, namespace: {}}}
spec: {{provider: example.io/snapshotter, config: {{region: here}}}}
",
        server.namespace
    ));
    for (app, volume) in apps.iter().zip(&volumes) {
        apply(&directory_volume(volume, &app.name, &format!("/{volume}")));
        bound(&app.name);
    }
    let namespaces = apps.iter().map(|app| app.name.as_str()).collect::<Vec<_>>().join(",");
    let order = format!("persistentvolumes={},{},{}", volumes[2], volumes[0], volumes[1]);
    let flags = ["--include-namespaces", &namespaces, "--ordered-resources", &order];
    let location = ["--volume-snapshot-locations", "recorded"];
    let backup = server.backup("ordered", &[&flags[..], &location[..]].concat());
    server.assert_phase(&backup, &["Completed"]);
    let asked = server.recorded("snapshotter", "CreateSnapshot");
    let asked: Vec<&str> = asked.iter().filter_map(|call| call["volume"].as_str()).collect();
    let expected = [2, 0, 1].map(|at: usize| format!("/{}", volumes[at]));
    assert_eq!(asked, expected.each_ref().map(String::as_str));
    for volume in &volumes {
        kubectl().args(["delete", "pv", volume, "--wait=false"]).ok();
    }
}

#[test]
fn a_server_killed_during_a_snapshot_makes_no_second_one() {
    let mut setting = Setting::new("snapshots-killed", ", bytesPerSecond: '1000000'");
    setting.begin("killed");
    wait_for("bytes of the snapshot", 60, || {
        let objects = setting.objects("volumepluginbackups", "killed");
        let done = objects.iter().any(|object| object["status"]["progress"]["bytesDone"].as_i64() > Some(0));
        if done { Ok(()) } else { Err(format!("{objects:?}")) }
    });
    setting.server.kill_and_restart();
    let backup = setting.server.ended("backup", "killed");
    setting.server.assert_phase(&backup, &["Completed"]);
    let objects = setting.objects("volumepluginbackups", "killed");
    let made = only(&objects);
    assert!(made["status"]["completionTimestamp"].is_string(), "{made}");
    // What the interrupted call left has another extension: it is no snapshot.
    let entries = fs::read_dir(setting.path("snapshots")).unwrap().flatten().map(|entry| entry.path());
    let whole = entries.filter(|path| path.extension().is_none_or(|extension| extension != "unfinished"));
    let snapshots: Vec<PathBuf> = whole.collect();
    let [snapshot] = snapshots.as_slice() else { panic!("there should be one snapshot: {snapshots:?}") };
    assert_eq!(made["status"]["snapshotID"], snapshot.file_name().unwrap().to_str().unwrap());
    same(&setting.path("data"), snapshot);
    setting.server.no_plugin_runs();
}

#[test]
fn a_snapshot_that_hangs_is_ended_and_named_and_the_rest_is_backed_up() {
    let setting = Setting::with_flags(
        "snapshots-hung",
        ", bytesPerSecond: '1'",
        &["--default-item-operation-timeout", "6s"],
    );
    setting.begin("hung");
    let backup = setting.server.ended("backup", "hung");
    setting.server.assert_phase(&backup, &["PartiallyFailed"]);
    let objects = setting.objects("volumepluginbackups", "hung");
    let made = only(&objects);
    assert_eq!(made["status"]["phase"], "Failed", "{made}");
    assert!(made["status"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{made}");
    let described = setting.server.described("backup", "hung");
    assert!(described.contains(&setting.volume), "{described}");
    setting.server.no_plugin_runs();
}
