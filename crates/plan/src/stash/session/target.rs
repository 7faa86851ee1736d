//! [`TargetKey`]: the target of a member in a form in which two references to one object are equal. [`TargetVolumes`]: the target with
//! its claims, which tells whether two sessions work on the same data.

use std::collections::BTreeSet;
use std::fmt;

use lifeboat_api::stash::TargetRef;

use crate::stash::hosts::TargetKind;

/// A target: its kind, namespace and name. The API version is left out: users write it in several ways for one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl TargetKey {
    /// The target of a reference in an object of the namespace `own`.
    pub fn of(reference: &TargetRef, own: &str) -> Self {
        let namespace = reference.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        Self {
            kind: reference.kind.clone(),
            namespace: namespace.unwrap_or(own).to_owned(),
            name: reference.name.clone(),
        }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What a member of a session works on: its target, and the claims of the target's volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetVolumes {
    /// The namespace of the claims.
    pub namespace: String,
    /// None if claims are created from templates, and for tasks without target.
    pub target: Option<TargetKey>,
    pub claims: BTreeSet<String>,
}

impl TargetVolumes {
    /// `namespace`: that of the session. A claim as target has itself.
    pub fn new(namespace: &str, target: Option<TargetKey>, mut claims: BTreeSet<String>) -> Self {
        claims.extend(target.as_ref().filter(|key| is_claim(key)).map(|key| key.name.clone()));
        Self { namespace: namespace.to_owned(), target, claims }
    }

    /// What both work on: the target, or the first claim that both have.
    pub fn shared(&self, other: &Self) -> Option<TargetKey> {
        if let Some(target) = self.target.as_ref().filter(|target| other.target.as_ref() == Some(target)) {
            return Some(target.clone());
        }
        self.common(other).next().map(|claim| self.claim(claim))
    }

    /// Whether `other` has the same target, or all claims that both `self` and the target have.
    pub fn covers(&self, of: &Self, other: &Self) -> bool {
        let is_same = self.target.is_some() && self.target == of.target;
        let mut common = of.common(other).peekable();
        is_same || (common.peek().is_some() && common.all(|claim| self.claims.contains(claim)))
    }

    /// One name for each thing that a session must have alone: the target and the claims.
    pub fn names(&self) -> BTreeSet<String> {
        let claims = self.claims.iter().map(|claim| self.claim(claim).to_string());
        claims.chain(self.target.iter().map(TargetKey::to_string)).collect()
    }

    /// The target, or the first claim where there is none; None without both.
    pub fn title(&self) -> Option<TargetKey> {
        self.target.clone().or_else(|| self.claims.first().map(|claim| self.claim(claim)))
    }

    fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        let is_here = self.namespace == other.namespace;
        self.claims.intersection(&other.claims).filter(move |_| is_here)
    }

    fn claim(&self, name: &str) -> TargetKey {
        TargetKey {
            kind: TargetKind::Claim.as_str().to_owned(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }
}

fn is_claim(key: &TargetKey) -> bool {
    key.kind == TargetKind::Claim.as_str()
}

impl From<TargetKey> for TargetVolumes {
    /// A target whose claims are not known.
    fn from(target: TargetKey) -> Self {
        let namespace = target.namespace.clone();
        Self::new(&namespace, Some(target), BTreeSet::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(kind: &str, name: &str, claims: &[&str]) -> TargetVolumes {
        let target = TargetKey { kind: kind.into(), namespace: "shop".into(), name: name.into() };
        TargetVolumes::new("shop", Some(target), claims.iter().map(|&claim| claim.to_owned()).collect())
    }

    #[test]
    fn a_claim_and_the_workload_that_mounts_it_share_it() {
        let web = volumes("Deployment", "web", &["data", "logs"]);
        let data = volumes("PersistentVolumeClaim", "data", &[]);
        let shared =
            |one: &TargetVolumes, other: &TargetVolumes| one.shared(other).map(|key| key.to_string());
        assert_eq!(shared(&data, &web).as_deref(), Some("PersistentVolumeClaim shop/data"));
        assert_eq!(shared(&web, &web).as_deref(), Some("Deployment shop/web"));
        assert_eq!(shared(&volumes("Deployment", "api", &["other"]), &web), None);
        let elsewhere = TargetVolumes { namespace: "bank".into(), ..data.clone() };
        assert_eq!(elsewhere.common(&web).count(), 0, "claims of another namespace are others");
        assert_eq!(data.names(), BTreeSet::from(["PersistentVolumeClaim shop/data".to_owned()]));
        assert!(web.names().contains("PersistentVolumeClaim shop/logs"));
    }

    #[test]
    fn claims_from_templates_have_no_target() {
        let made = TargetVolumes { target: None, ..volumes("Deployment", "web", &["data"]) };
        assert!(made.shared(&volumes("PersistentVolumeClaim", "data", &[])).is_some());
        assert_eq!(made.shared(&TargetVolumes::default()), None);
        assert_eq!(TargetVolumes::default().shared(&TargetVolumes::default()), None, "tasks without target");
    }

    #[test]
    fn a_restore_makes_up_for_another_one_if_it_has_all_that_matters() {
        let (web, data) =
            (volumes("Deployment", "web", &["data", "logs"]), volumes("PersistentVolumeClaim", "data", &[]));
        assert!(web.covers(&web, &web) && web.covers(&data, &data) && web.covers(&web, &data));
        assert!(!data.covers(&web, &web), "the logs may still be half restored");
        assert!(data.covers(&web, &data));
    }

    #[test]
    fn references_to_one_object_are_equal_however_they_are_written() {
        let short = TargetRef { kind: "Deployment".into(), name: "web".into(), ..TargetRef::default() };
        let long = TargetRef {
            api_version: Some("apps/v1".into()),
            namespace: Some("shop".into()),
            ..short.clone()
        };
        assert_eq!(TargetKey::of(&short, "shop"), TargetKey::of(&long, "other"));
        assert_ne!(TargetKey::of(&short, "other"), TargetKey::of(&long, "other"));
        assert_eq!(TargetKey::of(&long, "other").to_string(), "Deployment shop/web");
    }
}
