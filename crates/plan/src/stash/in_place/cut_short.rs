//! The record of a standstill whose restore is ended without its movers and without a look at the cluster, because requests of the restore
//! fail for too long.

use super::standstill::{Action, Standstill, Step};

/// What the hosts of the restore say about its data. Its movers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftData {
    /// All of it was restored.
    Whole,
    /// Nothing was written.
    Untouched,
    /// It may be half restored.
    Half,
}

impl Standstill {
    /// The record to go on with: the workload is started (step Starting), or it stays down. `data`: what a restore that was at step
    /// Restoring, or after it, did.
    #[must_use]
    pub fn cut_short(&self, reason: &str, data: LeftData) -> Self {
        let action = match data {
            _ if self.step.is_end() || self.step == Step::Starting => return self.clone(),
            _ if self.step < Step::Restoring => self.as_before(reason.to_owned()),
            LeftData::Untouched => self.as_before(reason.to_owned()),
            LeftData::Whole => return Self { step: Step::Starting, ..self.clone() },
            LeftData::Half => self.held(reason, 0),
        };
        if let Action::Write(record) = action { *record } else { self.clone() }
    }

    /// The record after the workload was started.
    #[must_use]
    pub fn started(&self) -> Self {
        Self { step: Step::Started, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::{RestoreName, StopPlan};
    use super::*;
    use crate::stash::hosts::TargetKind;

    fn at(step: Step, held_by: Option<RestoreName>) -> Standstill {
        let plan = StopPlan { replicas: 2, safety_copy: true, safety_of: None, held_by, forced: Vec::new() };
        Standstill {
            step,
            ..Standstill::new(TargetKind::Deployment, ("web", "uid"), &plan, RestoreName::default())
        }
    }

    #[rstest]
    #[case::while_pods_end(Step::Stopping, LeftData::Untouched, Step::Starting)]
    #[case::while_a_safety_copy_is_made(Step::SafetyCopy, LeftData::Half, Step::Starting)]
    #[case::before_the_first_mover(Step::Restoring, LeftData::Untouched, Step::Starting)]
    #[case::while_data_is_written(Step::Restoring, LeftData::Half, Step::HeldDown)]
    #[case::when_all_is_written(Step::Verified, LeftData::Whole, Step::Starting)]
    #[case::while_it_starts(Step::Starting, LeftData::Half, Step::Starting)]
    #[case::after_its_end(Step::HeldDown, LeftData::Untouched, Step::HeldDown)]
    fn a_restore_that_is_cut_short_starts_the_workload_unless_data_may_be_half_restored(
        #[case] step: Step,
        #[case] data: LeftData,
        #[case] expected: Step,
    ) {
        assert_eq!(at(step, None).cut_short("no answer", data).step, expected);
    }

    #[test]
    fn a_workload_that_an_earlier_restore_left_down_stays_so() {
        let record =
            at(Step::Stopped, Some(RestoreName::default())).cut_short("no answer", LeftData::Untouched);
        assert_eq!(record.step, Step::LeftDown);
    }
}
