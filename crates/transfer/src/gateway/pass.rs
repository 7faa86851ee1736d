//! The access that a mover gets instead of the keys of its repository: the URL of the gateway, a token for its task,
//! the certificate authority to trust, and the password of the repository, without which it could not decrypt
//! anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use lifeboat_mover::task::{RepositoryAccess, Transport};
use lifeboat_plan::transfer::gateway::{Claims, Rights, seal};
use lifeboat_plan::transfer::movers::MoverJob;
use secrecy::{ExposeSecret, SecretSlice};

use super::Gateway;
use super::secrets::SecretsError;
use crate::repositories::{Key, Keys, RepositoryKey, RepositoryProblem};

/// Names of files next to the task file.
const TOKEN: &str = "token";
const AUTHORITY: &str = "gateway-ca.pem";

/// How long after its deadline a mover may still remove its lock.
const GRACE: Duration = Duration::from_mins(10);

/// Lets the mover of a transfer reach its repository through the gateway.
#[derive(Clone)]
pub struct GatewayPass {
    gateway: Gateway,
    rights: Rights,
}

impl GatewayPass {
    pub(super) fn new(gateway: Gateway, rights: Rights) -> Self {
        Self { gateway, rights }
    }

    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// The credentials of the mover of this Job, which ends at `deadline` at the latest.
    pub fn keys(&self, key: &RepositoryKey, job: &MoverJob, deadline: Timestamp) -> Arc<dyn Keys> {
        let claims = Claims {
            repository: key.to_string(),
            rights: self.rights,
            task: job.task.to_string(),
            namespace: job.namespace.clone(),
            owner_kind: job.owner.kind.clone(),
            owner_namespace: job.owner.namespace.clone(),
            owner_name: job.owner.name.clone(),
            owner_uid: job.owner.uid.clone(),
            expires: deadline.saturating_add(GRACE).unwrap_or(deadline).as_second(),
        };
        Arc::new(GatewayKeys { gateway: self.gateway.clone(), key: key.clone(), claims })
    }
}

/// The credentials of one mover.
struct GatewayKeys {
    gateway: Gateway,
    key: RepositoryKey,
    claims: Claims,
}

#[async_trait]
impl Keys for GatewayKeys {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        let unknown = || RepositoryProblem::Unusable("this server does not serve its API".to_owned());
        let access = self.gateway.source(&self.key).ok_or_else(unknown)?.access(&self.key).await?;
        // What the server cannot open it cannot serve.
        access.store()?;
        let secrets = self.gateway.secrets().await.map_err(|error| match error {
            SecretsError::Api(error) => RepositoryProblem::Api(error),
            error @ SecretsError::Certificate(_) => RepositoryProblem::Storage(error.chain()),
        })?;
        let passwords = access.task.passwords;
        let mut files: BTreeMap<String, SecretSlice<u8>> = access.files;
        files.retain(|name, _| passwords.contains(name));
        let token = seal(&self.claims, &secrets.token);
        files.insert(TOKEN.to_owned(), SecretSlice::from(token.expose_secret().as_bytes().to_vec()));
        files.insert(AUTHORITY.to_owned(), SecretSlice::from(secrets.trusted.clone().into_bytes()));
        let transport = Transport::Gateway {
            url: self.gateway.url(&self.key),
            token: TOKEN.to_owned(),
            ca: Some(AUTHORITY.to_owned()),
        };
        Ok(Key { repository: Some(RepositoryAccess { transport, passwords, guarded: false }), files })
    }
}
