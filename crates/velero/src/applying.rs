//! Asks actions which items they are for, once for each backup, restore or deletion. An action that does not say it in a way
//! that can be used is left out, with words for the results; the others run. The rules of who is for what are
//! [`lifeboat_plugin::Applies`]'s, which are upstream's.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_plan::catalogue::Catalogue;
use lifeboat_plugin::actions::{
    AppliesTo, BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction,
};
use lifeboat_plugin::{ActionError, Applies};
use tokio::time::timeout;

/// How long an action may take to say what it is for. The host's own limits for start and answer, which say more of what went
/// wrong, are over before.
const SAYS: Duration = Duration::from_mins(3);

/// An action, and what it is for.
pub(crate) struct Applying<A: ?Sized> {
    pub(crate) action: Arc<A>,
    pub(crate) applies: Applies,
}

/// What every kind of action says of itself.
#[async_trait]
pub(crate) trait Says: Send + Sync {
    fn called(&self) -> &str;
    async fn is_for(&self) -> Result<AppliesTo, ActionError>;
}

macro_rules! says {
    ($($kind:ident),*) => {$(
        #[async_trait]
        impl Says for dyn $kind {
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

/// Those that said it, in their order; and of each of the others why it is left out. All are asked at once: a program that
/// hangs delays only its own answer.
pub(crate) async fn applying<A: Says + ?Sized>(
    actions: &[Arc<A>],
    catalogue: &Catalogue,
) -> (Vec<Applying<A>>, Vec<String>) {
    let asked = actions.iter().map(|action| async move {
        let answer = timeout(SAYS, action.is_for()).await;
        let answer = answer.unwrap_or_else(|_| Err(ActionError::Failed("no answer in time".to_owned())));
        answer.and_then(|applies| Applies::new(action.called(), &applies, catalogue))
    });
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for (action, answer) in actions.iter().zip(futures::future::join_all(asked).await) {
        match answer {
            Ok(applies) => found.push(Applying { action: Arc::clone(action), applies }),
            Err(error) => left_out.push(format!(
                "action {} was not run for any item: it did not say which items it is for: {error}",
                action.called()
            )),
        }
    }
    (found, left_out)
}
