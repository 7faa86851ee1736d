//! What must not be left after a session: objects of movers, locks, refusals of the API server; and what must never be in a tenant's
//! namespace: the credentials of a Repository elsewhere.

use std::fs;

use serde_json::Value;

use super::{PASSWORD, StashTest};
use crate::{Engine, Program, kubectl, s3, wait_for};

/// What movers make.
const KINDS: &str = "jobs,pods,secrets,persistentvolumeclaims,volumesnapshots";

impl StashTest {
    /// Fails unless no Job, pod, Secret, claim or snapshot of a mover is left, and no lock.
    pub fn assert_nothing_is_left(&self, repository: &str) {
        self.assert_no_mover_or_lock_is_left(repository);
        let events = self.tenant.kubectl().args(["get", "events", "-o", "wide"]).ok();
        // A kubelet may look for a claim before the API server's authorizer knows that a pod of its node uses it.
        let is_refusal = |event: &&str| event.contains("orbidden") && !event.contains("\"system:node:");
        let refused: Vec<&str> = events.lines().filter(is_refusal).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }

    /// Fails unless nothing that movers made is left, and no lock; the API server may have refused something.
    pub fn assert_no_mover_or_lock_is_left(&self, repository: &str) {
        self.assert_no_mover_is_left();
        let locks = self.repository(repository).ok(Engine::Restic, &["list", "locks", "--no-lock"]);
        assert_eq!(locks.trim(), "", "locks are left");
    }

    /// Fails unless nothing that movers made is left, in the tenant's namespace or for it in that of the movers.
    pub fn assert_no_mover_is_left(&self) {
        wait_for("the end of what movers used", 90, || {
            let left = self.left();
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
    }

    /// What movers made for this tenant and is there now.
    pub fn left(&self) -> Vec<String> {
        [self.left_in_the_tenants_namespace(), self.left_elsewhere()].concat()
    }

    fn left_in_the_tenants_namespace(&self) -> Vec<String> {
        let found = self.tenant.kubectl().args(["get", KINDS, "-o", "name"]).ok();
        let of_mover = |line: &&str| line.contains("/mover-") || line.contains("/lifeboat-");
        found.lines().filter(of_mover).map(str::to_owned).collect()
    }

    /// Objects in the movers' namespace that name this tenant: other tests have movers there at the same time.
    fn left_elsewhere(&self) -> Vec<String> {
        let text = kubectl().args(["-n", &self.server.movers(), "get", KINDS, "-o", "json"]).ok();
        let list: Value = serde_json::from_str(&text).unwrap();
        let tenant = format!("\"{}\"", self.tenant.name);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let of_tenant = items.iter().filter(|item| item.to_string().contains(&tenant));
        of_tenant.map(|item| format!("{} {}", item["kind"], item["metadata"]["name"])).collect()
    }

    /// The pods of movers in the tenant's namespace.
    pub fn movers(&self) -> Vec<Value> {
        let list =
            crate::get(&["-n", &self.tenant.name, "pods", "-l", "app.kubernetes.io/name=lifeboat-mover"]);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until so many movers run in the tenant's namespace; gives their pods.
    pub fn wait_for_movers(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} movers"), 60, || {
            let pods = self.movers();
            let running: Vec<Value> =
                pods.iter().filter(|pod| pod["status"]["phase"] == "Running").cloned().collect();
            if running.len() == count {
                Ok(running)
            } else {
                Err(format!("{} of {}", running.len(), pods.len()))
            }
        })
    }

    /// Fails if the keys of the storage are in any object of the tenant's namespace, in the log or the arguments of a container there,
    /// or in the server's log; or the password of the repository anywhere but in a Secret: it goes along with a mover by design.
    pub fn assert_no_credentials(&self) {
        let s3 = s3();
        let keys = [("secret key", s3.secret_key.as_str()), ("access key", s3.access_key.as_str())];
        for (place, text) in self.readable() {
            for (name, secret) in keys.into_iter().chain([("password", PASSWORD)]) {
                assert_absent(&place, &text, name, secret);
            }
        }
        for (place, text) in self.decoded_secrets() {
            for (name, key) in keys {
                assert_absent(&place, &text, name, key);
            }
        }
    }

    /// All that a user of the namespace can read there except for Secrets, and the server's log; each with its place.
    fn readable(&self) -> Vec<(String, String)> {
        let kinds =
            kubectl().args(["api-resources", "--namespaced", "--verbs=list", "-o", "name"]).run().stdout;
        let kinds: Vec<&str> = kinds.lines().filter(|kind| *kind != "secrets").collect();
        assert!(kinds.contains(&"jobs.batch"), "{kinds:?}");
        let objects = self.kubectl().args(["get", &kinds.join(","), "-o", "json"]).run().stdout;
        let list: Value = serde_json::from_str(&objects).unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let named =
            |item: &Value| (format!("{} {}", item["kind"], item["metadata"]["name"]), item.to_string());
        let mut texts: Vec<_> = items.iter().map(named).collect();
        texts.push(("the server's log".to_owned(), self.server.log_text()));
        for pod in self.movers() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let log = self.kubectl().args(["logs", name, "--all-containers"]).run();
            texts.push((format!("the log of pod {name}"), log.stdout));
            texts.extend(arguments_of(&pod));
        }
        texts
    }

    /// The values of the namespace's Secrets as they are.
    pub fn decoded_secrets(&self) -> Vec<(String, String)> {
        let list = crate::get(&["-n", &self.tenant.name, "secrets"]);
        let secrets = list["items"].as_array().cloned().unwrap_or_default();
        let values = |secret: &Value| -> Vec<(String, String)> {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let data = secret["data"].as_object().cloned().unwrap_or_default();
            let value = |value: &Value| decoded(value.as_str().unwrap_or_default());
            data.values().map(|each| (format!("Secret {name}"), value(each))).collect()
        };
        secrets.iter().flat_map(values).collect()
    }
}

/// The text whose base64 this is.
fn decoded(base64: &str) -> String {
    Program::new("base64").arg("-d").input(base64).run().stdout
}

/// The arguments of all processes of a pod, which run on this machine.
fn arguments_of(pod: &Value) -> Vec<(String, String)> {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut found = Vec::new();
    for process in processes {
        let of_pod =
            fs::read_to_string(process.path().join("cgroup")).is_ok_and(|groups| groups.contains(uid));
        if of_pod && let Ok(line) = fs::read(process.path().join("cmdline")) {
            found.push((format!("arguments of {uid}"), String::from_utf8_lossy(&line).into_owned()));
        }
    }
    found
}

/// Fails if a text has a secret, as it is or encoded as in the data of a Secret.
fn assert_absent(place: &str, text: &str, name: &str, secret: &str) {
    let encoded = Program::new("base64").arg("-w0").input(secret).ok();
    for form in [secret, encoded.trim_end_matches('=')] {
        // The text is not shown: it has the secret.
        assert!(!text.contains(form), "{place} has the {name}");
    }
}
