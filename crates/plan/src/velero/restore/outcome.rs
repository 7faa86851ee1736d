//! The phase of a restore, derived from its errors. Called by the controller.

use lifeboat_api::velero::RestorePhase;

/// The phase after all items were processed.
pub fn phase_after_items(errors: usize, operations_run: bool) -> RestorePhase {
    match (errors > 0, operations_run) {
        (false, false) => RestorePhase::Finalizing,
        (true, false) => RestorePhase::FinalizingPartiallyFailed,
        (false, true) => RestorePhase::WaitingForPluginOperations,
        (true, true) => RestorePhase::WaitingForPluginOperationsPartiallyFailed,
    }
}

/// The final phase.
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
}
