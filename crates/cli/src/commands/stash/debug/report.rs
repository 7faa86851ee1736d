//! The text of a report: sections with a heading, conditions and events. What cannot be read is said in its place, so that one missing
//! right does not hide the rest.

use std::fmt::Write;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{Attempt, objects};
use serde_json::Value;

use crate::commands::stash::Tenant;
use crate::commands::stash::follow::{is_unserved, unserved};
use crate::commands::stash::view::text;
use crate::error::CliError;
use crate::nouns::{Noun, STASH_REPOSITORY};

/// How many events of an object are shown, the newest last.
const EVENTS: usize = 10;

/// A report that is being written.
pub(super) struct Report<'a> {
    pub(super) tenant: &'a Tenant,
    text: String,
}

impl<'a> Report<'a> {
    pub(super) fn new(tenant: &'a Tenant) -> Self {
        Self { tenant, text: String::new() }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn heading(&mut self, heading: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}== {heading}");
    }

    /// Adds lines, each indented.
    pub(super) fn lines(&mut self, lines: &str) {
        for line in lines.lines() {
            let _ = writeln!(self.text, "  {}", line.trim_end());
        }
    }

    /// Adds an object: kind, name, phase, conditions and events.
    pub(super) async fn object(&mut self, noun: Noun, object: &DynamicObject) {
        let json = objects::to_json(object);
        let phase = match text(&json["status"]["phase"]) {
            "" => "no phase yet",
            phase => phase,
        };
        self.heading(&format!("{} {}/{}: {phase}", noun.one, self.tenant.namespace, object.name_any()));
        if json["kind"] != STASH_REPOSITORY.one && is_unserved(&json, Timestamp::now()) {
            self.lines(&unserved(&self.tenant.namespace));
        }
        self.conditions(&json["status"]["conditions"]);
        self.events(&object.uid().unwrap_or_default()).await;
    }

    /// `False RepositoryFound (RepositoryNotAvailable): …`.
    pub(super) fn conditions(&mut self, conditions: &Value) {
        for condition in conditions.as_array().into_iter().flatten() {
            let (status, kind) = (text(&condition["status"]), text(&condition["type"]));
            let (reason, message) = (text(&condition["reason"]), text(&condition["message"]));
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            self.lines(&format!("{status:<7} {kind} ({reason}){message}"));
        }
    }

    /// The newest events about an object.
    pub(super) async fn events(&mut self, uid: &str) {
        let api: Api<Event> = Api::namespaced(self.tenant.client.clone(), &self.tenant.namespace);
        let asked = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let mut events = match api.list(&asked).await.attempt("list Events") {
            Ok(found) => found.items,
            Err(error) => return self.lines(&format!("events cannot be read: {}", error.chain())),
        };
        events.sort_by_key(time);
        let skipped = events.len().saturating_sub(EVENTS);
        for event in &events[skipped..] {
            let when = time(event).map(|time| format!("{time:.0} ")).unwrap_or_default();
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            let line = format!(
                "event {when}{} {}: {}",
                part(&event.type_),
                part(&event.reason),
                part(&event.message)
            );
            self.lines(&line);
        }
    }

    /// Adds a Repository and the keys of its Secret. `reference`: as an invoker or restore names it.
    pub(super) async fn repository(&mut self, reference: &Value) {
        let (name, namespace) = (text(&reference["name"]), text(&reference["namespace"]));
        if name.is_empty() {
            return;
        }
        let own = Tenant {
            client: self.tenant.client.clone(),
            namespace: if namespace.is_empty() { self.tenant.namespace.as_str() } else { namespace }
                .to_owned(),
        };
        let found = match own.find(STASH_REPOSITORY, name).await {
            Ok(found) => found,
            Err(error) => {
                self.heading(&format!("Repository {}/{name}", own.namespace));
                return self.lines(&problem(&error));
            }
        };
        let mut report = Report::new(&own);
        report.object(STASH_REPOSITORY, &found).await;
        report.sizes(&objects::to_json(&found)["status"]);
        report.secret(text(&objects::to_json(&found)["spec"]["backend"]["storageSecretName"])).await;
        let _ = write!(self.text, "\n{}", report.finish());
    }

    fn sizes(&mut self, status: &Value) {
        for (field, label) in [
            ("totalSize", "size"),
            ("snapshotCount", "snapshots"),
            ("integrity", "integrity"),
            ("lastBackupTime", "last backup"),
        ] {
            match &status[field] {
                Value::Null => {}
                Value::String(value) => self.lines(&format!("{label}: {value}")),
                value => self.lines(&format!("{label}: {value}")),
            }
        }
    }

    /// The names of the keys of a Secret.
    async fn secret(&mut self, name: &str) {
        let api: Api<Secret> = Api::namespaced(self.tenant.client.clone(), &self.tenant.namespace);
        let line = match api.get_opt(name).await.attempt(format!("read Secret {name}")) {
            Ok(Some(secret)) => {
                let keys: Vec<String> = secret.data.unwrap_or_default().into_keys().collect();
                format!("Secret {name} has the keys {}", keys.join(", "))
            }
            Ok(None) => format!("Secret {name} does not exist"),
            Err(error) => format!("Secret {name} cannot be read: {}", error.chain()),
        };
        self.lines(&line);
    }
}

/// An error and what to do about it, for a line of the report.
pub(super) fn problem(error: &CliError) -> String {
    let help = miette::Diagnostic::help(error).map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{}{help}", error.full_text())
}

fn time(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref().map(|time| time.0));
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(first).or_else(|| event.creation_timestamp().map(|time| time.0))
}
