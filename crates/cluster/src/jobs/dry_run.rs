//! Asks the API server whether a namespace admits a pod, without creating it: Pod Security, policies and quotas answer
//! as they would for the real one.

use k8s_openapi::api::core::v1::Pod;
use lifeboat_plan::transfer::movers::DryRun;
use serde_json::Value;

use super::{Jobs, create_with};
use crate::{ApiError, Attempt};

impl Jobs {
    /// The answer to the dry run of a pod. An error is a failure of the API server, or the server's own missing right to
    /// create pods.
    pub async fn dry_run(&self, pod: &Value) -> Result<DryRun, ApiError> {
        match create_with::<Pod>(&self.api::<Pod>(), pod, true).await {
            Ok(_) => Ok(DryRun::Allowed),
            Err(kube::Error::Api(status)) => {
                let refused = DryRun::refused(status.code, &status.message);
                let failed = Err(kube::Error::Api(status));
                refused.map_or_else(|| failed.attempt(self.attempted()), Ok)
            }
            Err(error) => Err(error).attempt(self.attempted()),
        }
    }

    fn attempted(&self) -> String {
        format!("try whether namespace {} admits a pod", self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::testing::{client, failure};

    #[rstest]
    #[case::allowed(201, "", Some(DryRun::Allowed))]
    #[case::refused(403, "violates PodSecurity", Some(DryRun::Refused("violates PodSecurity".into())))]
    #[case::no_dry_runs(
        400,
        "admission webhook \"w\" does not support dry run",
        Some(DryRun::DryRunsRefused)
    )]
    #[case::the_server_may_not(403, "cannot create resource \"pods\" in API group \"\"", None)]
    #[case::trouble(500, "internal", None)]
    #[tokio::test]
    async fn the_answer_to_a_dry_run_is_read(
        #[case] code: u16,
        #[case] message: &'static str,
        #[case] expected: Option<DryRun>,
    ) {
        let client = client(move |asked| {
            assert_eq!(asked.path, "/api/v1/namespaces/shop/pods");
            assert!(asked.query.contains("dryRun=All"), "nothing is created: {}", asked.query);
            if code < 300 { (code, asked.body) } else { failure(code, message) }
        });
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "mover-"}, "spec": {}});
        assert_eq!(Jobs::new(&client.await, "shop").dry_run(&pod).await.ok(), expected);
    }
}
