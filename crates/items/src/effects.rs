//! Everything a restore does to the cluster goes through [`Effects`]: the pipeline has no other way to read or write
//! an object, or to wait. A restore uses [`ClusterEffects`]; a dry run uses [`crate::preview::DryRun`], which answers
//! as the cluster would and writes nothing. Therefore a dry run executes the same steps as a restore.

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::lookup::Reader;
use lifeboat_cluster::write::{Answer, Target, Writer};
use lifeboat_plan::catalogue::ResourceType;
use serde_json::Value;
use tokio::time::sleep;

/// Reads and changes the cluster, and waits for it.
#[async_trait]
pub trait Effects: Reader {
    /// Creates an object; returns the created object if `answer` asks for it.
    async fn create(&self, target: &Target, object: &Value, answer: Answer) -> Result<Value, ApiError>;
    /// Merges `patch` into an object, or into one of its subresources.
    async fn merge(&self, target: &Target, subresource: Option<&str>, patch: &Value) -> Result<(), ApiError>;
    /// Waits for `pause` before the caller checks again.
    async fn wait(&self, awaited: Awaited<'_>, pause: Duration) -> Waited;
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Awaited<'a> {
    /// An object that is being deleted is gone.
    Gone(&'a Target),
    /// Anything else: an endpoint, a condition, the answer of an action.
    Ready,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    LookAgain,
    /// A dry run does not wait: the caller continues as if the condition were met.
    Assume,
}

/// The effects of a restore: every request is sent to the cluster.
pub struct ClusterEffects(pub Writer);

#[async_trait]
impl Reader for ClusterEffects {
    async fn get(&self, target: &Target) -> Result<Option<Value>, ApiError> {
        self.0.get(target).await
    }

    async fn list(
        &self,
        known: &ResourceType,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        self.0.list(known, namespace, selector).await
    }
}

#[async_trait]
impl Effects for ClusterEffects {
    async fn create(&self, target: &Target, object: &Value, answer: Answer) -> Result<Value, ApiError> {
        self.0.create(target, serde_json::to_vec(object).unwrap_or_default(), answer).await
    }

    async fn merge(&self, target: &Target, subresource: Option<&str>, patch: &Value) -> Result<(), ApiError> {
        self.0.merge(target, subresource, patch).await.map(drop)
    }

    async fn wait(&self, _: Awaited<'_>, pause: Duration) -> Waited {
        sleep(pause).await;
        Waited::LookAgain
    }
}
