//! The sequence of blocks that keeps the orders of one or several types. A block is a set of objects that are backed up
//! together (pods that share a claim, claims of one volume group), so that all of its pods are quiet at one moment. An
//! order of objects becomes an order of blocks:
//!
//! - the blocks of the first type (pods) follow its list; a block has the place of its first listed object;
//! - a listed object of another type (claim, volume) is backed up in its block; a block without a listed pod comes
//!   after all listed pods if it has pods, and keeps the place of its object if it has none;
//! - inside a block the listed objects are backed up in the order of their list;
//! - where blocks contradict a list, a warning names both objects. This includes objects that are not listed and come
//!   before listed ones of their type.

use std::collections::{BTreeMap, BTreeSet};

/// How many names one warning has at most.
const MOST: usize = 20;

/// An object of the backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// `namespace/name`, or `name`.
    pub path: String,
    /// Its block; None if no listed object is in it, so that it is backed up after all of them.
    pub block: Option<usize>,
    /// For a claim, the path of its volume: a listed volume brings its claim.
    pub volume: Option<String>,
}

/// The objects of one type.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// The type, as messages name it.
    pub key: &'a str,
    pub objects: &'a [Object],
    /// Indexes into `objects`, in the requested order; empty if the type has no order.
    pub listed: &'a [usize],
}

/// One block, finished before the next one starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub block: usize,
    /// Its objects that have a place, in their order: index of the type in the input, index of the object in its type.
    pub first: Vec<(usize, usize)>,
}

/// The sequence of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    pub steps: Vec<Step>,
    /// What the blocks contradict.
    pub warnings: Vec<String>,
    /// Listed objects that are not finished one after the other, because they are in one block.
    pub notes: Vec<String>,
}

/// Builds the sequence. `lists`: the ordered type, or pods, claims and volumes, whose objects are backed up together.
pub fn order_blocks(lists: &[List<'_>]) -> Sequence {
    let blocks = Building::new(lists).blocks();
    let mut first = first_of(lists);
    let steps: BTreeMap<usize, usize> =
        blocks.iter().enumerate().map(|(step, block)| (*block, step)).collect();
    let compared = Compared { lists, members: members(lists), blocks: &blocks, steps };
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    for list in lists.iter().filter(|list| !list.listed.is_empty()) {
        warnings.extend(compared.listed_contradictions(list));
        warnings.extend(compared.overtaken_by_unlisted(list));
    }
    if let Some(list) = lists.first() {
        notes.extend(compared.listed_together(list));
    }
    let step = |block: &usize| Step { block: *block, first: first.remove(block).unwrap_or_default() };
    Sequence { steps: blocks.iter().map(step).collect(), warnings, notes }
}

/// The objects of each block, as index of the type and index of the object.
fn members(lists: &[List<'_>]) -> BTreeMap<usize, Vec<(usize, usize)>> {
    let mut members: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (kind, list) in lists.iter().enumerate() {
        for (at, object) in list.objects.iter().enumerate() {
            if let Some(block) = object.block {
                members.entry(block).or_default().push((kind, at));
            }
        }
    }
    members
}

/// The objects of each block that have a place. Types that others depend on come first: volumes, claims, pods.
fn first_of(lists: &[List<'_>]) -> BTreeMap<usize, Vec<(usize, usize)>> {
    let mut first: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (kind, list) in lists.iter().enumerate().rev() {
        // A claim that is listed itself keeps the place of its own list.
        let (before, holders) = (kind.saturating_sub(1), kind.checked_sub(1).map(|before| &lists[before]));
        let listed: BTreeSet<usize> =
            holders.into_iter().flat_map(|holders| holders.listed).copied().collect();
        let objects = holders.into_iter().flat_map(|holders| holders.objects.iter().enumerate());
        let unlisted = objects.filter(|(at, _)| !listed.contains(at));
        let brought: BTreeMap<&str, usize> =
            unlisted.filter_map(|(at, object)| Some((object.volume.as_deref()?, at))).collect();
        for at in list.listed {
            let object = &list.objects[*at];
            let Some(block) = object.block else { continue };
            let places = first.entry(block).or_default();
            places.push((kind, *at));
            let holder = brought.get(object.path.as_str()).copied();
            let holder = holder.filter(|at| lists[before].objects[*at].block == Some(block));
            places.extend(holder.map(|at| (before, at)));
        }
    }
    first
}

struct Building<'a> {
    lists: &'a [List<'a>],
    /// The blocks of listed objects of the first type, each at the place of its first one.
    explicit: Vec<usize>,
    /// How many of them have a step.
    begun: usize,
    /// The blocks with objects of the first type.
    of_first: BTreeSet<usize>,
    steps: Vec<usize>,
    placed: BTreeSet<usize>,
}

impl<'a> Building<'a> {
    fn new(lists: &'a [List<'a>]) -> Self {
        let listed = lists
            .first()
            .into_iter()
            .flat_map(|list| list.listed.iter().map(move |at| list.objects[*at].block));
        let mut known = BTreeSet::new();
        let explicit = listed.flatten().filter(|block| known.insert(*block)).collect();
        let of_first = lists.first().into_iter().flat_map(|list| list.objects);
        let of_first = of_first.filter_map(|object| object.block).collect();
        Self { lists, explicit, begun: 0, of_first, steps: Vec::new(), placed: BTreeSet::new() }
    }

    fn blocks(mut self) -> Vec<usize> {
        let explicit: BTreeSet<usize> = self.explicit.iter().copied().collect();
        for list in self.lists.iter().skip(1) {
            for block in list.listed.iter().filter_map(|at| list.objects[*at].block) {
                self.place(block, explicit.contains(&block));
            }
        }
        self.explicit_until(None);
        self.steps
    }

    /// Adds the block of a listed object of another type. `explicit`: it has a listed object of the first type, too.
    fn place(&mut self, block: usize, explicit: bool) {
        if self.placed.contains(&block) {
            return;
        }
        if explicit {
            self.explicit_until(Some(block));
        } else {
            // Pods that are not listed come after all listed ones.
            if self.of_first.contains(&block) {
                self.explicit_until(None);
            }
            self.push(block);
        }
    }

    fn explicit_until(&mut self, end: Option<usize>) {
        while self.begun < self.explicit.len() {
            let block = self.explicit[self.begun];
            self.begun += 1;
            self.push(block);
            if Some(block) == end {
                return;
            }
        }
    }

    fn push(&mut self, block: usize) {
        if self.placed.insert(block) {
            self.steps.push(block);
        }
    }
}

/// Compares the sequence with the lists.
struct Compared<'a> {
    lists: &'a [List<'a>],
    members: BTreeMap<usize, Vec<(usize, usize)>>,
    blocks: &'a [usize],
    /// The step of each block.
    steps: BTreeMap<usize, usize>,
}

impl Compared<'_> {
    fn step(&self, object: &Object) -> Option<usize> {
        self.steps.get(&object.block?).copied()
    }

    /// A warning for each listed object whose block comes before that of an object listed earlier.
    fn listed_contradictions(&self, list: &List<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut latest: Option<(usize, &str)> = None;
        for object in list.listed.iter().map(|at| &list.objects[*at]) {
            let Some(step) = self.step(object) else { continue };
            match latest {
                Some((before, earlier)) if step < before => {
                    let (first, second) = (self.title(step), self.title(before));
                    warnings.push(format!(
                        "orderedResources lists {earlier:?} before {:?} for {}, but they are backed up in the other order: {:?} with \
                         {first}, and after that {earlier:?} with {second}",
                        object.path, list.key, object.path
                    ));
                }
                _ => latest = Some((step, &object.path)),
            }
        }
        warnings
    }

    /// Warnings for objects that are not listed, and that are in a block which comes before a listed object of their
    /// type.
    fn overtaken_by_unlisted(&self, list: &List<'_>) -> Vec<String> {
        let mut latest: Option<(usize, usize)> = None;
        for at in list.listed {
            if let Some(step) =
                self.step(&list.objects[*at]).filter(|step| latest.is_none_or(|(most, _)| *step > most))
            {
                latest = Some((step, *at));
            }
        }
        let Some((end, overtaken)) = latest else { return Vec::new() };
        let overtaken = &list.objects[overtaken].path;
        let listed: BTreeSet<usize> = list.listed.iter().copied().collect();
        let mut early: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (_, object) in list.objects.iter().enumerate().filter(|(at, _)| !listed.contains(at)) {
            if let Some(step) = self.step(object).filter(|step| *step < end) {
                early.entry(step).or_default().push(&object.path);
            }
        }
        let mut warnings = Vec::new();
        for (step, paths) in early {
            let title = self.title(step);
            warnings.extend(paths.chunks(MOST).map(|paths| {
                format!(
                    "orderedResources does not list {} for {}, but backs up the listed {overtaken:?} later: the first is backed up \
                     together with {title}",
                    paths.iter().map(|path| format!("{path:?}")).collect::<Vec<_>>().join(", "),
                    list.key
                )
            }));
        }
        warnings
    }

    /// The listed objects that share a block.
    fn listed_together(&self, list: &List<'_>) -> Vec<String> {
        let mut together: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for object in list.listed.iter().map(|at| &list.objects[*at]) {
            if let Some(step) = self.step(object) {
                together.entry(step).or_default().push(&object.path);
            }
        }
        let several = together.into_values().filter(|paths| paths.len() > 1);
        let note = |paths: Vec<&str>| {
            format!(
                "Ordered {} {} are backed up as one block: the pre hooks of all of them run first, the post hooks last",
                list.key,
                paths.join(", ")
            )
        };
        several.map(note).collect()
    }

    /// A block in messages: its objects of the first type that it has any of.
    fn title(&self, step: usize) -> String {
        let members = self.members.get(&self.blocks[step]).map(Vec::as_slice).unwrap_or_default();
        let Some((kind, _)) = members.first() else { return String::new() };
        let of_kind = members.iter().filter(|(of, _)| of == kind);
        let paths: Vec<&str> = of_kind.map(|(_, at)| self.lists[*kind].objects[*at].path.as_str()).collect();
        let shown = paths.len().min(MOST);
        let rest = paths.len() - shown;
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        format!("{} {}{more}", self.lists[*kind].key, paths[..shown].join(", "))
    }
}
