//! Metrics of the gateway: requests by what they do and how they ended, and bytes. Label values are from fixed lists.

use axum::http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::rules::Action;
use crate::metrics::Metrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByteLabels {
    direction: &'static str,
}

/// Handles to the metrics of the gateway; clones share them.
#[derive(Clone, Debug)]
pub(super) struct GatewayMetrics {
    requests: Family<RequestLabels, Counter>,
    bytes: Family<ByteLabels, Counter>,
}

impl GatewayMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        metrics.register(|registry| {
            let made = Self { requests: Family::default(), bytes: Family::default() };
            registry.register(
                "lifeboat_gateway_requests",
                "Requests to the gateway, by operation and outcome",
                made.requests.clone(),
            );
            registry.register(
                "lifeboat_gateway_bytes",
                "Bytes of files that went through the gateway, by direction",
                made.bytes.clone(),
            );
            made
        })
    }

    /// `action` is None if the request was refused before it was known what it does.
    pub(super) fn ended(&self, action: Option<&Action>, status: StatusCode) {
        let operation = match action {
            None => "none",
            Some(Action::List(_)) => "list",
            Some(Action::Look(_) | Action::Read(_)) => "read",
            Some(Action::Add(..)) => "add",
            Some(Action::Unlock(_)) => "unlock",
        };
        let outcome = match status.as_u16() {
            200..400 => "done",
            400..500 => "refused",
            _ => "failed",
        };
        self.requests.get_or_create(&RequestLabels { operation, outcome }).inc();
    }

    pub(super) fn received(&self, bytes: u64) {
        self.bytes.get_or_create(&ByteLabels { direction: "in" }).inc_by(bytes);
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.bytes.get_or_create(&ByteLabels { direction: "out" }).inc_by(bytes);
    }
}
