//! The stages after the items: operations, cancelling, newly provisioned volumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use lifeboat_api::velero::Restore;
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::{OperationPhase, RestoreOperation};
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, Lookup, OperationProgress, RestoreInput, RestoreItemAction, RestoreOutcome,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::setting::{Setting, files, shop};

type Answer = Box<dyn Fn(usize) -> OperationProgress + Send + Sync>;

/// Starts an operation for each ConfigMap; a function gives its progress, by the number of the poll.
struct Fills {
    answer: Answer,
    asked: AtomicUsize,
    cancelled: AtomicUsize,
}

impl Fills {
    fn new(answer: impl Fn(usize) -> OperationProgress + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            asked: AtomicUsize::default(),
            cancelled: AtomicUsize::default(),
        })
    }
}

#[async_trait]
impl RestoreItemAction for Fills {
    fn name(&self) -> &'static str {
        "example.com/fills"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["configmaps"]))
    }

    async fn execute(&self, input: RestoreInput<'_>, _: &dyn Lookup) -> Result<RestoreOutcome, ActionError> {
        let name = input.item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(RestoreOutcome { operation_id: Some(format!("op-{name}")), ..RestoreOutcome::item(input.item) })
    }

    fn may_operate(&self) -> bool {
        true
    }

    async fn progress(&self, _: &str, _: &Restore) -> Result<OperationProgress, ActionError> {
        Ok((self.answer)(self.asked.fetch_add(1, Ordering::Relaxed)))
    }

    async fn cancel(&self, _: &str, _: &Restore) -> Result<(), ActionError> {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn running() -> OperationProgress {
    OperationProgress { done: 1, total: 2, units: "bytes".into(), ..OperationProgress::default() }
}

fn ended(error: &str) -> OperationProgress {
    OperationProgress {
        completed: true,
        error: error.into(),
        done: 2,
        total: 2,
        ..OperationProgress::default()
    }
}

async fn filled(action: Arc<Fills>, spec: serde_json::Value) -> Setting {
    let mut setting = Setting::holding(spec, &shop()).await;
    setting.actions = vec![action];
    setting
}

#[tokio::test]
async fn a_restore_waits_for_operations_in_the_background() {
    let setting = filled(Fills::new(|count| if count < 3 { running() } else { ended("") }), json!({})).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    let phases = setting.phases();
    assert_eq!(phases.first().map(String::as_str), Some("WaitingForPluginOperations"));
    assert_eq!(phases[phases.len() - 2..], ["Finalizing", "Completed"], "{phases:?}");
    assert_eq!(status["restoreItemOperationsAttempted"], 3);
    assert_eq!(status["restoreItemOperationsCompleted"], 3);
    let operations: Vec<RestoreOperation> = setting.get(&files().item_operations()).await;
    assert!(operations.iter().all(|one| one.status.phase == OperationPhase::Completed), "{operations:?}");
    assert_eq!((operations[0].status.n_completed, operations[0].spec.restore_uid.as_str()), (2, "ru"));
}

#[tokio::test]
async fn an_operation_that_fails_makes_the_restore_partial_and_is_named() {
    let answer = |count| if count == 1 { ended("the disk is full") } else { ended("") };
    let setting = filled(Fills::new(answer), json!({})).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    assert_eq!(setting.phases()[1..], ["FinalizingPartiallyFailed", "PartiallyFailed"]);
    assert_eq!((&status["restoreItemOperationsFailed"], &status["errors"]), (&json!(1), &json!(1)));
    let errors = setting.results().await.errors;
    let message = &errors.namespaces["shop"][0];
    assert!(
        message.starts_with("operation op-") && message.ends_with("failed: the disk is full"),
        "{message}"
    );
}

#[tokio::test]
async fn an_operation_whose_time_is_over_is_cancelled() {
    let action = Fills::new(|_| running());
    let setting = filled(action.clone(), json!({"itemOperationTimeout": "1ms"})).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    assert_eq!(action.cancelled.load(Ordering::Relaxed), 3);
    let message = setting.results().await.errors.namespaces["shop"][0].clone();
    assert!(message.contains("did not end in time (spec.itemOperationTimeout)"), "{message}");
}

#[tokio::test]
async fn another_server_goes_on_with_the_operations_and_keeps_the_results() {
    let setting = filled(Fills::new(|_| running()), json!({})).await;
    let action = Fills::new(|_| ended(""));
    {
        let waiting = async {
            while setting.status()["phase"] != "WaitingForPluginOperations" {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = setting.run() => panic!("operations are open"),
            () = waiting => {}
        }
    }
    let created = setting.server.created().len();
    let setting = Setting { actions: vec![action], ..setting };
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    assert_eq!(status["restoreItemOperationsCompleted"], 3);
    assert_eq!(setting.server.created().len(), created, "nothing is restored again");
    // A plugin that is gone cannot tell.
    let setting = Setting { actions: Vec::new(), ..setting };
    let open = RestoreOperation::default();
    setting.put(&files().item_operations(), &vec![open]).await;
    let path = "/apis/velero.io/v1/namespaces/lifeboat/restores/r";
    setting.set_status(path, json!({"phase": "WaitingForPluginOperations"}));
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
}

#[tokio::test]
async fn a_restore_that_is_cancelled_while_it_waits_cancels_its_operations_and_ends() {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let action = Fills::new(move |count| {
        if count == 5 {
            token.cancel();
        }
        running()
    });
    let mut setting = filled(action.clone(), json!({})).await;
    setting.cancel = cancel;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Failed", "{status}");
    assert!(status["failureReason"].as_str().unwrap().contains("was cancelled"), "{status}");
    assert_eq!(action.cancelled.load(Ordering::Relaxed), 3);
    let operations: Vec<RestoreOperation> = setting.get(&files().item_operations()).await;
    assert!(operations.iter().all(|one| one.status.phase == OperationPhase::Failed));
}

#[tokio::test]
async fn a_restore_that_is_cancelled_early_creates_nothing() {
    let setting = Setting::holding(json!({}), &shop()).await;
    setting.cancel.cancel();
    let status = setting.run().await;
    assert_eq!(status["phase"], "Failed", "{status}");
    assert!(status["failureReason"].as_str().unwrap().contains("cancelled"), "{status}");
    assert!(setting.server.created().is_empty());
}

#[tokio::test]
async fn a_volume_that_is_made_anew_gets_back_its_policy_and_labels() {
    let items = [
        ("/v1/namespaces", "shop", json!({})),
        ("/v1/persistentvolumeclaims", "shop/data", json!({"spec": {"volumeName": "old"}})),
        ("/v1/persistentvolumes", "old", json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})),
    ];
    let spec = json!({"namespaceMapping": {"shop": "copy"}, "restorePVs": false});
    let setting = Setting::holding(spec, &items).await;
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "old", "backupMethod": "PodVolumeBackup",
        "pvInfo": {"reclaimPolicy": "Retain", "labels": {"tier": "gold"}}}]);
    setting.put(&BackupFiles::new("b").unwrap().volume_info(), &info).await;
    let new = json!({"metadata": {"name": "made-anew"}, "status": {"phase": "Bound"}, "spec":
        {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "copy", "name": "data"}}});
    let path = "/api/v1/persistentvolumes/made-anew";
    setting.server.put(path, new);
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    let volume = setting.object(path).unwrap();
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(volume["metadata"]["labels"], json!({"tier": "gold"}));
    assert!(setting.object("/api/v1/persistentvolumes/old").is_none());
}

#[tokio::test]
async fn a_claim_that_is_never_bound_ends_the_wait_with_an_error() {
    let items = [("/v1/persistentvolumeclaims", "shop/data", json!({}))];
    let mut setting = Setting::holding(json!({"restorePVs": false}), &items).await;
    setting.settings.restore.resource_timeout = std::time::Duration::ZERO;
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "backupMethod": "CSISnapshot",
        "pvInfo": {"reclaimPolicy": "Retain", "labels": null}}]);
    setting.put(&BackupFiles::new("b").unwrap().volume_info(), &info).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let message = setting.results().await.errors.namespaces["shop"][0].clone();
    assert!(message.contains("was not bound in time (--resource-timeout)"), "{message}");
}

#[tokio::test]
async fn errors_that_were_told_before_a_restart_are_not_forgotten() {
    let setting = Setting::holding(json!({}), &shop()).await;
    let path = "/apis/velero.io/v1/namespaces/lifeboat/restores/r";
    setting.set_status(path, json!({"phase": "FinalizingPartiallyFailed", "errors": 2}));
    let status = setting.run().await;
    assert_eq!((&status["phase"], &status["errors"]), (&json!("PartiallyFailed"), &json!(2)));
    assert!(setting.server.created().is_empty(), "the items are done");
}
