//! A repository on restic's REST server: the checked URL, the client, and the creation of the repository.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use http::HeaderValue;
use object_store::ClientOptions;
use object_store::client::HttpConnector;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::{Unverified, connector, refused, warnings};
use crate::backends::rest::Rest;
use crate::config::{Tls, certificates};
use crate::error::{Error, Result, Site};
use crate::guard::Guard;
use crate::http::Connector;
use crate::store::{Store, Tuning};

/// The URL of a REST server and the credentials for it.
#[derive(Clone)]
pub struct RestConfig {
    /// `http://` or `https://`, without user and password; the path is that of the repository.
    pub url: Url,
    pub user: Option<String>,
    pub password: Option<SecretString>,
    /// PEM certificates that are trusted in addition to the system's.
    pub ca_pem: Option<Vec<u8>>,
    pub tls: Tls,
}

impl fmt::Debug for RestConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestConfig").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl RestConfig {
    /// Opens the repository, without a request to the server.
    pub fn open(self, tuning: Tuning) -> Result<Store> {
        self.opened(Trust::System, tuning)
    }

    /// Like `open`, but trusts the given certificates only, and uses no proxy: for Lifeboat's own gateway, whose authority is
    /// made for it.
    pub fn open_pinned(self, tuning: Tuning) -> Result<Store> {
        if self.url.scheme() != "https" {
            return Err(Error::config(
                "url",
                "a server with an authority of its own is reached by 'https://' only",
            ));
        }
        if self.ca_pem.is_none() {
            return Err(Error::config("ca", "it is missing, and no other certificate authority is trusted"));
        }
        self.opened(Trust::GivenOnly, tuning)
    }

    /// Opens a repository that a tenant describes, without a request to the server; see [`super::open_for_tenant`].
    pub fn open_for_tenant(self, guard: Guard, tuning: Tuning) -> Result<Store> {
        self.opened(Trust::Guarded(guard), tuning)
    }

    fn opened(self, trust: Trust, tuning: Tuning) -> Result<Store> {
        let warnings = warnings(&self.tls, Unverified::CommandLine);
        let mut tuning = tuning;
        let rest = self.backend(trust, &mut tuning)?;
        Ok(Store::new(Arc::new(rest), "", tuning)?.with_warnings(warnings))
    }

    /// Creates the repository's directories on the server, then opens it. Existing files are not changed.
    pub async fn create(self, tuning: Tuning) -> Result<Store> {
        let mut unused = tuning.clone();
        self.clone().backend(Trust::System, &mut unused)?.create().await?;
        self.open(tuning)
    }

    /// Creates the directories of a repository that a tenant describes. Existing files are not changed.
    pub async fn create_for_tenant(self, guard: Guard, tuning: Tuning) -> Result<()> {
        let mut unused = tuning;
        self.backend(Trust::Guarded(guard), &mut unused)?.create().await
    }

    fn backend(self, trust: Trust, tuning: &mut Tuning) -> Result<Rest> {
        let mut base = self.url;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(Error::config("url", "the URL of a REST server starts with 'http://' or 'https://'"));
        }
        if !base.username().is_empty() || base.password().is_some() || base.query().is_some() {
            return Err(Error::config("url", "the URL must not contain a user, a password or a query"));
        }
        base.set_fragment(None);
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let roots = self.ca_pem.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let pinned = matches!(trust, Trust::GivenOnly);
        let guard = match trust {
            Trust::Guarded(guard) => Some(guard),
            Trust::System | Trust::GivenOnly => None,
        };
        let site = Site {
            bucket: base.path().to_owned(),
            endpoint: base.origin().ascii_serialization(),
            discreet: guard.is_some(),
        };
        let options = ClientOptions::new().with_allow_http(base.scheme() == "http");
        let connector = Connector { pinned, ..connector(&self.tls, roots, guard, tuning)? };
        let client = connector.connect(&options).map_err(|error| refused(&site, &error))?;
        let authorization = authorization(self.user.as_deref(), self.password.as_ref())?;
        Ok(Rest { client, base, authorization, site })
    }
}

/// Which servers a client talks to.
enum Trust {
    /// Those whose certificate the system or the given authorities have signed.
    System,
    /// Those of the given authorities.
    GivenOnly,
    /// As `System`, within the limits for a tenant.
    Guarded(Guard),
}

/// HTTP basic authentication.
fn authorization(user: Option<&str>, password: Option<&SecretString>) -> Result<Option<HeaderValue>> {
    let password = password.map(ExposeSecret::expose_secret).unwrap_or_default();
    let user = user.unwrap_or_default();
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    if user.contains(':') {
        return Err(Error::credentials_format("a user name cannot contain a ':'"));
    }
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {text}")).map_err(|_| {
        Error::credentials_format("the user name or the password cannot be sent in an HTTP header")
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}
