//! Chooses the snapshots of a restore: for each host its rule, for each rule the source host, for that the snapshots, and for each path
//! the volume that it goes into.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use lifeboat_api::stash::RestoreRule;

use super::matching::{entries, hosts, rule_of};
use super::newest::{by_path, covering, device_above, newest, oldest_copies, paths_of};
use super::{
    Existing, HostSelection, INCOMPLETE_TAG, LATEST, PartTarget, RestoreInto, RestoreNote, RestorePart,
    RestoreRequest, RuleError, Selection, SnapshotFact,
};
use crate::stash::hosts::HostName;
use crate::stash::targets::{CleanPath, find_mount};

/// Snapshots without the tag of a session, as upstream makes them, count as made together within this time.
const ONE_SESSION: SignedDuration = SignedDuration::from_hours(1);

/// Selects the snapshots that are restored to each host: those of the rule that applies to it; without any rules, the newest
/// snapshot of the host itself.
pub fn select(request: &RestoreRequest) -> Selection {
    let own_newest = RestoreRule::default();
    let mut selection = Selection { existing: Existing::of(&request.snapshots), ..Selection::default() };
    for host in &request.hosts {
        let rule = if request.rules.is_empty() { Some(&own_newest) } else { rule_of(&request.rules, host) };
        match rule {
            Some(rule) => selection.hosts.push(Choice::new(request, host, rule).selection()),
            None => selection.left_alone.push(host.clone()),
        }
    }
    selection.problems.extend(host_problem(request, selection.hosts.is_empty()));
    selection
}

/// Chooses the safety copies of a restore, to restore the earlier data: for each host and path the oldest copy,
/// because a second one may contain data that was already half restored. `session`: the UID of the restore. Hosts
/// without copies are not changed.
pub fn rollback(request: &RestoreRequest, session: &str) -> Selection {
    let mut selection = Selection { existing: Existing::of(&request.snapshots), ..Selection::default() };
    let every_file = RestoreRule::default();
    for host in &request.hosts {
        let copies = oldest_copies(&request.snapshots, host, session);
        if copies.is_empty() {
            selection.left_alone.push(host.clone());
            continue;
        }
        let choice = Choice::new(request, host, &every_file);
        let parts = copies.into_iter().map(|(path, copy)| {
            let target = choice.target(&path)?;
            Ok(choice.part(copy, path, target))
        });
        let parts = parts.collect();
        selection.hosts.push(HostSelection {
            name: host.clone(),
            source: host.clone(),
            parts,
            notes: Vec::new(),
        });
    }
    if selection.hosts.is_empty() {
        selection.problems.push(RuleError::NoSafetyCopy { session: session.to_owned() });
    }
    selection
}

/// Rules that list hosts which the target does not have, or hit none of its hosts.
fn host_problem(request: &RestoreRequest, none_has_rule: bool) -> Option<RuleError> {
    let listed: BTreeSet<&str> = request.rules.iter().flat_map(hosts).map(String::as_str).collect();
    let names: Vec<&str> = request.hosts.iter().map(HostName::as_str).collect();
    let joined = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    if none_has_rule {
        let listed = joined(listed.into_iter().collect());
        return Some(RuleError::NoHostHasRule { hosts: joined(names), listed });
    }
    let unknown: Vec<&str> = listed.into_iter().filter(|host| !names.contains(host)).collect();
    (!unknown.is_empty()).then(|| RuleError::UnknownHosts { unknown: joined(unknown), hosts: joined(names) })
}

/// The choice for one host.
struct Choice<'a> {
    request: &'a RestoreRequest,
    host: &'a HostName,
    rule: &'a RestoreRule,
    source: HostName,
    notes: Vec<RestoreNote>,
}

impl<'a> Choice<'a> {
    fn new(request: &'a RestoreRequest, host: &'a HostName, rule: &'a RestoreRule) -> Self {
        let source = rule.source_host.as_deref().filter(|source| !source.is_empty());
        let source = source.map_or_else(|| host.clone(), HostName::from);
        Self { request, host, rule, source, notes: Vec::new() }
    }

    fn selection(mut self) -> HostSelection {
        let parts = self.parts();
        HostSelection { name: self.host.clone(), source: self.source, parts, notes: self.notes }
    }

    fn parts(&mut self) -> Result<Vec<RestorePart>, RuleError> {
        let (paths, ids) = (entries(self.rule.paths.as_ref()), entries(self.rule.snapshots.as_ref()));
        if !paths.is_empty() {
            return paths.iter().map(|path| self.of_path(path)).collect();
        }
        if ids.is_empty() {
            return self.latest();
        }
        let mut parts = Vec::new();
        for id in ids {
            let more = if id == LATEST { self.latest()? } else { self.of_id(id)? };
            parts.extend(more);
        }
        Ok(parts)
    }

    /// A path, from the newest snapshot that has it.
    fn of_path(&mut self, path: &str) -> Result<RestorePart, RuleError> {
        let path = CleanPath::new("rules[].paths", path)?;
        // If both are wrong, the message about a path below no mount is more useful, because the mounts are in the
        // same object.
        let target = self.target(&path)?;
        let snapshot = self.newest_with(&path)?;
        self.note_age(&path, snapshot);
        Ok(self.part(snapshot, path, target))
    }

    fn newest_with(&self, path: &CleanPath) -> Result<&'a SnapshotFact, RuleError> {
        let (host, source_host) = (self.host.clone(), self.source.clone());
        if newest(&self.request.snapshots, &self.source).is_none() {
            return Err(RuleError::NoSnapshotOfHost { host, source_host });
        }
        if let Some(snapshot) = covering(&self.request.snapshots, &self.source, path) {
            return Ok(snapshot);
        }
        let path = path.clone();
        Err(match device_above(&self.request.snapshots, &self.source, &path) {
            Some((device, snapshot)) => {
                RuleError::PathInDevice { host, path, device, snapshot: snapshot.short().into() }
            }
            None => RuleError::PathInNoSnapshot { host, source_host, path },
        })
    }

    /// Each path that was stored, from its newest snapshot. A task gets one snapshot: dumps by different names are different states of
    /// one database.
    fn latest(&mut self) -> Result<Vec<RestorePart>, RuleError> {
        let Some(newest) = newest(&self.request.snapshots, &self.source) else {
            let (host, source_host) = (self.host.clone(), self.source.clone());
            return Err(RuleError::NoSnapshotOfHost { host, source_host });
        };
        if self.request.into == RestoreInto::Task {
            return self.all_of(newest);
        }
        let (mut parts, mut unmounted) = (Vec::new(), Vec::new());
        for (path, snapshot) in by_path(&self.request.snapshots, &self.source) {
            match self.target(&path) {
                Ok(target) => {
                    self.note_age(&path, snapshot);
                    parts.push(self.part(snapshot, path, target));
                }
                Err(error) => unmounted.push((path, error)),
            }
        }
        if parts.is_empty() && !unmounted.is_empty() {
            return Err(unmounted.remove(0).1);
        }
        self.notes.extend(unmounted.into_iter().map(|(path, _)| RestoreNote::NotMounted { path }));
        Ok(parts)
    }

    /// A snapshot that the rule names.
    fn of_id(&mut self, id: &str) -> Result<Vec<RestorePart>, RuleError> {
        let snapshot = self.by_id(id)?;
        if snapshot.host != self.source {
            return Err(RuleError::OtherHost {
                host: self.host.clone(),
                id: snapshot.short().to_owned(),
                found: snapshot.host.clone(),
                source_host: self.source.clone(),
            });
        }
        if snapshot.has_tag(INCOMPLETE_TAG) {
            self.notes.push(RestoreNote::Incomplete { snapshot: snapshot.short().to_owned() });
        }
        self.all_of(snapshot)
    }

    fn by_id(&self, id: &str) -> Result<&'a SnapshotFact, RuleError> {
        let (host, wanted) = (self.host.clone(), id.to_ascii_lowercase());
        if wanted.is_empty() || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(RuleError::NotAnId { host, id: id.to_owned() });
        }
        let found = self.request.snapshots.iter().filter(|snapshot| snapshot.id.starts_with(&wanted));
        let found: Vec<&SnapshotFact> = found.collect();
        match found.as_slice() {
            [] => Err(RuleError::NoSuchSnapshot { host, id: id.to_owned() }),
            [one] => Ok(one),
            several => {
                let found: Vec<&str> = several.iter().map(|snapshot| snapshot.id.as_str()).collect();
                Err(RuleError::AmbiguousSnapshot { host, id: id.to_owned(), found: found.join(", ") })
            }
        }
    }

    /// All paths of a snapshot.
    fn all_of(&self, snapshot: &SnapshotFact) -> Result<Vec<RestorePart>, RuleError> {
        let mut paths = paths_of(snapshot);
        paths.sort();
        paths.into_iter().map(|path| Ok(self.part(snapshot, path.clone(), self.target(&path)?))).collect()
    }

    /// Where a path goes; None for a task.
    fn target(&self, path: &CleanPath) -> Result<Option<PartTarget>, RuleError> {
        let RestoreInto::Mounts(mounts) = &self.request.into else { return Ok(None) };
        if let Some(found) = find_mount(mounts, path) {
            return Ok(Some(PartTarget { volume: found.volume, sub_path: found.sub_path }));
        }
        let mounts: Vec<&str> = mounts.iter().map(|mount| mount.mount_path.as_str()).collect();
        let (host, mounts) = (self.host.clone(), mounts.join(", "));
        Err(RuleError::PathBelowNoMount { host, path: path.clone(), mounts })
    }

    fn part(&self, snapshot: &SnapshotFact, path: CleanPath, target: Option<PartTarget>) -> RestorePart {
        RestorePart {
            snapshot: snapshot.id.clone(),
            time: snapshot.time,
            data: snapshot.data(),
            folder: path.clone(),
            path,
            target,
            include: entries(self.rule.include.as_ref()).to_vec(),
            exclude: entries(self.rule.exclude.as_ref()).to_vec(),
        }
    }

    /// Notes that a path comes from an older session than the newest data of its host.
    fn note_age(&mut self, path: &CleanPath, snapshot: &SnapshotFact) {
        let Some(newest) = newest(&self.request.snapshots, &self.source) else { return };
        let is_older = match (snapshot.session(), newest.session()) {
            (None, None) => newest.time.duration_since(snapshot.time) > ONE_SESSION,
            (own, of_newest) => own != of_newest,
        };
        if is_older {
            self.notes.push(RestoreNote::OlderPath {
                path: path.clone(),
                snapshot: snapshot.short().to_owned(),
                time: snapshot.time,
                newest: newest.time,
            });
        }
    }
}
