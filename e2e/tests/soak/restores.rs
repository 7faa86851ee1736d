//! A Deployment and a StatefulSet are restored with exactly their old pods, repeatedly.

use std::collections::BTreeMap;

use lifeboat_e2e::{
    HostServer, Namespace, assert_same_objects, get, kubectl, objects_of, wait_until_running,
};
use serde_json::Value;

const TIMES: usize = 20;

const APP: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
";

#[test]
fn workloads_come_back_with_their_old_pods() {
    let server = HostServer::start("soakpods", &[]);
    let app = Namespace::new("soakpods-app");
    app.apply(APP);
    wait_until_running(&app.name);
    let before = objects_of(&app.name);
    server.lifeboat().args(["backup", "create", "whole", "--include-namespaces", &app.name]).ok();
    server.assert_phase(&server.ended("backup", "whole"), &["Completed"]);
    for time in 1..=TIMES {
        kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
        let name = format!("restore-{time}");
        server.lifeboat().args(["restore", "create", &name, "--from-backup", "whole"]).ok();
        server.assert_phase(&server.ended("restore", &name), &["Completed"]);
        wait_until_running(&app.name);
        assert_same_objects(&before, &objects_of(&app.name));
        let made = created(&app.name);
        println!("restore {time}: {} pods, none but the old ones was made: {made:?}", made.len());
        assert_eq!(made.len(), 6, "{made:?}");
    }
}

/// Every pod that the namespace has had since it was restored, from the scheduler's events: including pods that were
/// deleted at once.
fn created(namespace: &str) -> BTreeMap<String, usize> {
    let events = get(&["-n", namespace, "events"]);
    let mut made = BTreeMap::new();
    for event in events["items"].as_array().unwrap() {
        if event["reason"] == "Scheduled" {
            let name = event["involvedObject"]["name"].as_str().map(str::to_owned);
            *made.entry(name.unwrap_or_else(|| Value::to_string(event))).or_default() += 1;
        }
    }
    made
}
