//! Which rule holds for a host.

use lifeboat_api::stash::{RestoreMember, RestoreRule};

use super::RuleError;
use crate::stash::hosts::HostName;

/// The rules of a restore, wherever they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveRules {
    pub rules: Vec<RestoreRule>,
    /// They are in the deprecated place beside the target: condition `RulesMoved`.
    pub moved: bool,
}

impl EffectiveRules {
    /// The rules of a member, checked.
    pub fn of(member: &RestoreMember) -> Result<Self, RuleError> {
        let _ = member;
        unimplemented!()
    }
}

/// The rule of a host: the one that lists it, else the one with empty `targetHosts`, in whatever order they are.
pub fn rule_of<'a>(rules: &'a [RestoreRule], host: &HostName) -> Option<&'a RestoreRule> {
    let _ = (rules, host);
    unimplemented!()
}
