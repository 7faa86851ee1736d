//! The objects of the server, by their full path.

use std::collections::BTreeMap;

use lifeboat_cluster::testing::merge;
use serde_json::{Value, json};

#[derive(Default)]
pub(super) struct Objects {
    by_path: BTreeMap<String, Value>,
    version: u64,
}

impl Objects {
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.by_path.get(path)
    }

    /// The version of the last change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }

    pub(super) fn put(&mut self, path: &str, mut object: Value) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let namespace = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/'));
        let mut filled = vec![("name", json!(name)), ("uid", json!(format!("uid-{name}")))];
        filled.extend(namespace.map(|(namespace, _)| ("namespace", json!(namespace))));
        for (field, value) in filled {
            if object["metadata"][field].is_null() {
                object["metadata"][field] = value;
            }
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.by_path.insert(path.to_owned(), object);
    }

    /// The object after the patch; None where there is none.
    pub(super) fn merge(&mut self, path: &str, with: &Value) -> Option<Value> {
        let mut object = self.by_path.get(path)?.clone();
        merge(&mut object, with);
        self.put(path, object);
        self.by_path.get(path).cloned()
    }

    pub(super) fn remove(&mut self, path: &str) -> Option<Value> {
        self.by_path.remove(path)
    }

    /// The objects of a list's path: in one namespace, or in all.
    pub(super) fn below(&self, list: &str) -> impl Iterator<Item = &Value> {
        let (base, plural) = list.rsplit_once('/').unwrap_or_default();
        let (base, plural) = (base.to_owned(), plural.to_owned());
        self.by_path.iter().filter(move |(path, _)| is_below(path, &base, &plural)).map(|(_, object)| object)
    }
}

fn is_below(path: &str, base: &str, plural: &str) -> bool {
    let Some(rest) = path.strip_prefix(base) else { return false };
    let in_list = |rest: &str| {
        let name = rest.strip_prefix(plural).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
    };
    let Some(rest) = rest.strip_prefix('/') else { return false };
    // Of a list of all namespaces.
    let in_namespace = rest.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
    in_list(rest) || in_namespace.is_some_and(|(_, rest)| in_list(rest))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::in_its_namespace("/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/a", "pods", true)]
    #[case::in_another_namespace("/api/v1/namespaces/b/pods/p", "/api/v1/namespaces/a", "pods", false)]
    #[case::in_all("/api/v1/namespaces/b/pods/p", "/api/v1", "pods", true)]
    #[case::of_another_type("/api/v1/namespaces/b/pods/p", "/api/v1", "secrets", false)]
    #[case::of_the_cluster("/api/v1/namespaces/a", "/api/v1", "namespaces", true)]
    #[case::not_what_is_in_a_namespace("/api/v1/namespaces/a/pods/p", "/api/v1", "namespaces", false)]
    fn a_list_holds(#[case] path: &str, #[case] base: &str, #[case] plural: &str, #[case] expected: bool) {
        assert_eq!(is_below(path, base, plural), expected);
    }
}
