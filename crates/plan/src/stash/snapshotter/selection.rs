//! Which VolumeSnapshot each claim of a restore gets: the one that its template names, the one that its rule names, else the newest that
//! was taken of the source claim.

use std::collections::BTreeSet;

use lifeboat_api::stash::RestoreRule;
use serde_json::Value;

use super::restore::{RestoredClaim, RestoredClaimError};
use super::retention::taken_at;
use super::{SnapshotState, Stage, claim_of, owned_by_session};
use crate::json::text;
use crate::stash::hosts::HostName;
use crate::stash::rules::{HostSelection, LATEST, RestorePart, Selection, StoredData, rule_of};
use crate::stash::targets::CleanPath;

/// How many snapshots a message lists.
const LISTED: usize = 8;

/// What a restore takes.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotSelection {
    /// Each claim with a rule has a snapshot that is ready. The path of each part is the root of the volume.
    Found(Selection),
    /// A snapshot that is named is not ready yet; the message names it.
    NotReady(String),
    /// Why the restore cannot be carried out.
    Failed(String),
}

/// Why a claim gets no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoSnapshot {
    #[error(
        "claim {claim}: no session has taken a VolumeSnapshot of claim {source_claim} that is ready; correct sourceHost, or name one in \
         snapshots"
    )]
    OfClaim { claim: String, source_claim: String },
    #[error("claim {claim}: VolumeSnapshot {name} does not exist")]
    Missing { claim: String, name: String },
    #[error(
        "claim {claim}: VolumeSnapshot {name} is of claim {found}, and the rule takes data of source host {source_claim}; set sourceHost to \
         {found}, or name a snapshot of {source_claim}"
    )]
    OtherClaim { claim: String, name: String, found: String, source_claim: String },
    #[error(
        "claim {claim}: the rule names {names}, of which not exactly one was taken of claim {source_claim}; name one VolumeSnapshot for each \
         claim"
    )]
    NotOne { claim: String, names: String, source_claim: String },
    #[error(transparent)]
    TwoSources(RestoredClaimError),
}

/// Selects the VolumeSnapshot that fills each claim of a restore. `snapshots`: all VolumeSnapshots of the restore's namespace.
pub fn select_snapshots(
    rules: &[RestoreRule],
    claims: &[RestoredClaim],
    snapshots: &[Value],
) -> SnapshotSelection {
    if let Some(problem) = rule_problem(rules, claims) {
        return SnapshotSelection::Failed(problem);
    }
    let own_newest = RestoreRule::default();
    let mut selection = Selection::default();
    let (mut problems, mut waits) = (Vec::new(), Vec::new());
    for claim in claims {
        let host = claim.host();
        let rule = if rules.is_empty() { Some(&own_newest) } else { rule_of(rules, &host) };
        let Some(rule) = rule else {
            selection.left_alone.push(host);
            continue;
        };
        match choose(claim, rule, snapshots) {
            Err(problem) => problems.push(problem.to_string()),
            Ok(found) => {
                let state = SnapshotState::of(found);
                let name = text(found, "/metadata/name");
                if state.stage != Stage::Ready {
                    waits.push(format!("VolumeSnapshot {name} for claim {host}: {}", state.message()));
                }
                selection.hosts.push(of_host(host, found));
            }
        }
    }
    if !problems.is_empty() {
        return SnapshotSelection::Failed(format!("{}. {}", problems.join("; "), existing(snapshots)));
    }
    if !waits.is_empty() {
        return SnapshotSelection::NotReady(format!("waits for {}", waits.join(", ")));
    }
    SnapshotSelection::Found(selection)
}

fn of_host(name: HostName, snapshot: &Value) -> HostSelection {
    // The whole volume. An absolute path is always one.
    let root = CleanPath::stored("/");
    let part = |path: CleanPath| RestorePart {
        snapshot: text(snapshot, "/metadata/name").to_owned(),
        time: taken_at(snapshot).unwrap_or_default(),
        data: StoredData::Unknown,
        folder: path.clone(),
        path,
        target: None,
        include: Vec::new(),
        exclude: Vec::new(),
    };
    let source = HostName::from(claim_of(snapshot));
    HostSelection { name, source, parts: Ok(root.into_iter().map(part).collect()), notes: Vec::new() }
}

/// The snapshot of one claim.
fn choose<'a>(
    claim: &RestoredClaim,
    rule: &RestoreRule,
    snapshots: &'a [Value],
) -> Result<&'a Value, NoSnapshot> {
    let (name, find) = (claim.claim.name.clone(), |name: &str| named(snapshots, name));
    let listed = rule.snapshots.as_deref().unwrap_or_default();
    let listed: Vec<String> = listed.iter().map(|written| claim.resolved(written)).collect();
    if let Some(wanted) = &claim.named {
        if listed.iter().any(|listed| listed != wanted) {
            let named = wanted.clone();
            return Err(NoSnapshot::TwoSources(RestoredClaimError::TwoSources { name, named }));
        }
        return find(wanted).ok_or_else(|| NoSnapshot::Missing { claim: name, name: wanted.clone() });
    }
    let source = rule.source_host.as_deref().filter(|source| !source.is_empty());
    let source_claim = source.map_or_else(|| name.clone(), |source| claim.resolved(source));
    match listed.as_slice() {
        [] => newest(snapshots, &source_claim).ok_or(NoSnapshot::OfClaim { claim: name, source_claim }),
        [one] if one == LATEST => {
            newest(snapshots, &source_claim).ok_or(NoSnapshot::OfClaim { claim: name, source_claim })
        }
        [one] => {
            let missing = || NoSnapshot::Missing { claim: name.clone(), name: one.clone() };
            let found = find(one).ok_or_else(missing)?;
            let of = claim_of(found);
            if source.is_some() && of != source_claim {
                let (claim, name, found) = (name, one.clone(), of.to_owned());
                return Err(NoSnapshot::OtherClaim { claim, name, found, source_claim });
            }
            Ok(found)
        }
        several => {
            let mut of_source =
                several.iter().filter_map(|name| find(name)).filter(|found| claim_of(found) == source_claim);
            match (of_source.next(), of_source.next()) {
                (Some(only), None) => Ok(only),
                _ => Err(NoSnapshot::NotOne { claim: name, names: several.join(", "), source_claim }),
            }
        }
    }
}

fn named<'a>(snapshots: &'a [Value], name: &str) -> Option<&'a Value> {
    snapshots.iter().find(|snapshot| text(snapshot, "/metadata/name") == name)
}

/// The newest snapshot that a session took of a claim and that is ready.
fn newest<'a>(snapshots: &'a [Value], claim: &str) -> Option<&'a Value> {
    let of_claim = snapshots.iter().filter(|snapshot| {
        owned_by_session(snapshot)
            && claim_of(snapshot) == claim
            && SnapshotState::of(snapshot).stage == Stage::Ready
    });
    of_claim.max_by_key(|snapshot| (taken_at(snapshot), text(snapshot, "/metadata/name")))
}

/// Rules that list claims which the restore does not make, or none that it makes.
fn rule_problem(rules: &[RestoreRule], claims: &[RestoredClaim]) -> Option<String> {
    let names: BTreeSet<&str> = claims.iter().map(|claim| claim.claim.name.as_str()).collect();
    let listed = rules.iter().filter_map(|rule| rule.target_hosts.as_deref()).flatten();
    let unknown: BTreeSet<&str> = listed.map(String::as_str).filter(|host| !names.contains(host)).collect();
    let joined = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    (!unknown.is_empty()).then(|| {
        format!(
            "targetHosts names {}, which is no claim of this restore; with driver VolumeSnapshotter hosts are claims, and these are {}",
            joined(unknown),
            joined(names)
        )
    })
}

/// The snapshots that could be restored, for a message.
fn existing(snapshots: &[Value]) -> String {
    let mut ready: Vec<&Value> =
        snapshots.iter().filter(|snapshot| SnapshotState::of(snapshot).stage == Stage::Ready).collect();
    ready.sort_by_key(|snapshot| std::cmp::Reverse(taken_at(snapshot)));
    if ready.is_empty() {
        return "The namespace has no VolumeSnapshot that is ready".to_owned();
    }
    let shown = ready
        .iter()
        .take(LISTED)
        .map(|snapshot| format!("{} (of claim {})", text(snapshot, "/metadata/name"), claim_of(snapshot)));
    let mut shown: Vec<String> = shown.collect();
    if ready.len() > LISTED {
        shown.push(format!("and {} more", ready.len() - LISTED));
    }
    format!("The namespace has VolumeSnapshots {}", shown.join(", "))
}
