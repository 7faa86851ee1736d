//! Which module uses which, and the rings among them. Filled by `edges`, read by the lint.

use std::collections::{BTreeMap, BTreeSet};

/// The modules of one ring: each reaches each other.
pub(super) type Ring = BTreeSet<String>;

/// The uses between modules, each with the first place where it stands.
#[derive(Debug, Default)]
pub(super) struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    pub(super) fn add(&mut self, from: &str, to: &str, place: impl FnOnce() -> String) {
        if from != to {
            let uses = self.edges.entry(from.to_owned()).or_default();
            uses.entry(to.to_owned()).or_insert_with(place);
        }
    }

    /// The largest sets of modules that reach each other, two modules or more.
    pub(super) fn rings(&self) -> BTreeSet<Ring> {
        let reached: BTreeMap<_, _> =
            self.edges.keys().map(|module| (module, self.reached(module))).collect();
        let ring = |module: &String| -> Ring {
            let back = |other: &&String| reached.get(other).is_some_and(|all| all.contains(module));
            reached[module].iter().filter(back).cloned().collect()
        };
        self.edges.keys().map(ring).filter(|ring| ring.len() > 1).collect()
    }

    fn reached(&self, from: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            for next in self.edges.get(module).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        reached
    }

    /// The uses inside a ring: who, whom, where.
    pub(super) fn within<'a>(&'a self, ring: &'a Ring) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        self.edges.iter().filter(|(from, _)| ring.contains(*from)).flat_map(move |(from, uses)| {
            let inside = uses.iter().filter(|(to, _)| ring.contains(*to));
            inside.map(move |(to, place)| (from.as_str(), to.as_str(), place.as_str()))
        })
    }
}
