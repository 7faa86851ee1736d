//! What a restore ends as: the word for each item, and the phase from what went wrong. Asked by the executor and the
//! controller.

use lifeboat_api::velero::RestorePhase;

/// What became of an item, in the words of upstream's resource list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemEnd {
    Created,
    Updated,
    Failed,
    Skipped,
}

impl ItemEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// The word where nobody gave one: an item with neither warning nor error was left out on purpose.
    pub fn of(given: Option<Self>, troubled: bool) -> Self {
        given.unwrap_or(if troubled { Self::Failed } else { Self::Skipped })
    }
}

/// The phase after the items.
pub fn phase_after_items(errors: usize, operations_run: bool) -> RestorePhase {
    match (errors > 0, operations_run) {
        (false, false) => RestorePhase::Finalizing,
        (true, false) => RestorePhase::FinalizingPartiallyFailed,
        (false, true) => RestorePhase::WaitingForPluginOperations,
        (true, true) => RestorePhase::WaitingForPluginOperationsPartiallyFailed,
    }
}

/// The phase at the end.
pub fn end_phase(errors: usize) -> RestorePhase {
    if errors > 0 { RestorePhase::PartiallyFailed } else { RestorePhase::Completed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_anywhere_makes_the_end_partial() {
        assert_eq!(phase_after_items(0, false), RestorePhase::Finalizing);
        assert_eq!(phase_after_items(1, true), RestorePhase::WaitingForPluginOperationsPartiallyFailed);
        assert_eq!(end_phase(1), RestorePhase::PartiallyFailed);
        assert_eq!(end_phase(0), RestorePhase::Completed);
    }

    #[test]
    fn an_item_without_a_word_of_its_own_failed_or_was_skipped() {
        assert_eq!(ItemEnd::of(None, true).as_str(), "failed");
        assert_eq!(ItemEnd::of(None, false).as_str(), "skipped");
        assert_eq!(ItemEnd::of(Some(ItemEnd::Created), true), ItemEnd::Created);
    }
}
