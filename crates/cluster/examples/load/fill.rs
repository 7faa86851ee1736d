//! Creates and deletes objects, many at once.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::data::{Data, LABEL, Planned};
use crate::error::Result;
use crate::types::{DEFINITIONS, Type};

const AT_ONCE: usize = 48;
/// How long the deletion of objects may take.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The API of a type, in one namespace or in all of them.
pub(crate) fn api(client: &Client, kind: &Type, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
    let known =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.kind), kind.plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &known),
        None => Api::all_with(client.clone(), &known),
    }
}

fn namespaces(client: &Client) -> Api<DynamicObject> {
    let kind = Type {
        api_version: "v1",
        plural: "namespaces",
        kind: "Namespace",
        namespaced: false,
        fields: |_| Value::Null,
    };
    api(client, &kind, None)
}

/// Creates the objects that do not exist.
pub(crate) async fn fill(client: &Client, data: Data, objects: usize) -> Result<()> {
    for name in data.namespaces() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {LABEL: data.name()}}});
        create(&namespaces(client), namespace).await?;
    }
    let (definitions, others): (Vec<Planned>, Vec<Planned>) =
        data.plan(objects).into_iter().partition(|planned| planned.kind == DEFINITIONS);
    create_all(client, data, &definitions).await?;
    if !definitions.is_empty() {
        established(client, data).await?;
    }
    create_all(client, data, &others).await
}

async fn create_all(client: &Client, data: Data, planned: &[Planned]) -> Result<()> {
    let mut made = stream::iter(planned)
        .map(|planned| {
            let api = api(client, &planned.kind, planned.namespace.as_deref());
            async move { create(&api, object(data, planned)).await }
        })
        .buffer_unordered(AT_ONCE);
    while let Some(each) = made.next().await {
        each?;
    }
    Ok(())
}

fn object(data: Data, planned: &Planned) -> Value {
    let Type { api_version, kind, plural, fields, .. } = planned.kind;
    let mut object = fields(planned.number);
    let name = if planned.kind == DEFINITIONS {
        format!("{}.bench.lifeboat.io", object["spec"]["names"]["plural"].as_str().unwrap_or(plural))
    } else {
        format!("{}-{:05}", kind.to_lowercase(), planned.number)
    };
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": name, "labels": {LABEL: data.name()}});
    object
}

pub(crate) async fn create(api: &Api<DynamicObject>, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(format!("cannot create {:?}: {error}", object.metadata.name).into()),
    }
}

async fn established(client: &Client, data: Data) -> Result<()> {
    let definitions = api(client, &DEFINITIONS, None);
    wait(|| async {
        let all = definitions.list(&ListParams::default().labels(&data.selector())).await?;
        let ready = |one: &DynamicObject| {
            let conditions = one.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        };
        Ok(all.iter().all(ready))
    })
    .await
}

/// Deletes the objects of the data set, then the namespaces, and waits until they no longer exist.
pub(crate) async fn empty(client: &Client, data: Data) -> Result<()> {
    let listed = ListParams::default().labels(&data.selector());
    let collections: Vec<(Type, Option<String>)> = data
        .types()
        .into_iter()
        .flat_map(|kind| {
            let homes =
                if kind.namespaced { data.namespaces().into_iter().map(Some).collect() } else { vec![None] };
            homes.into_iter().map(move |home| (kind, home))
        })
        .collect();
    // Types that cannot be deleted as a collection, or are not served, are deleted with their namespace or definition.
    stream::iter(&collections)
        .for_each_concurrent(24, |(kind, home)| {
            let (api, listed) = (api(client, kind, home.as_deref()), listed.clone());
            async move {
                let _ = api.delete_collection(&DeleteParams::background(), &listed).await;
            }
        })
        .await;
    let namespaces = namespaces(client);
    for one in namespaces.list(&listed).await? {
        let _ = namespaces.delete(&one.metadata.name.unwrap_or_default(), &DeleteParams::default()).await;
    }
    let mut left = vec![namespaces];
    left.extend(data.types().iter().filter(|kind| !kind.namespaced).map(|kind| api(client, kind, None)));
    for api in left {
        wait(|| async { Ok(api.list_metadata(&listed).await?.items.is_empty()) }).await?;
    }
    Ok(())
}

async fn wait<F: Future<Output = Result<bool>>>(look: impl Fn() -> F) -> Result<()> {
    let began = Instant::now();
    while !look().await? {
        if began.elapsed() > TIMEOUT {
            return Err("the cluster did not reach the expected state in time".into());
        }
        sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}
