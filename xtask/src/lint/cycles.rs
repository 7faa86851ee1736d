//! Cycles between the top-level modules of a crate. Modules that use each other in a ring can be understood, tested and
//! moved only together; a crate without rings can be read from its lowest module upwards.

mod edges;
mod graph;

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::source::Target;
use graph::{Graph, Ring};

/// Rings that are known and shall go: a package and the modules of one ring. This list may only become shorter.
#[rustfmt::skip] // one line for each ring
const KNOWN: &[(&str, &[&str])] = &[
    ("lifeboat-operator", &["backup", "carrying", "context", "csi", "dynamic", "locations", "movers", "password", "repositories", "snapshot_locations"]),
];

/// Fails with every ring that is not known, and with every known ring that is none any more.
pub(crate) fn check(targets: &[Target]) -> Result<()> {
    let found = complaints(targets, KNOWN);
    if !found.is_empty() {
        bail!("modules that use each other in a ring:\n  {}", found.join("\n  "));
    }
    Ok(())
}

fn complaints(targets: &[Target], known: &[(&str, &[&str])]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for target in targets {
        let graph = edges::of(target);
        for ring in graph.rings() {
            let entry = known.iter().position(|(package, modules)| {
                *package == target.package && ring.iter().all(|module| modules.contains(&module.as_str()))
            });
            match entry {
                Some(entry) if known[entry].1.len() == ring.len() => {
                    seen.insert(entry);
                }
                Some(entry) => {
                    seen.insert(entry);
                    found.push(shrunk(&target.package, known[entry].1, &ring));
                }
                None => found.push(unknown(&target.package, &graph, &ring)),
            }
        }
    }
    let gone = known.iter().enumerate().filter(|(entry, _)| !seen.contains(entry));
    found.extend(gone.map(|(_, (package, modules))| {
        format!(
            "{package}: {} are no ring any more; remove the entry from KNOWN in xtask/src/lint/cycles.rs",
            modules.join(", ")
        )
    }));
    found
}

fn shrunk(package: &str, known: &[&str], ring: &Ring) -> String {
    let left: Vec<_> = ring.iter().map(|module| format!("{module:?}")).collect();
    format!(
        "{package}: the known ring {} has become smaller; write only {} in KNOWN in xtask/src/lint/cycles.rs",
        known.join(", "),
        left.join(", ")
    )
}

/// Names every edge of the ring, with one place where it stands.
fn unknown(package: &str, graph: &Graph, ring: &Ring) -> String {
    let modules: Vec<_> = ring.iter().map(String::as_str).collect();
    let edges: Vec<_> =
        graph.within(ring).map(|(from, to, place)| format!("\n    {from} uses {to}: {place}")).collect();
    format!("{package}: {}{}", modules.join(", "), edges.concat())
}

#[cfg(test)]
mod tests;
