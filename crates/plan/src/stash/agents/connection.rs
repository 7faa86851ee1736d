//! A connection URL of a Restic or Recovery, and the environment of an agent's commands. Any scheme or none is accepted: host and
//! port count. Pure.

use serde_json::{Value, json};
use url::Url;

use super::{AgentError, Database};
use crate::stash::databases::{KeySource, variable};

/// How an agent reaches a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub host: String,
    pub port: Option<u16>,
    /// The URL as it was written.
    pub url: String,
    /// The path of the URL, if it has one.
    pub database: Option<String>,
}

impl Connection {
    /// `host`, `host:port`, `scheme://host:port/database?query`, or `tcp(host:port)/database` as drivers for Go have it.
    pub fn of_url(url: &str) -> Result<Self, AgentError> {
        let url = url.trim();
        let shown = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
        let wrong = |problem: String| AgentError::Url { url: shown.to_owned(), problem };
        let mut rest = url.split_once("://").map_or(url, |(_, rest)| rest).to_owned();
        if let Some((before, inner)) = rest.split_once("tcp(") {
            let Some((address, after)) = inner.split_once(')') else {
                return Err(wrong("the parenthesis is not closed".to_owned()));
            };
            rest = format!("{before}{address}{after}");
        }
        // With a scheme that has no default port, the port that is written is kept.
        let parsed = Url::parse(&format!("database://{rest}")).map_err(|error| wrong(error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(AgentError::Userinfo);
        }
        let host = parsed.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || host.starts_with('-') {
            return Err(wrong("it has no host".to_owned()));
        }
        if parsed.port() == Some(0) {
            return Err(wrong("port 0 is no port".to_owned()));
        }
        let database = parsed.path().trim_matches('/');
        let database = (!database.is_empty()).then(|| database.to_owned());
        Ok(Self { host, port: parsed.port(), url: url.to_owned(), database })
    }

    /// The variables of the commands. Credentials are references to a Secret, which only the kubelet reads.
    pub fn env(
        &self,
        database: &Database,
        user: Option<&KeySource>,
        password: Option<&KeySource>,
    ) -> Vec<Value> {
        let text = |name: &str, value: &str| variable(name, &KeySource::Literal(value.to_owned()));
        let mut env = vec![text("DB_HOST", &self.host)];
        env.extend(self.port.map(|port| json!({"name": "DB_PORT", "value": port.to_string()})));
        env.extend(database.as_str().or(self.database.as_deref()).map(|name| text("DB_NAME", name)));
        env.push(text("DB_URL", &self.url));
        env.extend(user.map(|source| variable("DB_USER", source)));
        env.extend(password.map(|source| variable("DB_PASSWORD", source)));
        env
    }
}
