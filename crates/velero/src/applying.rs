//! Asks each action once per backup, restore or deletion which items it applies to. An action whose answer cannot be
//! used is left out, with a message for the results; the others run. The selection rules are those of
//! [`lifeboat_plugin::Applies`], which follow upstream.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plugin::actions::{
    AppliesTo, BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction,
};
use lifeboat_plugin::{ActionError, Applies};
use tokio::time::timeout;

/// How long an action may take to answer. The plugin host's own time limits for start and answer, whose messages are
/// more precise, are shorter.
const ANSWER_LIMIT: Duration = Duration::from_mins(3);

/// An action, and the items it applies to.
pub(crate) struct Applying<A: ?Sized> {
    pub(crate) action: Arc<A>,
    pub(crate) applies: Applies,
}

/// An action of any kind that can be asked for its name and for the items it applies to.
#[async_trait]
pub(crate) trait AppliesQuery: Send + Sync {
    fn called(&self) -> &str;
    async fn is_for(&self) -> Result<AppliesTo, ActionError>;
}

macro_rules! says {
    ($($kind:ident),*) => {$(
        #[async_trait]
        impl AppliesQuery for dyn $kind {
            fn called(&self) -> &str {
                self.name()
            }
            async fn is_for(&self) -> Result<AppliesTo, ActionError> {
                self.applies_to().await
            }
        }
    )*};
}

says!(BackupItemAction, ItemBlockAction, RestoreItemAction, DeleteItemAction);

/// Returns the actions that answered, in their order, and a message for each of the others. All are asked at once, so
/// that a program that hangs delays only its own answer.
pub(crate) async fn applying<A: AppliesQuery + ?Sized>(
    actions: &[Arc<A>],
    catalogue: &Catalogue,
) -> (Vec<Applying<A>>, Vec<String>) {
    let asked = actions.iter().map(|action| async move {
        let answer = timeout(ANSWER_LIMIT, action.is_for()).await;
        let answer = answer.unwrap_or_else(|_| Err(ActionError::Failed("no answer in time".to_owned())));
        answer.and_then(|applies| Applies::new(action.called(), &applies, catalogue))
    });
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for (action, answer) in actions.iter().zip(futures::future::join_all(asked).await) {
        match answer {
            Ok(applies) => found.push(Applying { action: Arc::clone(action), applies }),
            Err(error) => left_out.push(format!(
                "action {} was not run for any item: it did not report which items it applies to: {error}",
                action.called()
            )),
        }
    }
    (found, left_out)
}
