//! Snapshots and requests for the tests of `rules`.

mod matching;
mod selecting;

use super::*;

/// A snapshot of a host and path, made in this minute of the hour. The id begins with the text.
pub(super) fn snapshot(id: &str, host: &str, path: &str, minute: u32) -> SnapshotFact {
    SnapshotFact {
        id: format!("{id:0<64}"),
        host: host.into(),
        paths: vec![path.to_owned()],
        tags: Vec::new(),
        time: format!("2026-01-01T00:{minute:02}:00Z").parse().unwrap(),
    }
}

pub(super) fn tagged(tag: &str, snapshot: SnapshotFact) -> SnapshotFact {
    SnapshotFact { tags: vec![tag.to_owned()], ..snapshot }
}

#[allow(clippy::unnecessary_wraps, reason = "lists of a rule are optional")]
pub(super) fn list(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

pub(super) fn rule(hosts: &[&str], source: &str) -> RestoreRule {
    RestoreRule { target_hosts: list(hosts), source_host: Some(source.to_owned()), ..RestoreRule::default() }
}

/// A restore into hosts whose volume `data` is mounted at these paths.
pub(super) fn request(
    hosts: &[&str],
    mounts: &[&str],
    rules: Vec<RestoreRule>,
    snapshots: Vec<SnapshotFact>,
) -> RestoreRequest {
    let mounts = mounts.iter().map(|path| Mount {
        volume: "data".into(),
        mount_path: CleanPath::stored(path).unwrap(),
        sub_path: None,
    });
    let hosts = hosts.iter().map(|host| HostName::from(*host)).collect();
    RestoreRequest { rules, hosts, into: RestoreInto::Mounts(mounts.collect()), snapshots }
}

/// What each host gets, as in `app-0 <- /data@aa`.
pub(super) fn shown(selection: &Selection) -> Vec<String> {
    let part = |part: &RestorePart| format!("{}@{}", part.path, part.snapshot.trim_end_matches('0'));
    let of = |host: &HostSelection| match &host.parts {
        Ok(parts) => format!("{} <- {}", host.name, parts.iter().map(part).collect::<Vec<_>>().join(" ")),
        Err(error) => format!("{} <- {error}", host.name),
    };
    selection.hosts.iter().map(of).collect()
}
