//! Cycles between the top-level modules of a crate. Modules in a cycle can be understood, tested and moved only
//! together; a crate without cycles can be read from its lowest module upwards.

mod edges;
mod graph;

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::source::Target;
use graph::{Cycle, Graph};

/// Known cycles that should be removed: a package and the modules of one cycle. This list may only become shorter.
#[rustfmt::skip] // one line for each cycle
const KNOWN: &[(&str, &[&str])] = &[
];

/// Fails for every cycle that is not known, and for every known cycle that no longer exists.
pub(crate) fn check(targets: &[Target]) -> Result<()> {
    let found = complaints(targets, KNOWN);
    if !found.is_empty() {
        bail!("cycles between modules:\n  {}", found.join("\n  "));
    }
    Ok(())
}

fn complaints(targets: &[Target], known: &[(&str, &[&str])]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for target in targets {
        let graph = edges::of(target);
        for cycle in graph.cycles() {
            let entry = known.iter().position(|(package, modules)| {
                *package == target.package && cycle.iter().all(|module| modules.contains(&module.as_str()))
            });
            match entry {
                Some(entry) if known[entry].1.len() == cycle.len() => {
                    seen.insert(entry);
                }
                Some(entry) => {
                    seen.insert(entry);
                    found.push(shrunk(&target.package, known[entry].1, &cycle));
                }
                None => found.push(unknown(&target.package, &graph, &cycle)),
            }
        }
    }
    let gone = known.iter().enumerate().filter(|(entry, _)| !seen.contains(entry));
    found.extend(gone.map(|(_, (package, modules))| {
        format!(
            "{package}: {} are no cycle any more; remove the entry from KNOWN in xtask/src/lint/cycles.rs",
            modules.join(", ")
        )
    }));
    found
}

fn shrunk(package: &str, known: &[&str], cycle: &Cycle) -> String {
    let left: Vec<_> = cycle.iter().map(|module| format!("{module:?}")).collect();
    format!(
        "{package}: the known cycle {} has become smaller; write only {} in KNOWN in xtask/src/lint/cycles.rs",
        known.join(", "),
        left.join(", ")
    )
}

/// Names every edge of the cycle, with one place where it occurs.
fn unknown(package: &str, graph: &Graph, cycle: &Cycle) -> String {
    let modules: Vec<_> = cycle.iter().map(String::as_str).collect();
    let edges: Vec<_> =
        graph.within(cycle).map(|(from, to, place)| format!("\n    {from} uses {to}: {place}")).collect();
    format!("{package}: {}{}", modules.join(", "), edges.concat())
}

#[cfg(test)]
mod tests;
