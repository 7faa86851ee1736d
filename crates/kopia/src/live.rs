//! Which index blobs are live: a pure function of the names of all of them. With epochs, indexes of an old epoch are
//! replaced by one compaction, and those of many epochs by a checkpoint. Without, a log names what it replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Deserialize;

/// A compaction of an epoch is used only when two further epochs have begun.
const UNSETTLED: u64 = 2;

/// The live index blobs of a repository with epochs, and the time up to which deleted contents are forgotten.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) names: Vec<String>,
    pub(crate) watermark: u64,
}

/// The blobs of one name without its last part: `<stem>-s<set>-c<count>`.
struct Set<'a> {
    names: Vec<&'a str>,
    wanted: usize,
}

/// Chooses from the names of all blobs with the prefix `x`.
pub(crate) fn of_epochs(names: &[String]) -> Live {
    let mut epoch: u64 = 0;
    let mut watermark: u64 = 0;
    let mut written: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut compacted: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut ranges: BTreeMap<(u64, u64), Vec<&str>> = BTreeMap::new();
    for name in names {
        let Some((kind, rest)) = name.split_at_checked(2) else { continue };
        match kind {
            "xe" => epoch = epoch.max(rest.parse().unwrap_or(0)),
            "xw" => watermark = watermark.max(rest.parse().unwrap_or(0)),
            "xn" => {
                if let Some((number, _)) = number(rest) {
                    written.entry(number).or_default().push(name);
                }
            }
            "xs" => {
                if let Some((number, _)) = number(rest) {
                    compacted.entry(number).or_default().push(name);
                }
            }
            "xr" => {
                let range = number(rest).and_then(|(first, rest)| Some((first, number(rest)?.0)));
                if let Some((first, last)) = range.filter(|(first, last)| first <= last) {
                    ranges.entry((first, last)).or_default().push(name);
                }
            }
            _ => {}
        }
    }
    let complete: BTreeMap<(u64, u64), Vec<&str>> =
        ranges.iter().filter_map(|(range, names)| Some((*range, first_complete(names)?))).collect();
    let mut live: Vec<&str> = Vec::new();
    let mut first = 0;
    for range in chain(&complete) {
        live.extend(&complete[&range]);
        first = range.1.saturating_add(1);
    }
    // Only epochs that have blobs, however large the number of the epoch is.
    let numbers: BTreeSet<u64> = compacted.keys().chain(written.keys()).copied().collect();
    for number in numbers.into_iter().filter(|number| (first..=epoch.saturating_add(1)).contains(number)) {
        let settled = number.saturating_add(UNSETTLED) <= epoch;
        let set = compacted.get(&number).filter(|_| settled).and_then(|names| first_complete(names));
        live.extend(set.or_else(|| written.get(&number).cloned()).unwrap_or_default());
    }
    Live { names: live.into_iter().map(str::to_owned).collect(), watermark }
}

/// Every index blob, for contents that the live ones do not know: compaction only merges.
pub(crate) fn all_of_epochs(names: &[String]) -> Vec<String> {
    let is_index = |name: &&String| ["xn", "xs", "xr"].iter().any(|kind| name.starts_with(kind));
    names.iter().filter(is_index).cloned().collect()
}

/// A number that ends with an underscore, and what follows.
fn number(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = text.split_once('_')?;
    Some((number.parse().ok()?, rest))
}

/// The first set that is complete.
fn first_complete<'a>(names: &[&'a str]) -> Option<Vec<&'a str>> {
    let mut sets: BTreeMap<&str, Set<'a>> = BTreeMap::new();
    for name in names {
        let parts: Vec<&str> = name.split('-').collect();
        let count = match parts.as_slice() {
            [_, set, count] if set.starts_with('s') => {
                count.strip_prefix('c').and_then(|count| count.parse().ok()).map(|count| (*set, count))
            }
            _ => None,
        };
        let (key, wanted) = count.unwrap_or((name, 1));
        sets.entry(key).or_insert(Set { names: Vec::new(), wanted }).names.push(name);
    }
    sets.into_values().find(|set| set.names.len() == set.wanted).map(|set| set.names)
}

/// The ranges that join from epoch 0 to the highest epoch; the fewest of them.
fn chain(ranges: &BTreeMap<(u64, u64), Vec<&str>>) -> Vec<(u64, u64)> {
    // The best chain up to each epoch: ranges are sorted by their start, so every predecessor was seen before.
    let mut best: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for range in ranges.keys() {
        let before = match range.0.checked_sub(1) {
            None => Vec::new(),
            Some(end) => match best.get(&end) {
                Some(chain) => chain.clone(),
                None => continue,
            },
        };
        let chain = [before, vec![*range]].concat();
        let shorter = best.get(&range.1).is_none_or(|known| chain.len() < known.len());
        if shorter {
            best.insert(range.1, chain);
        }
    }
    let last = best.keys().copied().filter(|end| *end > 0).max();
    last.and_then(|end| best.remove(&end)).unwrap_or_default()
}

/// A compaction log of a repository without epochs.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Log {
    #[serde(rename = "inputMetadata", default)]
    inputs: Option<Vec<Named>>,
    #[serde(rename = "outputMetadata", default)]
    outputs: Option<Vec<Named>>,
}

#[derive(Debug, Deserialize)]
struct Named {
    #[serde(default)]
    id: String,
}

/// Chooses from the names of all blobs with the prefix `n`: a log counts only if all its outputs exist.
pub(crate) fn without_epochs(names: &[String], logs: &[Log]) -> Vec<String> {
    let present: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut replaced: BTreeSet<&str> = BTreeSet::new();
    for log in logs {
        let outputs = log.outputs.as_deref().unwrap_or_default();
        if outputs.iter().all(|output| present.contains(output.id.as_str())) {
            replaced.extend(log.inputs.iter().flatten().map(|input| input.id.as_str()));
        }
    }
    names.iter().filter(|name| !replaced.contains(name.as_str()) && is_index(name)).cloned().collect()
}

/// A blob that stops old versions of kopia from reading an upgraded repository is no index.
fn is_index(name: &str) -> bool {
    name.starts_with('n') && !name.contains("upgrade_required")
}

#[cfg(test)]
mod tests;
