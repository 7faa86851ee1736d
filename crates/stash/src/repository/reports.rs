//! Movers of sessions store no reports next to the repository: their results are in the status of the session.

use async_trait::async_trait;
use lifeboat_api::common::TaskId;
use lifeboat_transfer::attempts::Reports;
use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};

/// There are none.
pub(crate) struct NoReports;

#[async_trait]
impl Reports for NoReports {
    async fn drop_reports(&self, _: &RepositoryKey, _: &str, _: &[TaskId]) -> Result<(), RepositoryProblem> {
        Ok(())
    }
}
