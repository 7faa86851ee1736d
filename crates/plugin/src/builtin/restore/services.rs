//! Services: addresses and ports that the old cluster assigned are removed, so that the new cluster assigns them,
//! unless a user chose them.

use std::collections::BTreeSet;

use lifeboat_api::catalogue::GroupResource;
use serde_json::Value;

use crate::actions::{ActionError, RestoreInput, RestoreOutcome};

use super::{items, remove, text};

pub(super) fn service(input: RestoreInput<'_>) -> Result<RestoreOutcome, ActionError> {
    let mut service = input.item;
    if text(&service, "/spec/clusterIP") != "None" {
        remove(&mut service, "/spec", "clusterIP");
        remove(&mut service, "/spec", "clusterIPs");
    }
    if input.restore.spec.preserve_node_ports != Some(true) {
        let chosen = Chosen::read(&service, input.from_backup)?;
        drop_node_ports(&mut service, &chosen);
        drop_health_port(&mut service, &chosen);
    }
    Ok(RestoreOutcome::item(service))
}

/// The fields that a user set, known from the annotation of `kubectl apply` or from managed fields.
struct Chosen {
    /// The object as it was last applied.
    applied: Option<Value>,
    /// The managed fields, one map for each manager.
    fields: Vec<Value>,
}

impl Chosen {
    fn read(service: &Value, from_backup: &Value) -> Result<Self, ActionError> {
        let applied = service
            .pointer("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration")
            .and_then(Value::as_str)
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| {
                ActionError::Failed(format!(
                    "annotation kubectl.kubernetes.io/last-applied-configuration of {} is not valid JSON: {error}",
                    GroupResource::new("", "services")
                ))
            })?;
        let entries = from_backup.pointer("/metadata/managedFields").and_then(Value::as_array);
        let fields = entries.into_iter().flatten().filter_map(|entry| entry.get("fieldsV1").cloned());
        Ok(Self { applied, fields: fields.collect() })
    }

    fn has_port(&self, port: &Value) -> bool {
        let Some(applied) = &self.applied else {
            let key = format!(r#"k:{{"port":{},"protocol":"{}"}}"#, port["port"], text(port, "/protocol"));
            return self.fields.iter().any(|fields| {
                let port = fields.pointer("/f:spec/f:ports").and_then(|ports| ports.get(&key));
                port.is_some_and(|port| port.get("f:nodePort").is_some())
            });
        };
        let ports = applied.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
        let chosen: Vec<(Option<&str>, u64)> = ports
            .map(|port| (port["name"].as_str(), number(&port["nodePort"])))
            .filter(|(_, port)| *port > 0)
            .collect();
        if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
            return chosen.iter().any(|(chosen, _)| *chosen == Some(name));
        }
        let unnamed: BTreeSet<u64> =
            chosen.iter().filter(|(name, _)| name.is_none()).map(|(_, port)| *port).collect();
        unnamed.contains(&number(&port["nodePort"]))
    }

    fn has_health_port(&self) -> bool {
        let applied = self.applied.as_ref().and_then(|applied| applied.pointer("/spec/healthCheckNodePort"));
        applied.is_some_and(|port| number(port) > 0)
            || self.fields.iter().any(|fields| fields.pointer("/f:spec/f:healthCheckNodePort").is_some())
    }
}

/// A number, also if it is written as text.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

fn drop_node_ports(service: &mut Value, chosen: &Chosen) {
    if text(service, "/spec/type") == "ExternalName" {
        return;
    }
    for port in items(service, "/spec/ports") {
        if !chosen.has_port(port) {
            remove(port, "", "nodePort");
        }
    }
}

fn drop_health_port(service: &mut Value, chosen: &Chosen) {
    let balanced = text(service, "/spec/type") == "LoadBalancer"
        && text(service, "/spec/externalTrafficPolicy") == "Local";
    if balanced && !chosen.has_health_port() {
        remove(service, "/spec", "healthCheckNodePort");
    }
}
