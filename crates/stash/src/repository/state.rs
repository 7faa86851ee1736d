//! The state in the backend: Repository, invoker and hosts, stored next to the data after each session, so that they
//! can be recovered with the bucket and the password when the cluster is lost. It is one object for each invoker,
//! below a prefix that restic ignores, encrypted and authenticated with the repository's key. It contains no Secrets.
//!
//! A REST server stores only the files of a repository, so no state is written there.

use futures::TryStreamExt;
use jiff::Timestamp;
use lifeboat_plan::label;
use lifeboat_plan::stash::repository::layout::is_own_file;
use lifeboat_repository::Error;
use lifeboat_repository::crypto::OVERHEAD;
use lifeboat_repository::files::OWN_PREFIX;
use lifeboat_repository::repository::Repository as OpenRepository;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of the format.
const VERSION: u32 = 1;
/// The maximum size of a state in bytes, before it is encrypted.
const LONGEST: usize = 64 * 1024;
/// The number of hosts that are kept if a state with all hosts would be too large.
const FEW_HOSTS: usize = 256;
/// How many states a repository keeps. Older ones belong to invokers that no longer exist, and are removed.
const MOST: usize = 64;

/// What is stored about one invoker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BackendState {
    pub(crate) version: u32,
    /// The UID of the cluster.
    pub(crate) cluster: String,
    pub(crate) written_at: Timestamp,
    /// The Repository: namespace, name and spec.
    pub(crate) repository: Value,
    /// The invoker: kind, namespace, name and spec.
    pub(crate) invoker: Value,
    /// The hosts of its last session.
    pub(crate) hosts: Vec<String>,
}

impl BackendState {
    /// `repository` and `invoker` are whole objects; only their identity and spec are stored.
    pub(crate) fn new(
        cluster: &str,
        written_at: Timestamp,
        repository: &Value,
        invoker: &Value,
        hosts: &[String],
    ) -> Self {
        Self {
            version: VERSION,
            cluster: cluster.to_owned(),
            written_at,
            repository: manifest(repository),
            invoker: manifest(invoker),
            hosts: hosts.to_vec(),
        }
    }

    /// The key of its object: one for each invoker of each cluster.
    fn key(&self) -> String {
        let text = |pointer: &str| self.invoker.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        let digest = label::digest(&format!("{}/{kind}/{namespace}/{name}", self.cluster));
        format!("{}{digest}", directory())
    }

    /// The state as JSON, without the parts that would make it too large.
    fn encoded(&self) -> Vec<u8> {
        let encode = |state: &Self| serde_json::to_vec(state).unwrap_or_default();
        let whole = encode(self);
        if whole.len() <= LONGEST {
            return whole;
        }
        let mut short = self.clone();
        short.invoker["spec"] = Value::Null;
        short.hosts.truncate(FEW_HOSTS);
        encode(&short)
    }
}

fn directory() -> String {
    format!("{OWN_PREFIX}/state/")
}

/// Identity and spec of an object, as it would be applied again.
fn manifest(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {"namespace": object["metadata"]["namespace"], "name": object["metadata"]["name"]},
        "spec": object["spec"],
    })
}

/// Writes the state of an invoker. False if the storage cannot hold it.
pub(crate) async fn write(repository: &OpenRepository, state: &BackendState) -> Result<bool, Error> {
    let store = repository.store();
    match store.put(&state.key(), repository.key().sealed(&state.encoded())).await {
        Err(lifeboat_store::Error::Unsupported { .. }) => return Ok(false),
        written => written.map_err(Error::store("write the state"))?,
    }
    let listed: Vec<_> =
        store.list(&directory()).try_collect().await.map_err(Error::store("list the states"))?;
    // Another repository may be in this directory.
    let own = listed.into_iter().filter(|info| is_own_file(&info.key));
    let mut listed: Vec<_> = own.map(|info| (info.modified, info.key)).collect();
    listed.sort();
    let surplus = listed.len().saturating_sub(MOST);
    let old = listed.into_iter().take(surplus).map(|(_, key)| key).filter(|key| *key != state.key());
    store.delete_many(old).await.map_err(Error::store("remove old states"))?;
    Ok(true)
}

/// All states of a repository. One that cannot be read is left out, with a warning.
pub(crate) async fn read_all(repository: &OpenRepository) -> Result<Vec<BackendState>, Error> {
    let store = repository.store();
    let listed: Vec<_> = match store.list(&directory()).try_collect().await {
        Err(lifeboat_store::Error::Unsupported { .. }) => return Ok(Vec::new()),
        listed => listed.map_err(Error::store("list the states"))?,
    };
    let longest = (LONGEST + OVERHEAD) as u64;
    let mut states = Vec::new();
    let own = listed.into_iter().filter(|info| is_own_file(&info.key) && info.size <= longest);
    for info in own.take(MOST) {
        let mut sealed = match store.get(&info.key).await {
            Ok(sealed) => sealed.to_vec(),
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(Error::store("read a state")(error)),
        };
        let plain = repository.key().open(&mut sealed).ok();
        match plain.and_then(|plain| serde_json::from_slice::<BackendState>(plain).ok()) {
            Some(state) if state.version == VERSION => states.push(state),
            _ => tracing::warn!(key = info.key, "a state in the backend cannot be read and is left out"),
        }
    }
    Ok(states)
}
