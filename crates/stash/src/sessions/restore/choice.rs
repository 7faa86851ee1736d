//! The snapshots that were chosen for each host, as they are recorded, and the work of a mover for them. After a
//! crash the next server restores the recorded snapshots, not newer ones.

use lifeboat_api::stash::{RestoreRule, RestoredPath};
use lifeboat_plan::stash::rules::{RestorePart, rule_of};
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::targets::{CleanPath, HostPart, Mount, find_mount, mount_above};

/// One path that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WritePart {
    pub(super) snapshot: String,
    pub(super) path: CleanPath,
    /// The name of a volume of the host.
    pub(super) volume: String,
    /// The directory below the root of the volume.
    pub(super) sub_path: Option<String>,
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
    /// The path is a whole mount, which gets exactly what the snapshot has.
    pub(super) exact: bool,
}

/// The choice for a host, as it is recorded.
pub(super) fn on_record(parts: &[RestorePart]) -> Vec<RestoredPath> {
    let path = |part: &RestorePart| RestoredPath {
        snapshot: part.snapshot.clone(),
        path: part.path.to_string(),
        restored: false,
    };
    parts.iter().map(path).collect()
}

/// What is written for a host, from its record. `rules`: for patterns of files.
pub(super) fn write_parts(
    host: &HostState,
    mounts: &[Mount],
    rules: &[RestoreRule],
    is_rollback: bool,
) -> Vec<WritePart> {
    let rule = rule_of(rules, &host.name);
    let patterns =
        |list: fn(&RestoreRule) -> Option<&Vec<String>>| rule.and_then(list).cloned().unwrap_or_default();
    let part = |chosen: &RestoredPath| {
        let path = CleanPath::stored(&chosen.path)?;
        let place = find_mount(mounts, &path)?;
        let exact = is_rollback && mounts.iter().any(|mount| mount.mount_path == path);
        Some(WritePart {
            exact,
            snapshot: chosen.snapshot.clone(),
            path,
            volume: place.volume,
            sub_path: place.sub_path,
            include: patterns(|rule| rule.include.as_ref()),
            exclude: patterns(|rule| rule.exclude.as_ref()),
        })
    };
    host.paths.iter().filter_map(part).collect()
}

/// Whether a part is restored already.
pub(super) fn is_restored(host: &HostState, part: &WritePart) -> bool {
    let same = |chosen: &&RestoredPath| chosen.snapshot == part.snapshot && chosen.path == part.path.as_str();
    host.paths.iter().find(same).is_some_and(|chosen| chosen.restored)
}

/// The data that is copied before it is overwritten: the whole mount of each path, because the path itself may be the
/// data that was lost.
pub(super) fn safety_parts(mounts: &[Mount], paths: &[RestoredPath]) -> Vec<HostPart> {
    let mut parts: Vec<HostPart> = Vec::new();
    let stored = paths.iter().filter_map(|chosen| CleanPath::stored(&chosen.path));
    for mount in stored.filter_map(|path| mount_above(mounts, &path)) {
        if !parts.iter().any(|part| part.path == mount.mount_path) {
            parts.push(HostPart {
                path: mount.mount_path.clone(),
                volume: mount.volume.clone(),
                sub_path: mount.sub_path.clone(),
            });
        }
    }
    parts
}

/// Whether all of these are in safety copies of the host.
pub(super) fn is_copied(host: &HostState, parts: &[HostPart]) -> bool {
    let has =
        |part: &HostPart| host.snapshots.iter().any(|copy| copy.path.as_deref() == Some(part.path.as_str()));
    parts.iter().all(has)
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::stash::hosts::HostName;

    use super::*;

    fn mount(volume: &str, path: &str, sub_path: Option<&str>) -> Mount {
        let mount_path = CleanPath::stored(path).unwrap();
        Mount { volume: volume.into(), mount_path, sub_path: sub_path.map(str::to_owned) }
    }

    fn chosen(snapshot: &str, path: &str) -> RestoredPath {
        RestoredPath { snapshot: snapshot.into(), path: path.into(), restored: false }
    }

    #[test]
    fn a_choice_that_is_on_record_is_written_where_its_path_is_mounted() {
        let mounts = [mount("data", "/data", None), mount("logs", "/data/logs", Some("app"))];
        let paths = vec![chosen("a", "/data/x"), chosen("b", "/data/logs")];
        let host = HostState { name: HostName::from("app"), paths, ..HostState::default() };
        let rules = [RestoreRule { exclude: Some(vec!["*.tmp".into()]), ..RestoreRule::default() }];
        let parts = write_parts(&host, &mounts, &rules, false);
        let places: Vec<_> =
            parts.iter().map(|part| (part.volume.as_str(), part.sub_path.as_deref())).collect();
        assert_eq!(places, [("data", Some("x")), ("logs", Some("app"))]);
        let is_exact = |is_rollback| {
            let paths = vec![chosen("a", "/data"), chosen("b", "/data/x")];
            let host = HostState { paths, ..host.clone() };
            let parts = write_parts(&host, &mounts, &[], is_rollback);
            parts.iter().map(|part| part.exact).collect::<Vec<_>>()
        };
        assert_eq!(
            is_exact(true),
            [true, false],
            "only whole mounts are made exactly like their safety copies"
        );
        assert_eq!(is_exact(false), [false, false]);
        assert!(parts.iter().all(|part| part.exclude == ["*.tmp"] && part.include.is_empty()));
    }

    #[test]
    fn whole_mounts_are_copied_each_once() {
        let mounts = [mount("data", "/data", None), mount("logs", "/logs", Some("app"))];
        let paths = [chosen("a", "/data/x"), chosen("a", "/data/y"), chosen("b", "/logs")];
        let parts = safety_parts(&mounts, &paths);
        let shown: Vec<_> = parts.iter().map(|part| (part.path.as_str(), part.sub_path.as_deref())).collect();
        assert_eq!(shown, [("/data", None), ("/logs", Some("app"))]);
    }
}
