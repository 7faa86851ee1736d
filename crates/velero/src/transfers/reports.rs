//! The report files that movers leave beside a backup's files in the bucket of its location.

use async_trait::async_trait;
use lifeboat_api::common::TaskId;
use lifeboat_plan::velero::pod_volumes::report_key;
use lifeboat_transfer::attempts::Reports;

use crate::context::Context;
use crate::locations;
use crate::repositories::{RepositoryKey, RepositoryProblem};

pub(super) struct LocationReports(pub(super) Context);

#[async_trait]
impl Reports for LocationReports {
    async fn drop_reports(
        &self,
        key: &RepositoryKey,
        group: &str,
        tasks: &[TaskId],
    ) -> Result<(), RepositoryProblem> {
        let reports: Vec<String> = tasks.iter().map(|task| report_key(group, task)).collect();
        let location = locations::open(&self.0, key.storage().as_str()).await?;
        let deleted = location.store.delete(&reports).await;
        deleted.map_err(|error| RepositoryProblem::Storage(error.to_string()))
    }
}
