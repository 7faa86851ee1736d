//! [`TargetKey`]: the target of a member in a form in which two references to one object are equal.

use std::fmt;

use lifeboat_api::stash::TargetRef;

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

#[cfg(test)]
mod tests {
    use super::*;

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
