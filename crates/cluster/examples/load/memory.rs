//! A checksum of each object, without the fields that a cluster assigns; written to a file and compared after a
//! restore.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use kube::Client;
use kube::api::ListParams;
use serde_json::Value;

use crate::data::Data;
use crate::error::Result;
use crate::fill::api;

const ASSIGNED: [&str; 12] = [
    "/status",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/ownerReferences",
    "/metadata/annotations",
    "/metadata/labels/velero.io~1backup-name",
    "/metadata/labels/velero.io~1restore-name",
    "/spec/clusterIP",
    "/spec/clusterIPs",
];

/// Fields that the Job controller sets on its Jobs and their pods.
const OF_JOBS: [&str; 2] = ["/spec/selector", "/spec/template/metadata/labels"];

pub(crate) async fn remember(client: &Client, data: Data, file: &str) -> Result<()> {
    let all = look(client, data).await?;
    println!("{}", all.len());
    Ok(std::fs::write(file, serde_json::to_vec(&all)?)?)
}

pub(crate) async fn verify(client: &Client, data: Data, file: &str) -> Result<()> {
    let wanted: BTreeMap<String, u64> = serde_json::from_slice(&std::fs::read(file)?)?;
    let found = look(client, data).await?;
    let wrong: Vec<String> = wanted
        .iter()
        .filter_map(|(key, hash)| match found.get(key) {
            None => Some(format!("{key} is missing")),
            Some(other) if other != hash => Some(format!("{key} differs")),
            Some(_) => None,
        })
        .chain(found.keys().filter(|key| !wanted.contains_key(*key)).map(|key| format!("{key} is new")))
        .collect();
    println!("{}", found.len());
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("{count} objects differ: {}", wrong[..count.min(5)].join(", ")).into()),
    }
}

async fn look(client: &Client, data: Data) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for kind in data.types() {
        let api = api(client, &kind, None);
        let mut page = ListParams::default().labels(&data.selector()).limit(1000);
        loop {
            let list = api.list(&page).await?;
            for object in list.items {
                let mut object = serde_json::to_value(object)?;
                let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let key = format!("{}/{}/{}", kind.plural, of("namespace"), of("name"));
                normalise(&mut object, kind.plural == "jobs");
                let mut hasher = DefaultHasher::new();
                object.to_string().hash(&mut hasher);
                all.insert(key, hasher.finish());
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(all)
}

fn normalise(object: &mut Value, is_job: bool) {
    let more = if is_job { &OF_JOBS[..] } else { &[] };
    for pointer in ASSIGNED.iter().chain(more) {
        let Some((parent, field)) = pointer.rsplit_once('/') else { continue };
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(&field.replace("~1", "/"));
        }
    }
}
