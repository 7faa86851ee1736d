//! Metrics that only the leader knows and that a standby must not show: whether locations are available, and the
//! state of the repository password.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LocationLabel {
    backup_location_name: String,
}

/// Which locations are available.
#[derive(Clone, Debug, Default)]
pub(super) struct LocationMetrics {
    status: Family<LocationLabel, Gauge<i64, AtomicI64>>,
    /// The labels of `status`.
    names: Arc<Mutex<BTreeSet<String>>>,
}

impl LocationMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self::default();
        registry.register(
            "velero_backup_location_status_gauge",
            "1 where the backup location is Available, 0 where it is not",
            made.status.clone(),
        );
        made
    }

    pub(super) fn set(&self, name: &str, available: bool) {
        let mut names = locked(&self.names);
        names.insert(name.to_owned());
        let label = LocationLabel { backup_location_name: name.to_owned() };
        self.status.get_or_create(&label).set(i64::from(available));
    }

    pub(super) fn retain(&self, existing: &BTreeSet<String>) {
        let mut names = locked(&self.names);
        for gone in names.difference(existing) {
            self.status.remove(&LocationLabel { backup_location_name: gone.clone() });
        }
        names.retain(|name| existing.contains(name));
    }
}

/// The state of the repository password.
#[derive(Clone, Debug, Default)]
pub(super) struct PasswordMetrics {
    exported: LeadersGauge,
    public: LeadersGauge,
}

impl PasswordMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self::default();
        registry.register(
            "lifeboat_repository_password_exported",
            "1 once someone exported the repository password; until then volume data depends on this cluster",
            made.exported.clone(),
        );
        registry.register(
            "lifeboat_repository_password_public_default",
            "1 where existing repositories use Velero's public default password",
            made.public.clone(),
        );
        made
    }

    /// Sets whether the password was exported, and whether the public default is in use; None if this replica does
    /// not know.
    pub(super) fn set(&self, state: Option<(bool, bool)>) {
        self.exported.set(state.map(|(exported, _)| exported));
        self.public.set(state.map(|(_, public)| public));
    }
}

/// A gauge that only the leader shows: absent, not zero, in a replica that does not know.
#[derive(Clone, Debug, Default)]
struct LeadersGauge(Arc<Mutex<Option<bool>>>);

impl LeadersGauge {
    fn set(&self, value: Option<bool>) {
        *locked(&self.0) = value;
    }
}

impl EncodeMetric for LeadersGauge {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let value = *locked(&self.0);
        value.map_or(Ok(()), |value| ConstGauge::new(i64::from(value)).encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
