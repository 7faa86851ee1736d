//! All snapshots of a repository, with damaged ones listed separately. `Repository::load_readable_snapshots` returns
//! it; commands that read choose among the intact ones, commands that remove or repair may name a damaged one, too.

use super::{Filter, FoundSnapshot, Selector, by_prefix, find, find_all};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::SnapshotId;

/// A snapshot that is listed, but whose object is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSnapshot {
    pub id: SnapshotId,
    pub detail: String,
}

impl DamagedSnapshot {
    pub fn error(&self) -> Error {
        Error::damaged(FileKind::Snapshot.describe(self.id.0), &self.detail)
    }
}

/// All listed snapshots.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Oldest first.
    pub found: Vec<FoundSnapshot>,
    /// Sorted by ID. Only damage: if the store cannot return an object, loading fails as a whole.
    pub damaged: Vec<DamagedSnapshot>,
}

impl Loaded {
    /// The IDs of the intact snapshots, then of the damaged ones.
    pub fn ids(&self) -> impl Iterator<Item = SnapshotId> {
        self.found.iter().map(|(id, _)| *id).chain(self.damaged.iter().map(|damaged| damaged.id))
    }

    /// The snapshot that `selector` names. A damaged snapshot is an error if it is named, and prevents `latest`: its
    /// time and content are unknown, so an older one could be mistaken for the newest.
    pub fn find(&self, selector: &Selector, filter: &Filter) -> Result<&FoundSnapshot> {
        if matches!(selector, Selector::Latest { .. }) {
            self.require_latest()?;
        }
        match self.damaged_of(selector)? {
            Some(damaged) => Err(damaged.error()),
            None => find(&self.found, selector, filter),
        }
    }

    /// Like `snapshots::find_all`; a damaged snapshot is an error only if it is named.
    pub fn find_all(&self, selectors: &[Selector], filter: &Filter) -> Result<Vec<&FoundSnapshot>> {
        for selector in selectors {
            self.find(selector, filter)?;
        }
        find_all(&self.found, selectors, filter)
    }

    /// Like `find_all`, for a command that can remove or repair damaged snapshots: they are included if they are
    /// named, and also without names if no filter is given.
    pub fn named(&self, selectors: &[Selector], filter: &Filter) -> Result<Vec<SnapshotId>> {
        let mut chosen = Vec::new();
        if selectors.is_empty() {
            chosen.extend(find_all(&self.found, &[], filter)?.into_iter().map(|(id, _)| *id));
            if filter.is_empty() {
                chosen.extend(self.damaged.iter().map(|damaged| damaged.id));
            }
            return Ok(chosen);
        }
        for selector in selectors {
            let id = match self.damaged_of(selector)? {
                Some(damaged) => damaged.id,
                None => self.find(selector, filter)?.0,
            };
            if !chosen.contains(&id) {
                chosen.push(id);
            }
        }
        Ok(chosen)
    }

    /// Fails if a damaged snapshot may be the latest.
    pub(crate) fn require_latest(&self) -> Result<()> {
        let Some(damaged) = self.damaged.first() else { return Ok(()) };
        Err(Error::Refused {
            reason: format!("snapshot {} is damaged and may be the latest", damaged.id),
            hint: "use the ID of a snapshot (`snapshots` lists them); `forget` with the ID of the damaged one removes it",
        })
    }

    /// A prefix is looked up among all snapshots: it is ambiguous even if one of the two matches is damaged.
    fn damaged_of(&self, selector: &Selector) -> Result<Option<&DamagedSnapshot>> {
        let id = match selector {
            Selector::Latest { .. } => return Ok(None),
            Selector::Id(id) => *id,
            Selector::Prefix(prefix) => by_prefix(&self.ids().collect::<Vec<_>>(), prefix)?,
        };
        Ok(self.damaged.iter().find(|damaged| damaged.id == id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::snapshots::samples::snapshot;

    fn loaded() -> Loaded {
        let found = vec![
            snapshot("a", "2026-01-01T00:00:00Z", "web", &["/data"], &[]),
            snapshot("b", "2026-01-02T00:00:00Z", "db", &["/data"], &[]),
        ];
        let damaged =
            vec![DamagedSnapshot { id: SnapshotId(Id([7; 32])), detail: "it is truncated".to_owned() }];
        Loaded { found, damaged }
    }

    #[test]
    fn a_damaged_snapshot_is_in_the_way_of_none_but_itself() {
        let loaded = loaded();
        let any = Filter::default();
        assert_eq!(loaded.find(&Selector::Id(loaded.found[1].0), &any).unwrap(), &loaded.found[1]);
        assert_eq!(loaded.find_all(&[], &any).unwrap().len(), 2);
        for name in ["0707".to_owned(), loaded.damaged[0].id.to_string()] {
            let named: Selector = name.parse().unwrap();
            assert!(matches!(loaded.find(&named, &any), Err(Error::Damaged { .. })));
            assert!(matches!(
                loaded.find_all(std::slice::from_ref(&named), &any),
                Err(Error::Damaged { .. })
            ));
            assert_eq!(loaded.named(&[named], &any).unwrap(), [loaded.damaged[0].id]);
        }
    }

    #[test]
    fn nothing_is_the_latest_while_a_snapshot_is_damaged() {
        let mut loaded = loaded();
        let (latest, any) = ("latest".parse::<Selector>().unwrap(), Filter::default());
        assert!(matches!(loaded.find(&latest, &any), Err(Error::Refused { .. })));
        assert!(matches!(loaded.find_all(std::slice::from_ref(&latest), &any), Err(Error::Refused { .. })));
        assert!(matches!(loaded.named(std::slice::from_ref(&latest), &any), Err(Error::Refused { .. })));
        loaded.damaged.clear();
        assert_eq!(loaded.find(&latest, &any).unwrap(), &loaded.found[1]);
    }

    #[test]
    fn a_filter_never_chooses_a_damaged_snapshot() {
        let loaded = loaded();
        assert_eq!(loaded.named(&[], &Filter::default()).unwrap().len(), 3);
        let web = Filter { hosts: vec!["web".to_owned()], ..Filter::default() };
        assert_eq!(loaded.named(&[], &web).unwrap(), [loaded.found[0].0]);
    }

    #[test]
    fn a_prefix_of_a_whole_and_a_damaged_snapshot_names_neither() {
        let mut loaded = loaded();
        loaded.found[0].0 = SnapshotId(Id([[7; 31].as_slice(), &[8]].concat().try_into().unwrap()));
        let both: Selector = "0707".parse().unwrap();
        assert!(matches!(loaded.named(&[both], &Filter::default()), Err(Error::Invalid { .. })));
    }
}
