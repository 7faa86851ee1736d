//! Warnings and errors from the results file of a backup or restore, and their part of a description.

use std::collections::BTreeMap;

use lifeboat_cluster::ApiError;
use serde::Deserialize;

use super::show::{Node, Page};
use crate::error::CliError;

/// The results file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Results {
    #[serde(default)]
    pub(crate) warnings: Messages,
    #[serde(default)]
    pub(crate) errors: Messages,
}

/// Messages by their scope. In the file, `velero` holds those that concern neither a namespace nor an object.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Messages {
    #[serde(default)]
    velero: Vec<String>,
    #[serde(default)]
    cluster: Vec<String>,
    #[serde(default)]
    namespaces: BTreeMap<String, Vec<String>>,
}

impl Messages {
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::default();
        for (label, messages) in [("General", &self.velero), ("Cluster-scoped objects", &self.cluster)] {
            if !messages.is_empty() {
                page.put(label, Node::List(clean(messages)));
            }
        }
        let mut namespaces = Page::default();
        for (namespace, messages) in &self.namespaces {
            namespaces.named(namespace, Node::List(clean(messages)));
        }
        page.page("Namespaces", namespaces);
        page
    }
}

fn clean(messages: &[String]) -> Vec<String> {
    messages.iter().map(|message| message.trim().to_owned()).collect()
}

/// Why a part of a description is missing; printed in its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotFetched {
    #[error("{}", .0.full_text())]
    File(CliError),
    #[error("{}", .0.chain())]
    Objects(ApiError),
}

/// A part of a description: None if not requested or not stored; otherwise the content, or why it could not be read.
pub(crate) type Fetched<T> = Option<Result<T, NotFetched>>;

/// Adds errors and warnings to a description. `errors` and `warnings` are the counts from the object's status.
pub(crate) fn put(
    page: &mut Page,
    results: Option<&Result<Results, NotFetched>>,
    errors: i64,
    warnings: i64,
) {
    match results {
        Some(Ok(results)) => {
            page.page("Errors", results.errors.page());
            page.page("Warnings", results.warnings.page());
        }
        Some(Err(reason)) => {
            page.text("Errors and warnings", format!("{errors} and {warnings}; cannot be shown: {reason}"));
        }
        None if errors + warnings > 0 => {
            page.text(
                "Errors and warnings",
                format!("{errors} and {warnings}; their text is not in the location"),
            );
        }
        None => {}
    }
}
