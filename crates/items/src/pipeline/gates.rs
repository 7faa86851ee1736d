//! Webhook configurations and APIServices affect other requests to the API server: they are restored when the service
//! behind them is ready. If it is not in time, they are restored nevertheless, with a warning.

use std::collections::BTreeSet;
use std::time::Duration;

use lifeboat_plan::catalogue::GroupResource;
use serde_json::Value;
use tokio::time::Instant;

use super::item::WorkItem;
use super::run::Run;
use crate::effects::{Awaited, Waited};
use crate::outcome::Notes;
use crate::pace::Pace;

/// How long to wait for the services: everything else is restored by then.
const PATIENCE: Duration = Duration::from_mins(2);

pub(super) async fn await_service(run: &Run, item: &WorkItem, object: &Value, notes: &mut Notes) {
    let services = services(item, object);
    if services.is_empty() {
        return;
    }
    let until = Instant::now() + PATIENCE.min(run.limits.resource);
    let mut pace = Pace::default();
    let mut waiting = None;
    for (namespace, name) in services {
        let things = [format!("a ready endpoint of services/{namespace}/{name}")];
        while !answers(run, &namespace, &name).await {
            if Instant::now() >= until {
                notes.warn(format!(
                    "{} was restored although service {namespace}/{name} behind it has no ready endpoint; requests that it is asked about may fail until it has",
                    item.resource_id()
                ));
                break;
            }
            waiting.get_or_insert_with(|| run.waiting(item, &things, ""));
            if run.effects.wait(Awaited::Ready, pace.pause()).await == Waited::Assume {
                break;
            }
        }
        waiting = None;
    }
}

/// The services that an object sends requests to.
fn services(item: &WorkItem, object: &Value) -> BTreeSet<(String, String)> {
    let of = |reference: Option<&Value>| {
        let reference = reference?;
        Some((reference["namespace"].as_str()?.to_owned(), reference["name"].as_str()?.to_owned()))
    };
    match item.id.resource.resource.as_str() {
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            let webhooks = object["webhooks"].as_array().into_iter().flatten();
            webhooks.filter_map(|webhook| of(webhook.pointer("/clientConfig/service"))).collect()
        }
        "apiservices" => of(object.pointer("/spec/service")).into_iter().collect(),
        _ => BTreeSet::new(),
    }
}

/// Whether a service has a ready endpoint. If that cannot be read, it counts as ready.
async fn answers(run: &Run, namespace: &str, name: &str) -> bool {
    let Some(known) = run.catalogue.get(&GroupResource::new("discovery.k8s.io", "endpointslices")) else {
        return false;
    };
    let selector = format!("kubernetes.io/service-name={name}");
    let Ok(slices) = run.effects.list(known, Some(namespace), &selector).await else { return true };
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.into_iter().any(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)))
}
