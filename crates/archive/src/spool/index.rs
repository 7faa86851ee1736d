//! The index of a spool: about a hundred bytes per item. Types, namespaces and label sets are stored once; names are
//! in one string.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use lifeboat_api::catalogue::{GroupResource, ItemId};

use super::blocks::SpoolOffset;
use super::head::{Head, Uid};

const NONE: u32 = u32::MAX;
/// The size of two strings without their content.
const PAIR: usize = 2 * size_of::<String>();

/// Values that are stored once and referred to by small numbers.
#[derive(Debug)]
struct Table<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(NONE);
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

/// A range of the string or of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    begin: u32,
    length: u32,
}

impl Piece {
    fn range(self) -> std::ops::Range<usize> {
        self.begin as usize..self.begin as usize + self.length as usize
    }
}

#[derive(Debug)]
struct Entry {
    uid: Option<Uid>,
    resource: u32,
    kind: u32,
    namespace: u32,
    version: u32,
    labels: u32,
    name: Piece,
    owners: Piece,
    claims: Piece,
    place: SpoolOffset,
}

/// All entries of a spool.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<Entry>,
    /// Entry numbers, sorted by key.
    sorted: Vec<u32>,
    plain: usize,
    resources: Table<GroupResource>,
    kinds: Table<(String, String)>,
    namespaces: Table<String>,
    versions: Table<String>,
    labels: Table<Vec<(String, String)>>,
    names: String,
    owners: Vec<Uid>,
    claims: Vec<Piece>,
    /// The approximate size of the index in memory, in bytes.
    bytes: u64,
}

/// The metadata of one item.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    index: &'a Index,
    entry: &'a Entry,
    at: usize,
}

impl Index {
    pub(super) fn add(&mut self, id: ItemId, version: Option<String>, head: Head, place: SpoolOffset) {
        self.bytes += Self::size_of(&id, &head) as u64;
        let name = self.text(&id.name);
        let owners = Piece { begin: small(self.owners.len()), length: small(head.owners.len()) };
        self.owners.extend(head.owners);
        let claims = Piece { begin: small(self.claims.len()), length: small(head.claims.len()) };
        for claim in &head.claims {
            let piece = self.text(claim);
            self.claims.push(piece);
        }
        self.plain += usize::from(version.is_none());
        self.bytes += self.shared_bytes(&id, version.as_deref()) as u64;
        let label_bytes =
            head.labels.iter().map(|(key, value)| PAIR + key.len() + value.len()).sum::<usize>();
        let (sets, kinds) = (self.labels.len(), self.kinds.len());
        let labels = label_set(&mut self.labels, head.labels);
        let kind_bytes = 2 * (PAIR + head.api_version.len() + head.kind.len());
        let kind = self.kinds.add((head.api_version, head.kind));
        // Tables hold each value twice: in order, and in the map that finds it.
        self.bytes += if self.labels.len() > sets { 2 * label_bytes as u64 } else { 0 };
        self.bytes += if self.kinds.len() > kinds { kind_bytes as u64 } else { 0 };
        self.entries.push(Entry {
            uid: head.uid,
            resource: self.resources.add(id.resource),
            kind,
            namespace: id.namespace.map_or(NONE, |namespace| self.namespaces.add(namespace)),
            version: version.map_or(NONE, |version| self.versions.add(version)),
            labels,
            name,
            owners,
            claims,
            place,
        });
    }

    /// The size of one item without the values that it shares with others.
    fn size_of(id: &ItemId, head: &Head) -> usize {
        let claims: usize = head.claims.iter().map(|claim| size_of::<Piece>() + claim.len()).sum();
        size_of::<Entry>() + size_of::<u32>() + id.name.len() + head.owners.len() * size_of::<Uid>() + claims
    }

    /// The size of its namespace and its version, if it is the first item that has them.
    fn shared_bytes(&self, id: &ItemId, version: Option<&str>) -> usize {
        let new = |table: &Table<String>, text: &str| {
            if table.numbers.contains_key(text) { 0 } else { 2 * (PAIR + text.len()) }
        };
        let namespace = id.namespace.as_deref().map_or(0, |text| new(&self.namespaces, text));
        let version = version.map_or(0, |text| new(&self.versions, text));
        let resource = if self.resources.numbers.contains_key(&id.resource) { 0 } else { 2 * (PAIR + 2048) };
        namespace + version + resource
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sorts the index for `find`.
    pub(super) fn finish(&mut self) {
        let mut sorted: Vec<u32> = (0..small(self.entries.len())).collect();
        sorted.sort_by(|&left, &right| self.key(left).cmp(&self.key(right)));
        self.sorted = sorted;
        self.entries.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    pub(super) fn plain_count(&self) -> usize {
        self.plain
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.entries.iter().enumerate().map(|(at, entry)| Item { index: self, entry, at })
    }

    pub(super) fn item(&self, at: usize) -> Option<Item<'_>> {
        self.entries.get(at).map(|entry| Item { index: self, entry, at })
    }

    pub(super) fn place(&self, at: usize) -> Option<SpoolOffset> {
        self.entries.get(at).map(|entry| entry.place)
    }

    pub(super) fn find(&self, id: &ItemId, version: Option<&str>) -> Option<usize> {
        let version = match version {
            Some(version) => *self.versions.numbers.get(version)?,
            None => NONE,
        };
        let wanted = self.wanted(id, version)?;
        let at = self.sorted.binary_search_by(|&place| self.key(place).cmp(&wanted)).ok()?;
        Some(self.sorted[at] as usize)
    }

    pub(super) fn versions(&self, id: &ItemId) -> Vec<&str> {
        let Some(first) = self.wanted(id, 0) else { return Vec::new() };
        let begin = self.sorted.partition_point(|&place| self.key(place) < first);
        let of_item = self.sorted[begin..]
            .iter()
            .map(|&place| self.key(place))
            .take_while(|key| (key.0, key.1, key.2, key.3) < (first.0, first.1, first.2, NONE));
        of_item.map(|key| self.versions.values[key.3 as usize].as_str()).collect()
    }

    fn wanted<'a>(&self, id: &'a ItemId, version: u32) -> Option<(u32, u32, &'a str, u32)> {
        let resource = *self.resources.numbers.get(&id.resource)?;
        let namespace = match &id.namespace {
            Some(namespace) => *self.namespaces.numbers.get(namespace)?,
            None => NONE,
        };
        Some((resource, namespace, &id.name, version))
    }

    fn key(&self, at: u32) -> (u32, u32, &str, u32) {
        let entry = &self.entries[at as usize];
        (entry.resource, entry.namespace, &self.names[entry.name.range()], entry.version)
    }

    fn text(&mut self, text: &str) -> Piece {
        let piece = Piece { begin: small(self.names.len()), length: small(text.len()) };
        self.names.push_str(text);
        piece
    }
}

impl<'a> Item<'a> {
    /// Its position in the index, for `Spool::get`.
    pub fn index(&self) -> usize {
        self.at
    }

    pub fn id(&self) -> ItemId {
        ItemId {
            resource: self.resource().clone(),
            namespace: self.namespace().map(str::to_owned),
            name: self.name().to_owned(),
        }
    }

    pub fn resource(&self) -> &'a GroupResource {
        &self.index.resources.values[self.entry.resource as usize]
    }

    pub fn namespace(&self) -> Option<&'a str> {
        self.index.namespaces.values.get(self.entry.namespace as usize).map(String::as_str)
    }

    pub fn name(&self) -> &'a str {
        &self.index.names[self.entry.name.range()]
    }

    /// In the form `apps/v1`.
    pub fn api_version(&self) -> &'a str {
        &self.index.kinds.values[self.entry.kind as usize].0
    }

    /// The version without its group.
    pub fn version(&self) -> &'a str {
        let api_version = self.api_version();
        api_version.rsplit_once('/').map_or(api_version, |(_, version)| version)
    }

    pub fn kind(&self) -> &'a str {
        &self.index.kinds.values[self.entry.kind as usize].1
    }

    /// The version in whose directory it is stored, if that is not the preferred version.
    pub fn stored_version(&self) -> Option<&'a str> {
        self.index.versions.values.get(self.entry.version as usize).map(String::as_str)
    }

    pub fn uid(&self) -> Option<Uid> {
        self.entry.uid
    }

    /// The UIDs of its owners.
    pub fn owners(&self) -> &'a [Uid] {
        &self.index.owners[self.entry.owners.range()]
    }

    /// Its labels, sorted by key.
    pub fn labels(&self) -> &'a [(String, String)] {
        &self.index.labels.values[self.entry.labels as usize]
    }

    /// The claims that a pod mounts.
    pub fn claims(&self) -> impl Iterator<Item = &'a str> {
        let index = self.index;
        index.claims[self.entry.claims.range()].iter().map(|piece| &index.names[piece.range()])
    }

    /// Size of its JSON, in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.entry.place.length)
    }
}

fn label_set(table: &mut Table<Vec<(String, String)>>, labels: BTreeMap<String, String>) -> u32 {
    table.add(labels.into_iter().collect())
}

/// The limits of a spool keep every count below 2^32.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NONE)
}
