//! The rules of a restore, and which of them applies to a host.

use std::collections::BTreeSet;

use lifeboat_api::stash::{RestoreMember, RestoreRule};

use super::RuleError;
use crate::stash::hosts::HostName;

/// The rules of a restore, from `target.rules` or from the deprecated field next to the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveRules {
    pub rules: Vec<RestoreRule>,
    /// Whether the rules are in the deprecated field next to the target, which condition `RulesMoved` reports.
    pub moved: bool,
}

impl EffectiveRules {
    /// The rules of a member. They are checked here as well as by CEL, because upstream's validation reads only the deprecated
    /// place and objects may be older than the rules of the CRD.
    pub fn of(member: &RestoreMember) -> Result<Self, RuleError> {
        let of_target = member.target.as_ref().map(|target| target.rules.as_slice()).unwrap_or_default();
        if !of_target.is_empty() && !member.rules.is_empty() {
            return Err(RuleError::TwoPlaces);
        }
        let rules = member.effective_rules().to_vec();
        check(&rules)?;
        Ok(Self { moved: !member.rules.is_empty(), rules })
    }
}

fn check(rules: &[RestoreRule]) -> Result<(), RuleError> {
    if rules.iter().filter(|rule| hosts(rule).is_empty()).count() > 1 {
        return Err(RuleError::TwoForAllOthers);
    }
    let mut listed = BTreeSet::new();
    for rule in rules {
        let own: BTreeSet<&String> = hosts(rule).iter().collect();
        if let Some(host) = own.into_iter().find(|host| !listed.insert(*host)) {
            return Err(RuleError::HostTwice { host: host.clone() });
        }
        if !entries(rule.snapshots.as_ref()).is_empty() && !entries(rule.paths.as_ref()).is_empty() {
            return Err(RuleError::SnapshotsAndPaths);
        }
    }
    Ok(())
}

/// The hosts that a rule lists.
pub(super) fn hosts(rule: &RestoreRule) -> &[String] {
    entries(rule.target_hosts.as_ref())
}

/// The entries of a list that may be missing.
pub(super) fn entries(list: Option<&Vec<String>>) -> &[String] {
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The rule of a host: the one that lists it, else the one with empty `targetHosts`; their order does not matter.
pub fn rule_of<'a>(rules: &'a [RestoreRule], host: &HostName) -> Option<&'a RestoreRule> {
    let listing = rules.iter().find(|rule| hosts(rule).contains(&host.0));
    listing.or_else(|| rules.iter().find(|rule| hosts(rule).is_empty()))
}
