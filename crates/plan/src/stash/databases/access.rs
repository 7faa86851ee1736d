//! The connection to the application of an AppBinding: address, credentials, certificates.

use std::collections::BTreeMap;

use lifeboat_api::appcatalog::ServiceReference;
use serde_json::{Value, json};
use url::Url;

use super::files::APP_MOUNT;
use super::keys::{AppFacts, KeySource, keys, listed};
use super::{AppError, files};

/// The keys of a user's name and of the password that belongs to it: upstream's, and its older ones.
const CREDENTIALS: [(&str, &str); 3] =
    [("username", "password"), ("POSTGRES_USER", "POSTGRES_PASSWORD"), ("ADMIN_USERNAME", "ADMIN_PASSWORD")];
/// The keys of a Secret with certificates.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";

/// How an application is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppAccess {
    /// The AppBinding as messages name it.
    pub app: String,
    pub namespace: String,
    pub host: String,
    /// None if a URL has no port.
    pub port: Option<u16>,
    /// The query of the Service or URL, as in `sslmode=require`.
    pub query: BTreeMap<String, String>,
    /// The keys of its Secret after all transforms.
    pub keys: BTreeMap<String, KeySource>,
    /// The user; None if the AppBinding names no Secret.
    pub user: Option<String>,
    pub password: Option<KeySource>,
    pub skip_verify: bool,
    /// The certificates of the AppBinding itself.
    pub(super) authority: Option<String>,
    /// The Secret with certificates, and its keys.
    pub(super) tls: Option<(String, Vec<String>)>,
}

impl AppAccess {
    pub fn of(facts: &AppFacts) -> Result<Self, AppError> {
        let (config, app) = (&facts.spec.client_config, facts.title());
        let keys = keys(facts)?;
        let (user, password) = credentials(facts, &keys)?;
        let address = match (&config.service, &config.url) {
            (Some(service), _) => of_service(facts, service)?,
            (None, Some(url)) => of_url(&app, url)?,
            (None, None) => return Err(AppError::NoAddress { app }),
        };
        let authority = match &config.ca_bundle {
            Some(bytes) if !bytes.0.is_empty() => Some(String::from_utf8(bytes.0.clone()).map_err(|_| {
                AppError::NotText { app: app.clone(), field: "clientConfig.caBundle".to_owned() }
            })?),
            _ => None,
        };
        let tls = match &facts.spec.tls_secret {
            Some(secret) => {
                let found = facts.secret("spec.tlsSecret", secret)?;
                Some((secret.name.clone(), found.keys().cloned().collect()))
            }
            None => None,
        };
        let Address { host, port, query } = address;
        let (namespace, skip_verify) = (facts.namespace.clone(), config.insecure_skip_tls_verify);
        Ok(Self { app, namespace, host, port, query, keys, user, password, skip_verify, authority, tls })
    }

    /// The file with the certificates of authorities that may sign the server's; None if it is not to be verified.
    pub fn authority_file(&self) -> Option<String> {
        if self.skip_verify {
            return None;
        }
        match &self.authority {
            Some(_) => Some(format!("{APP_MOUNT}/{}", files::AUTHORITY)),
            None => self.has_tls(AUTHORITY).then(|| tls_file(AUTHORITY)),
        }
    }

    /// The files of the client's certificate and of its key.
    pub fn certificate_files(&self) -> Option<(String, String)> {
        (self.has_tls(CERTIFICATE) && self.has_tls(PRIVATE_KEY))
            .then(|| (tls_file(CERTIFICATE), tls_file(PRIVATE_KEY)))
    }

    fn has_tls(&self, key: &str) -> bool {
        self.tls.as_ref().is_some_and(|(_, keys)| keys.iter().any(|known| known == key))
    }

    /// The environment of users' Functions, with the names of upstream's design.
    pub fn env(&self) -> Vec<Value> {
        let mut env = vec![json!({"name": "DB_HOST", "value": self.host})];
        env.extend(self.port.map(|port| json!({"name": "DB_PORT", "value": port.to_string()})));
        env.extend(self.user.as_ref().map(|user| variable("DB_USER", &KeySource::Literal(user.clone()))));
        env.extend(self.password.as_ref().map(|password| variable("DB_PASSWORD", password)));
        env
    }
}

fn tls_file(key: &str) -> String {
    format!("{APP_MOUNT}/{}/{key}", files::TLS)
}

/// A variable of a container's environment. The kubelet replaces `$(NAME)` in texts, so a `$` before a parenthesis is doubled.
pub(in crate::stash) fn variable(name: &str, source: &KeySource) -> Value {
    match source {
        KeySource::Literal(text) => json!({"name": name, "value": text.replace("$(", "$$(")}),
        KeySource::Secret { name: secret, key } => {
            json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
        }
    }
}

struct Address {
    host: String,
    port: Option<u16>,
    query: BTreeMap<String, String>,
}

fn of_service(facts: &AppFacts, service: &ServiceReference) -> Result<Address, AppError> {
    let namespace = service.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let host = format!("{}.{}.svc", service.name, namespace.unwrap_or(&facts.namespace));
    let port = u16::try_from(service.port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| AppError::Port { app: facts.title(), port: service.port })?;
    let query = service.query.as_deref().unwrap_or_default();
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    Ok(Address { host, port: Some(port), query })
}

/// `host:port`, `scheme://host:port/path?query`, or `tcp(host:port)/` as drivers for Go have it.
fn of_url(app: &str, url: &str) -> Result<Address, AppError> {
    let wrong =
        |problem: String| AppError::Url { app: app.to_owned(), url: without_user(url).to_owned(), problem };
    let plain = match url.strip_prefix("tcp(").and_then(|rest| rest.split_once(')')) {
        Some((address, _)) => address,
        None => url,
    };
    let text = if plain.contains("://") { plain.to_owned() } else { format!("database://{plain}") };
    let parsed = Url::parse(&text).map_err(|error| wrong(error.to_string()))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(AppError::Userinfo { app: app.to_owned() });
    }
    let host = parsed.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err(wrong("it has no host".to_owned()));
    }
    Ok(Address { host, port: parsed.port(), query: parsed.query_pairs().into_owned().collect() })
}

/// A URL without what stands before its host, which may be a password.
fn without_user(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

/// The user and where the password is. An AppBinding without a Secret has neither.
fn credentials(
    facts: &AppFacts,
    keys: &BTreeMap<String, KeySource>,
) -> Result<(Option<String>, Option<KeySource>), AppError> {
    if keys.is_empty() && facts.spec.secret.is_none() {
        return Ok((None, None));
    }
    let found = CREDENTIALS.iter().find(|(_, password)| keys.contains_key(*password));
    let Some((user_key, password_key)) = found else {
        let wanted: Vec<String> = CREDENTIALS.iter().map(|(_, password)| (*password).to_owned()).collect();
        return Err(AppError::NoCredential {
            app: facts.title(),
            wanted: wanted.join(", "),
            found: listed(keys),
        });
    };
    let user = match keys.get(*user_key).and_then(|source| facts.value(source)) {
        Some(bytes) => Some(std::str::from_utf8(bytes).map_err(|_| AppError::NotText {
            app: facts.title(),
            field: format!("key {user_key} of its Secret"),
        })?),
        None => None,
    };
    let user = user.map(|user| user.trim_end_matches(['\r', '\n']).to_owned());
    Ok((user.filter(|user| !user.is_empty()), keys.get(*password_key).cloned()))
}
