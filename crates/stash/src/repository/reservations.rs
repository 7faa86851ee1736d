//! The record of who uses a repository: one ConfigMap for each restic repository, in Lifeboat's namespace.
//! [`lifeboat_plan::stash::reservation`] decides its content. It is changed only by conditional updates: if two
//! servers or two reconciles change it at the same time, one of them tries again with the other's version.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use lifeboat_api::crds::NAME_LABEL;
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::Core;
use lifeboat_plan::label;
use lifeboat_plan::stash::reservation::{self, Claim, Record, RecordError, Standing};
use lifeboat_transfer::repositories::Access;
use serde_json::json;

/// How often a change is tried if others change the record.
const TRIES: u32 = 20;

/// Why the record of a repository cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReservationError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("ConfigMap {name}: {source}")]
    Record { name: String, source: RecordError },
}

impl ReservationError {
    /// The error with its causes.
    pub(crate) fn chain(&self) -> String {
        match self {
            Self::Api(error) => error.chain(),
            Self::Record { .. } => self.to_string(),
        }
    }
}

/// A repository among those that have reservations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReservedId(String);

impl ReservedId {
    /// The repository with this ID. An ID that the server read itself is trusted. An ID that a mover reported comes
    /// from a tenant's namespace and is trusted only within that namespace: a tenant cannot reserve another tenant's
    /// repository by naming its ID.
    pub(crate) fn new(access: &Access, namespace: &str, id: &str) -> Self {
        if access.is_opened_by_server() { Self::of_server(id) } else { Self::of_movers(namespace, id) }
    }

    fn of_server(id: &str) -> Self {
        Self(id.to_owned())
    }

    fn of_movers(namespace: &str, id: &str) -> Self {
        Self(format!("{}-{id}", &label::digest(namespace)[..8]))
    }

    /// The repository of a ConfigMap; None if that is no record of reservations.
    pub(crate) fn of_config_map(name: &str) -> Option<Self> {
        let id = name.strip_prefix(&reservation::config_map_name(""))?;
        (!id.is_empty()).then(|| Self(id.to_owned()))
    }

    /// The two names that the repository of an object may have.
    pub(crate) fn both(namespace: &str, id: &str) -> [Self; 2] {
        [Self::of_server(id), Self::of_movers(namespace, id)]
    }

    /// The name of its ConfigMap.
    pub(crate) fn config_map(&self) -> String {
        reservation::config_map_name(&self.0)
    }
}

fn api(core: &Core) -> Api<ConfigMap> {
    Api::namespaced(core.client.clone(), &core.namespace)
}

/// The record in a ConfigMap; an empty one if it has none.
pub(crate) fn record_of(map: &ConfigMap) -> Result<Record, RecordError> {
    match map.data.as_ref().and_then(|data| data.get(reservation::KEY)) {
        Some(text) => Record::decode(text),
        None => Ok(Record::default()),
    }
}

/// Who uses a repository and who waits for it.
pub(crate) async fn read(core: &Core, id: &ReservedId) -> Result<Record, ReservationError> {
    Ok(found(core, id).await?.1)
}

async fn found(core: &Core, id: &ReservedId) -> Result<(Option<ConfigMap>, Record), ReservationError> {
    let name = id.config_map();
    let Some(map) = api(core).get_opt(&name).await.attempt(format!("read ConfigMap {name}"))? else {
        return Ok((None, Record::default()));
    };
    let record = record_of(&map).map_err(|source| ReservationError::Record { name, source })?;
    Ok((Some(map), record))
}

/// Records the claim of an invoker, and returns whether the claim is granted.
pub(crate) async fn claim(core: &Core, id: &ReservedId, claim: &Claim) -> Result<Standing, ReservationError> {
    Ok(change(core, id, |record| record.with(claim)).await?.standing(&claim.uid))
}

/// Confirms that a claim is granted at this moment: reads the record, and writes it back unchanged with a write that
/// fails if the record was changed in between. A missing claim is recorded if nothing prevents it.
pub(crate) async fn confirm(
    core: &Core,
    id: &ReservedId,
    claim: &Claim,
) -> Result<Standing, ReservationError> {
    let mut tries = 0;
    loop {
        let standing = self::claim(core, id, claim).await?;
        if standing != Standing::Holds {
            return Ok(standing);
        }
        let (map, record) = found(core, id).await?;
        let map = match (map, record.standing(&claim.uid)) {
            (Some(map), Standing::Holds) => map,
            // Another writer changed the record; the next iteration reads it again.
            _ if tries < TRIES => {
                tries += 1;
                continue;
            }
            (_, standing) => return Ok(standing),
        };
        match touch(core, id, &map).await {
            Err(error) if (error.is_conflict() || error.is_not_found()) && tries < TRIES => tries += 1,
            touched => return touched.map(|()| Standing::Holds).map_err(Into::into),
        }
    }
}

/// A write that changes nothing, and that the API server refuses if the ConfigMap was changed since it was read.
async fn touch(core: &Core, id: &ReservedId, map: &ConfigMap) -> Result<(), ApiError> {
    let name = id.config_map();
    let patch = json!({"metadata": {
        "uid": map.metadata.uid,
        "resourceVersion": map.metadata.resource_version,
    }});
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patched = api(core).patch(&name, &params, &Patch::Merge(patch)).await;
    patched.attempt(format!("confirm the reservation in ConfigMap {name}")).map(drop)
}

/// Records the claim of a Repository whose data is about to be deleted. False if any other object has a claim.
pub(crate) async fn claim_deletion(
    core: &Core,
    id: &ReservedId,
    claim: &Claim,
) -> Result<bool, ReservationError> {
    let record = change(core, id, |record| record.with_deletion(claim).unwrap_or_else(|| record.clone()));
    Ok(record.await?.standing(&claim.uid) == Standing::Holds)
}

/// Removes claims of invokers that no longer exist, or that now use another repository.
pub(crate) async fn release(
    core: &Core,
    id: &ReservedId,
    is_gone: impl Fn(&Claim) -> bool,
) -> Result<Record, ReservationError> {
    change(core, id, |record| record.without(&is_gone)).await
}

/// Changes the record, unless it was changed since it was read. Returns the new record.
async fn change(
    core: &Core,
    id: &ReservedId,
    decide: impl Fn(&Record) -> Record,
) -> Result<Record, ReservationError> {
    let mut tries = 0;
    loop {
        let (map, record) = found(core, id).await?;
        let wanted = decide(&record);
        if wanted == record {
            return Ok(record);
        }
        match write(core, id, map.as_ref(), &wanted).await {
            Err(ReservationError::Api(error))
                if (error.is_conflict() || error.is_not_found()) && tries < TRIES =>
            {
                tries += 1;
            }
            written => return written.map(|()| wanted),
        }
    }
}

async fn write(
    core: &Core,
    id: &ReservedId,
    map: Option<&ConfigMap>,
    record: &Record,
) -> Result<(), ReservationError> {
    let (api, name) = (api(core), id.config_map());
    let text = record.encode().map_err(|source| ReservationError::Record { name: name.clone(), source })?;
    let Some(map) = map else {
        let new: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {NAME_LABEL.0: NAME_LABEL.1}},
            "data": {reservation::KEY: text},
        }))
        .unwrap_or_default();
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        return Ok(api.create(&params, &new).await.attempt(format!("create ConfigMap {name}")).map(drop)?);
    };
    let patch = json!({
        "metadata": {"resourceVersion": map.metadata.resource_version},
        "data": {reservation::KEY: text},
    });
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patched = api.patch(&name, &params, &Patch::Merge(patch)).await;
    let written = patched.attempt(format!("update ConfigMap {name}"))?;
    if record.all().next().is_none() {
        // The ConfigMap is emptied first, because a watch reports a deletion with the object's last content. An
        // invoker that claims the repository in the meantime keeps its claim.
        let same = Preconditions {
            uid: written.metadata.uid.clone(),
            resource_version: written.metadata.resource_version.clone(),
        };
        match api.delete(&name, &DeleteParams::default().preconditions(same)).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            deleted => deleted.attempt(format!("delete ConfigMap {name}")).map(drop)?,
        }
    }
    Ok(())
}
