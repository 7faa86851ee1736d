//! Metrics of movers: how many run and wait, and how they ended. The labels are from a fixed list.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    cause: &'static str,
}

/// Handles to the metrics of movers; clones share them.
#[derive(Clone, Debug)]
pub struct MoverMetrics {
    running: Gauge<i64, AtomicI64>,
    waiting: Gauge<i64, AtomicI64>,
    ended: Family<EndLabel, Counter>,
}

impl MoverMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { running: Gauge::default(), waiting: Gauge::default(), ended: Family::default() };
        registry.register("lifeboat_movers_running", "Running movers", metrics.running.clone());
        registry.register(
            "lifeboat_movers_waiting",
            "Movers that wait for a free slot",
            metrics.waiting.clone(),
        );
        registry.register("lifeboat_movers_ended", "Movers that ended, by cause", metrics.ended.clone());
        metrics
    }

    pub fn set(&self, running: usize, waiting: usize) {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub fn ended(&self, cause: &'static str) {
        self.ended.get_or_create(&EndLabel { cause }).inc();
    }
}
