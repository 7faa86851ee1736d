//! The namespaces of a backup. Wildcards are expanded once, against the namespaces that exist when the backup starts.

use crate::glob::{Glob, GlobError};
use crate::includes::Includes;

/// Why a list of namespaces is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    #[error(
        "the namespace pattern {0:?} has one of |()!{{}}, in it or two stars in a row; write names with *, ? and [abc]"
    )]
    Pattern(String),
    #[error("the namespace pattern cannot be read: {0}")]
    Glob(#[from] GlobError),
    #[error(
        "the namespace {0:?} is neither a valid name nor a pattern; use the names of namespaces in the cluster"
    )]
    Name(String),
}

/// How namespaced types are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespacesToList {
    /// One list over all namespaces; objects of other namespaces are dropped one by one.
    All,
    /// One list per namespace.
    Only(Vec<String>),
}

/// The included namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFilter {
    lists: Includes,
    everything: bool,
    /// If names were given: the included ones, existing or not; sorted.
    chosen: Option<Vec<String>>,
    /// Included by exact name, but missing.
    missing: Vec<String>,
    /// Patterns that match no namespace.
    idle: Vec<String>,
    live: Vec<String>,
}

impl NamespaceFilter {
    pub fn new(included: &[String], excluded: &[String], live: &[String]) -> Result<Self, NamespaceError> {
        for name in included.iter().chain(excluded) {
            check(name)?;
        }
        let lists = Includes::new(included, excluded)?;
        let mut filter = Self {
            everything: lists.is_everything(),
            lists,
            chosen: None,
            missing: Vec::new(),
            idle: Vec::new(),
            live: live.to_vec(),
        };
        if !filter.lists.includes_everything() {
            filter.choose(included, live)?;
        }
        Ok(filter)
    }

    fn choose(&mut self, included: &[String], live: &[String]) -> Result<(), NamespaceError> {
        let mut chosen: Vec<String> = Vec::new();
        for name in included {
            if Glob::is_pattern(name) {
                let glob = Glob::new(name)?;
                let before = chosen.len();
                chosen.extend(live.iter().filter(|candidate| glob.matches(candidate)).cloned());
                if chosen.len() == before {
                    self.idle.push(name.clone());
                }
            } else {
                if !live.contains(name) && !self.lists.excludes(name) {
                    self.missing.push(name.clone());
                }
                chosen.push(name.clone());
            }
        }
        chosen.retain(|name| !self.lists.excludes(name));
        chosen.sort();
        chosen.dedup();
        self.chosen = Some(chosen);
        Ok(())
    }

    pub fn takes(&self, namespace: &str) -> bool {
        match &self.chosen {
            Some(chosen) => chosen.binary_search_by(|name| name.as_str().cmp(namespace)).is_ok(),
            None => !self.lists.excludes(namespace),
        }
    }

    /// Whether all namespaces are included.
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// One list over the whole cluster is cheaper than many small ones if at least half of the namespaces are
    /// included.
    pub fn to_list(&self) -> NamespacesToList {
        match &self.chosen {
            Some(chosen) if chosen.len() < 4 || chosen.len() * 2 <= self.live.len() => {
                NamespacesToList::Only(chosen.clone())
            }
            _ => NamespacesToList::All,
        }
    }

    /// All included namespaces, for servers that may not list the whole cluster.
    pub fn names(&self) -> Vec<String> {
        self.chosen.clone().unwrap_or_else(|| self.chosen_among(&self.live))
    }

    /// The included namespaces among those that exist.
    pub fn chosen_among(&self, live: &[String]) -> Vec<String> {
        live.iter().filter(|name| self.takes(name)).cloned().collect()
    }

    /// Included by name, but missing: errors, as upstream.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Patterns without a match: warnings.
    pub fn idle_patterns(&self) -> &[String] {
        &self.idle
    }
}

/// Upstream's rules for patterns; also rejects names that are not valid in a URL.
fn check(name: &str) -> Result<(), NamespaceError> {
    if name == "*" {
        return Ok(());
    }
    if name.contains(['|', '(', ')', '{', '}', ',']) || name.contains("**") {
        return Err(NamespaceError::Pattern(name.to_owned()));
    }
    if Glob::is_pattern(name) {
        return Glob::new(name).map(drop).map_err(NamespaceError::Glob);
    }
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(NamespaceError::Name(name.to_owned()));
    }
    Ok(())
}
