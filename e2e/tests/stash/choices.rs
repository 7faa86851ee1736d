//! What of a target is stored, and which workloads a restore may stop.

use std::fs;

use lifeboat_e2e::{Engine, RESTORE_SESSIONS, StashTest, condition, contents};

use super::workloads::{deployment, into, put_deployment};

const CONFIGURATION: &str = "BackupConfiguration";

/// Two replicas with files of their own, and a volume of which two directories are mounted.
const SEVERAL: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: files}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts:
        - {name: cache, mountPath: /cache}
        - {name: files, mountPath: /srv/app, subPath: app}
        - {name: files, mountPath: /srv/app/uploads, subPath: uploads}
      volumes:
      - {name: cache, emptyDir: {}}
      - {name: files, persistentVolumeClaim: {claimName: files}}
";

#[test]
fn each_path_is_a_snapshot_of_its_mount_without_what_is_excluded() {
    let test = StashTest::start();
    test.put_repository("repo");
    test.tenant.apply(SEVERAL);
    test.wait_for_ready("web", 2);
    let volume = test.directory("web", 0, "files");
    for (path, text) in [("app/page", "a page"), ("app/big.tmp", "left out"), ("uploads/photo", "a photo")] {
        // The kubelet made the directories for the sub paths.
        fs::write(volume.join(path), text).unwrap();
    }
    let target = "{alias: app, ref: {apiVersion: apps/v1, kind: Deployment, name: web}, \
                  paths: [/srv/app, /cache], exclude: ['*.tmp'], args: [--tag=nightly], \
                  volumeMounts: [{name: files, mountPath: /srv/app, subPath: app}, \
                  {name: files, mountPath: /srv/app/uploads, subPath: uploads}, {name: cache, mountPath: /cache}]}";
    test.put_configuration("nightly", target, "");
    let session = test.run(CONFIGURATION, "nightly", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["app /cache", "app /srv/app"]);
    let list = ["ls", "latest", "--host", "app", "--path", "/srv/app", "--tag", "nightly", "--no-lock"];
    let files = test.repository("repo").ok(Engine::Restic, &list);
    assert!(
        files.contains("/srv/app/page") && !files.contains("big.tmp") && !files.contains("photo"),
        "{files}"
    );
    let of_target = &session["status"]["targets"][0];
    let (status, message) = condition(of_target, "MountBelowPath");
    assert!(status == "True" && message.contains("/srv/app/uploads"), "{of_target:#}");
    let (status, message) = condition(of_target, "OtherReplicasNotBackedUp");
    assert!(status == "True" && message.contains("cache"), "{of_target:#}");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_workload_that_something_else_scales_is_stopped_only_if_that_is_asked_for() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_deployment(&test, "web");
    test.put_configuration("nightly", &deployment("app", "web"), "");
    test.run(CONFIGURATION, "nightly", "Succeeded");
    test.tenant.apply(
        "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: by-load}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
",
    );
    fs::write(test.directory("web", 0, "data").join("which"), "damaged").unwrap();
    let pods = test.undisturbed();
    let spec = format!("  target: {}", into("app", "Deployment", "web"));
    test.restore("refused", &spec, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("by-load") && said.contains("lifeboat.io/force-scale"), "{said}");
    pods.assert_unchanged();
    test.restore("forced", &spec, "lifeboat.io/force-scale: 'true', lifeboat.io/safety-copy: 'false'");
    let forced = test.restored_as(RESTORE_SESSIONS, "forced", "Succeeded");
    assert!(forced["status"]["stats"][0]["safetyCopies"].is_null(), "{:#}", forced["status"]);
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}

/// Names as long as the API server allows; labels, Jobs and snapshots have less room.
#[test]
fn names_at_their_limits_are_backed_up_and_come_back() {
    let test = StashTest::start();
    let (invoker, workload) = ("n".repeat(253), "w".repeat(57));
    let host = format!("{}-last", "h".repeat(248));
    let before = put_deployment(&test, &workload);
    test.put_repository("repo");
    test.put_configuration(&invoker, &deployment(&host, &workload), "");
    test.run(CONFIGURATION, &invoker, "Succeeded");
    test.assert_stored("repo", &host, "/source/data", &before);
    fs::write(test.directory(&workload, 0, "data").join("which"), "damaged").unwrap();
    let restore = "r".repeat(253);
    test.restore(&restore, &format!("  target: {}", into(&host, "Deployment", &workload)), "");
    test.restored_as(RESTORE_SESSIONS, &restore, "Succeeded");
    test.wait_for_ready(&workload, 1);
    before.assert_same(&contents(&test.directory(&workload, 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}
