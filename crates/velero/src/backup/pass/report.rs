//! The log of a backup, and its warnings and errors as results. Clones share both.

use std::sync::{Arc, Mutex};

use lifeboat_archive::documents::Results;
use lifeboat_archive::{Level, RunLog};
use lifeboat_control::locked;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::velero::backup::results::{self, result_message};

/// How many messages are kept for the results; the log has all of them.
const MOST: usize = 20_000;

/// The subject of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About<'a> {
    /// The server, the spec, the storage.
    Server,
    Namespace(&'a str),
    Item(&'a ItemId),
}

/// Log and results of one backup.
#[derive(Clone)]
pub(crate) struct Report {
    log: RunLog,
    results: Arc<Mutex<Results>>,
}

impl Report {
    pub(crate) fn new(log: RunLog) -> Self {
        Self { log, results: Arc::default() }
    }

    pub(crate) fn log(&self) -> &RunLog {
        &self.log
    }

    pub(crate) fn results(&self) -> Results {
        locked(&self.results).clone()
    }

    pub(crate) fn info(&self, message: &str, fields: &[(&str, &str)]) {
        self.log.info(message, fields);
    }

    pub(crate) fn info_about(&self, item: &ItemId, message: &str) {
        let resource = item.resource.to_string();
        self.log.info(message, &fields(&About::Item(item), &resource, None));
    }

    pub(crate) fn warning(&self, about: &About<'_>, message: &str, error: Option<&str>) {
        let resource = resource(about);
        self.log.warning(message, &fields(about, &resource, error));
        self.add(about, &resource, message, error, true);
    }

    pub(crate) fn error(&self, about: &About<'_>, message: &str, error: Option<&str>) {
        let resource = resource(about);
        self.log.error(message, &fields(about, &resource, error));
        self.add(about, &resource, message, error, false);
    }

    /// Logs a line of a plugin; with `counts` it is also a warning or an error of the backup.
    pub(crate) fn line(&self, level: Level, message: &str, fields: &[(&str, &str)], counts: bool) {
        self.log.write(level, message, fields);
        if !counts {
            return;
        }
        let field = |key: &str| fields.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let named = results::ResultSubject { resource: field("resource"), name: field("name") };
        let text = result_message(&named, message, field("error").or_else(|| field("error.message")));
        let mut results = locked(&self.results);
        let list = if level == Level::Error { &mut results.errors } else { &mut results.warnings };
        if list.count() >= MOST {
            return;
        }
        match field("namespace") {
            Some(namespace) => list.add(Some(namespace), text),
            None => list.velero.push(text),
        }
    }

    fn add(&self, about: &About<'_>, resource: &str, message: &str, error: Option<&str>, warning: bool) {
        let named = match about {
            About::Item(item) => results::ResultSubject { resource: Some(resource), name: Some(&item.name) },
            _ => results::ResultSubject::default(),
        };
        let text = result_message(&named, message, error);
        let mut results = locked(&self.results);
        let list = if warning { &mut results.warnings } else { &mut results.errors };
        if list.count() >= MOST {
            return;
        }
        match about {
            About::Server => list.velero.push(text),
            About::Namespace(namespace) => list.add(Some(namespace), text),
            About::Item(item) => list.add(item.namespace.as_deref(), text),
        }
    }
}

fn resource(about: &About<'_>) -> String {
    match about {
        About::Item(item) => item.resource.to_string(),
        _ => String::new(),
    }
}

fn fields<'a>(about: &About<'a>, resource: &'a str, error: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    let mut fields = match about {
        About::Server => Vec::new(),
        About::Namespace(namespace) => vec![("namespace", *namespace)],
        About::Item(item) => vec![
            ("resource", resource),
            ("namespace", item.namespace.as_deref().unwrap_or_default()),
            ("name", item.name.as_str()),
        ],
    };
    fields.extend(error.map(|error| ("error", error)));
    fields
}
