//! Hooks around a snapshot, and pods that go away between them.

use std::sync::Mutex;

use async_trait::async_trait;
use lifeboat_cluster::exec::{Commands, ExecError, ExecOutput, ExecRequest};

use super::*;

/// Hooks that note whether the snapshot was ready when they ran. After `release` the storage has uploaded everything.
struct NotedWithReadiness {
    server: ApiServer,
    noted: Mutex<Vec<String>>,
}

#[async_trait]
impl Commands for NotedWithReadiness {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        let command = request.command.join(" ");
        let paths = self.server.paths(&format!("{SNAPSHOTS}/"));
        let is_ready =
            |path: &String| self.server.get(path).is_some_and(|one| one["status"]["readyToUse"] == true);
        locked(&self.noted).push(format!("{command}: {}", paths.iter().any(is_ready)));
        if command == "release" {
            for path in paths {
                self.server.change(&path, &json!({"status": {"readyToUse": true}}));
            }
        }
        Ok(ExecOutput::default())
    }
}

/// Runs a session with a hook after the host; gives it, and the hooks that ran.
async fn run_with_hooks(driver: Driver, after: &Value) -> (Value, Vec<String>) {
    let mut shop = shop(driver).await;
    let hooks = json!({"preBackup": {"exec": {"command": ["quiesce"]}}, "postBackup": after});
    // A hook that waited for the upload would wait until the timeOut.
    put_configuration(&shop, "nightly", &json!({"hooks": hooks, "timeOut": "20s"}));
    let commands = NotedWithReadiness { server: shop.world.server.clone(), noted: Mutex::default() };
    let commands = Arc::new(commands);
    shop.world.context.commands = commands.clone();
    let session = run(&shop, 1_700_000_100).await;
    let noted = locked(&commands.noted).clone();
    (session, noted)
}

#[tokio::test]
async fn the_pod_is_released_as_soon_as_the_snapshot_is_taken_and_the_host_ends_when_it_is_ready() {
    let after = json!({"exec": {"command": ["release"]}});
    let (session, noted) = run_with_hooks(Driver::StillUploads, &after).await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(noted, ["quiesce: false", "release: false"]);
    assert_eq!(host(&session, 0)["consistency"], "Quiesced");
    assert_eq!(host(&session, 0)["postHook"], "Succeeded");
}

/// A pod that is gone as soon as it was quiesced.
struct GoneAfterQuiesce(ApiServer);

#[async_trait]
impl Commands for GoneAfterQuiesce {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        assert_eq!(request.command, ["quiesce"], "no other pod gets a hook");
        self.0.remove("/api/v1/namespaces/shop/pods/web-1");
        Ok(ExecOutput::default())
    }
}

#[tokio::test]
async fn no_snapshot_is_begun_once_the_quiesced_pod_was_replaced_and_one_that_was_begun_stays() {
    for begun in [false, true] {
        let mut shop = shop(Driver::TakesAtOnce).await;
        let hooks = json!({"preBackup": {"exec": {"command": ["quiesce"]}},
            "postBackup": {"exec": {"command": ["release"]}}});
        put_configuration(&shop, "nightly", &json!({"hooks": hooks}));
        if begun {
            // By a server that died before it noted the snapshot.
            occupied(&shop, &json!({"lifeboat.io/backup-session": "uid-nightly-1700000100"}));
        }
        shop.world.context.commands = Arc::new(GoneAfterQuiesce(shop.world.server.clone()));
        let session = run(&shop, 1_700_000_100).await;
        assert_eq!(phase(&session), "Failed", "{session}");
        assert_eq!(names(&shop).len(), usize::from(begun), "{session}");
        assert_eq!(error(&session).contains("was replaced before the host was read"), !begun, "{session}");
        assert!(error(&session).contains("the hook after the host failed"), "{session}");
    }
}

#[tokio::test]
async fn a_hook_that_depends_on_the_end_of_the_host_waits_for_it() {
    let after = json!({"executionPolicy": "OnSuccess", "exec": {"command": ["report"]}});
    let (session, noted) = run_with_hooks(Driver::UploadsOnceSeen, &after).await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(noted, ["quiesce: false", "report: true"]);
    // A snapshot that fails after it was taken is no success.
    let after = json!({"executionPolicy": "OnFailure", "exec": {"command": ["alarm"]}});
    let (session, noted) = run_with_hooks(Driver::LosesOnceSeen, &after).await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(noted, ["quiesce: false", "alarm: false"]);
}
