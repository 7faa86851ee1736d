//! The items of each barrier, in the order in which their turn comes: what others of the same barrier depend on first, then
//! by number. A circle is cut where it is entered.

use super::Entry;

/// For each barrier up to the last one that has items.
pub(super) fn barriers(entries: &[Entry]) -> Vec<Vec<usize>> {
    let count = entries.iter().map(|entry| entry.barrier + 1).max().unwrap_or(0);
    let mut barriers = vec![Vec::new(); count];
    let mut placed = vec![false; entries.len()];
    for item in 0..entries.len() {
        place(item, entries, &mut placed, &mut barriers[entries[item].barrier]);
    }
    barriers
}

/// Puts an item behind what it depends on, without recursion: chains may be long.
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
