//! What is read of a target.

use lifeboat_api::stash::BackupTarget;

use super::{TargetError, TargetFacts, TargetPlan};

/// Decides.
pub fn backup_plan(facts: &TargetFacts, target: &BackupTarget) -> Result<TargetPlan, TargetError> {
    let _ = (facts, target);
    unimplemented!()
}
