//! Which module uses which, and the cycles among them. Filled by `edges`, read by the lint.

use std::collections::{BTreeMap, BTreeSet};

/// The modules of one cycle: each reaches each other.
pub(super) type Cycle = BTreeSet<String>;

/// The uses between modules, each with the first place where it occurs.
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

    /// The largest sets of modules that reach each other, of two modules or more.
    pub(super) fn cycles(&self) -> BTreeSet<Cycle> {
        let reached: BTreeMap<_, _> =
            self.edges.keys().map(|module| (module, self.reached(module))).collect();
        let cycle = |module: &String| -> Cycle {
            let back = |other: &&String| reached.get(other).is_some_and(|all| all.contains(module));
            reached[module].iter().filter(back).cloned().collect()
        };
        self.edges.keys().map(cycle).filter(|cycle| cycle.len() > 1).collect()
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

    /// The uses inside a cycle: the using module, the used module, the place.
    pub(super) fn within<'a>(
        &'a self,
        cycle: &'a Cycle,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        self.edges.iter().filter(|(from, _)| cycle.contains(*from)).flat_map(move |(from, uses)| {
            let inside = uses.iter().filter(|(to, _)| cycle.contains(*to));
            inside.map(move |(to, place)| (from.as_str(), to.as_str(), place.as_str()))
        })
    }
}
