//! Metrics of movers: how many run and wait, and how they ended. Label values are a fixed set of words.

use std::sync::atomic::AtomicI64;

use lifeboat_web::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    cause: &'static str,
}

/// Handles to the metrics of movers; clones share them.
#[derive(Clone, Debug)]
pub(super) struct MoverMetrics {
    running: Gauge<i64, AtomicI64>,
    waiting: Gauge<i64, AtomicI64>,
    ended: Family<EndLabel, Counter>,
}

impl MoverMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        metrics.register(|registry| {
            let made =
                Self { running: Gauge::default(), waiting: Gauge::default(), ended: Family::default() };
            registry.register("lifeboat_movers_running", "Running movers", made.running.clone());
            registry.register(
                "lifeboat_movers_waiting",
                "Movers that wait for a free slot",
                made.waiting.clone(),
            );
            registry.register("lifeboat_movers_ended", "Movers that ended, by cause", made.ended.clone());
            made
        })
    }

    pub(super) fn set(&self, running: usize, waiting: usize) {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn ended(&self, cause: &'static str) {
        self.ended.get_or_create(&EndLabel { cause }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movers_are_counted_by_how_they_stand_and_end() {
        let metrics = Metrics::new("0.1.0");
        let movers = MoverMetrics::register(&metrics);
        movers.set(2, 3);
        movers.ended("evicted");
        let text = metrics.render();
        for line in [
            "lifeboat_movers_running 2",
            "lifeboat_movers_waiting 3",
            "lifeboat_movers_ended_total{cause=\"evicted\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
        movers.set(0, 0);
        assert!(metrics.render().contains("lifeboat_movers_waiting 0"));
    }
}
