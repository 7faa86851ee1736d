//! The order of items within each barrier: dependencies in the same barrier first, then by number. A cycle is broken
//! where it is entered.

use super::Entry;

/// The items of each barrier, up to the last barrier that has items.
pub(super) fn barriers(entries: &[Entry]) -> Vec<Vec<usize>> {
    let count = entries.iter().map(|entry| entry.barrier + 1).max().unwrap_or(0);
    let mut barriers = vec![Vec::new(); count];
    let mut placed = vec![false; entries.len()];
    for item in 0..entries.len() {
        place(item, entries, &mut placed, &mut barriers[entries[item].barrier]);
    }
    barriers
}

/// Places an item after its dependencies, without recursion, because chains may be long.
fn place(item: usize, entries: &[Entry], placed: &mut [bool], barrier: &mut Vec<usize>) {
    if std::mem::replace(&mut placed[item], true) {
        return;
    }
    let mut path = vec![(item, 0)];
    while let Some((item, at)) = path.last_mut() {
        let entry = &entries[*item];
        let Some(&other) = entry.after.get(*at) else {
            if !entry.dormant {
                barrier.push(*item);
            }
            path.pop();
            continue;
        };
        *at += 1;
        if entries[other].barrier == entry.barrier && !std::mem::replace(&mut placed[other], true) {
            path.push((other, 0));
        }
    }
}
