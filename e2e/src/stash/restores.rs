//! Restores in a tenant's namespace: creates them and waits for their end.

use serde_json::Value;

use super::StashTest;
use crate::{Fault, get, wait_for};

pub const RESTORE_SESSIONS: &str = "restoresessions.stash.appscode.com";
pub const RESTORE_BATCHES: &str = "restorebatches.stash.appscode.com";

impl StashTest {
    /// Creates a RestoreSession on Repository `repo`; `spec` is lines of YAML, `annotations` the inside of a map.
    pub fn restore(&self, name: &str, spec: &str, annotations: &str) {
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: RestoreSession
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec:
  repository: {{name: repo}}
{spec}
"
        ));
    }

    /// Begins restore `back`, and waits until the mover that writes waits for storage, which holds all that it reads of the data.
    pub fn hold_restore(&self, spec: &str) {
        let mut is_copied = false;
        self.storage.close_where(Fault::Hold, 0, usize::MAX, move |method, path| {
            // The safety copy is stored; what is read next is the restore's own.
            is_copied |= method == "PUT" && path.contains("/snapshots/");
            is_copied && method == "GET" && path.contains("/data/")
        });
        self.restore("back", spec, "");
        self.storage.wait_until_reached(120);
    }

    /// Creates a RestoreBatch on Repository `repo`; each member is a map in YAML, `more` are lines of the spec.
    pub fn restore_batch(&self, name: &str, members: &[String], more: &str) {
        let members: Vec<String> = members.iter().map(|member| format!("  - {member}\n")).collect();
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: RestoreBatch
metadata: {{name: {name}}}
spec:
  repository: {{name: repo}}
  members:
{}{more}",
            members.join("")
        ));
    }

    /// A restore as it is now.
    pub fn restore_now(&self, kind: &str, name: &str) -> Value {
        get(&["-n", &self.tenant.name, kind, name])
    }

    /// Waits for the end of a restore; gives it.
    pub fn restored(&self, kind: &str, name: &str) -> Value {
        wait_for(&format!("the end of {kind} {name}"), 240, || {
            let found = self.restore_now(kind, name);
            match found["status"]["phase"].as_str() {
                Some("Succeeded" | "Failed" | "Invalid") => Ok(found),
                _ => Err(found["status"].to_string()),
            }
        })
    }

    /// Waits for the end of a restore, which must be this one; gives it.
    pub fn restored_as(&self, kind: &str, name: &str, phase: &str) -> Value {
        let found = self.restored(kind, name);
        assert_eq!(found["status"]["phase"], phase, "{kind} {name}: {:#}", found["status"]);
        found
    }

    /// The scale of a workload, as its spec has it.
    pub fn replicas(&self, kind: &str, name: &str) -> Value {
        get(&["-n", &self.tenant.name, kind, name])["spec"]["replicas"].clone()
    }
}
