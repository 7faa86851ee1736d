//! Actions of functions: the one adapter with which tests of backups, restores and deletions say what an action does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::velero::{Backup, Restore};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, BackupItemAction, BackupOutcome, Lookup, OperationProgress, RestoreInput,
    RestoreItemAction, RestoreOutcome,
};
use serde_json::Value;

type Function<In, Out> = Box<dyn Fn(In) -> Result<Out, ActionError> + Send + Sync>;
type Ready = Box<dyn Fn(usize, &[ItemId]) -> Result<bool, ActionError> + Send + Sync>;

/// An action for the types that it was made for.
pub(crate) struct Acts<Out> {
    applies: Result<AppliesTo, ActionError>,
    execute: Function<Value, Out>,
    ready: Option<Ready>,
    operates: bool,
    /// Names of the items that it was called for.
    pub(crate) called: Mutex<Vec<String>>,
    /// The items of each question whether they are ready.
    pub(crate) asked: Mutex<Vec<Vec<ItemId>>>,
    /// How long each answer may take.
    pub(crate) limits: Mutex<Vec<Duration>>,
    pub(crate) cancelled: Mutex<Vec<String>>,
    questions: AtomicUsize,
}

impl<Out> Acts<Out> {
    pub(crate) fn on(
        types: &[&str],
        execute: impl Fn(Value) -> Result<Out, ActionError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            applies: Ok(AppliesTo::resources(types)),
            execute: Box::new(execute),
            ready: None,
            operates: false,
            called: Mutex::default(),
            asked: Mutex::default(),
            limits: Mutex::default(),
            cancelled: Mutex::default(),
            questions: AtomicUsize::new(0),
        }
    }

    /// It cannot say what it is for.
    pub(crate) fn mute(mut self) -> Self {
        self.applies = Err(ActionError::Failed("it crashed".to_owned()));
        self
    }

    /// Says whether additional items are ready, by the number of the question.
    pub(crate) fn ready(
        mut self,
        ready: impl Fn(usize, &[ItemId]) -> Result<bool, ActionError> + Send + Sync + 'static,
    ) -> Self {
        self.ready = Some(Box::new(ready));
        self
    }

    /// It never answers whether items are ready.
    pub(crate) fn silent(mut self) -> Self {
        self.ready = None;
        self.questions = AtomicUsize::new(usize::MAX);
        self
    }

    pub(crate) fn operating(mut self) -> Self {
        self.operates = true;
        self
    }

    pub(crate) fn calls(&self) -> usize {
        self.called.lock().unwrap().len()
    }

    fn call(&self, item: Value) -> Result<Out, ActionError> {
        self.called.lock().unwrap().push(item["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        (self.execute)(item)
    }
}

#[async_trait]
impl RestoreItemAction for Acts<RestoreOutcome> {
    fn name(&self) -> &'static str {
        "example.io/acts"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        self.applies.clone()
    }

    async fn execute(&self, input: RestoreInput<'_>, _: &dyn Lookup) -> Result<RestoreOutcome, ActionError> {
        self.call(input.item)
    }

    fn may_operate(&self) -> bool {
        self.operates
    }

    async fn are_ready(
        &self,
        items: &[ItemId],
        _: &Restore,
        _: &dyn Lookup,
        limit: Duration,
    ) -> Result<bool, ActionError> {
        self.limits.lock().unwrap().push(limit);
        self.asked.lock().unwrap().push(items.to_vec());
        if self.questions.load(Ordering::Relaxed) == usize::MAX {
            return std::future::pending().await;
        }
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        self.ready.as_ref().map_or(Ok(true), |ready| ready(number, items))
    }

    async fn progress(&self, _: &str, _: &Restore) -> Result<OperationProgress, ActionError> {
        Ok(OperationProgress { completed: true, ..OperationProgress::default() })
    }

    async fn cancel(&self, operation: &str, _: &Restore) -> Result<(), ActionError> {
        self.cancelled.lock().unwrap().push(operation.to_owned());
        Ok(())
    }
}

#[async_trait]
impl BackupItemAction for Acts<BackupOutcome> {
    fn name(&self) -> &'static str {
        "example.io/acts"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        self.applies.clone()
    }

    async fn execute(&self, item: Value, _: &Backup, _: &dyn Lookup) -> Result<BackupOutcome, ActionError> {
        self.call(item)
    }
}
