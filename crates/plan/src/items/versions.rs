//! Which of several stored versions of a type is restored: the user's preference, then the target cluster's preferred
//! version, then the source cluster's, then the highest version that both support. As upstream decides it. Called
//! once for each type that an archive holds in several versions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use lifeboat_api::catalogue::{Catalogue, GroupResource};

/// The ConfigMap in Lifeboat's namespace, and its key, with the user's preferences.
pub const CONFIG_MAP: &str = "enableapigroupversions";
pub const CONFIG_KEY: &str = "restoreResourcesVersionPriority";

/// The user's preferred versions, by the type's full name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPreferences(BTreeMap<String, Vec<String>>);

impl VersionPreferences {
    /// Parses lines of the form `widgets.example.com=v2,v1`. Invalid lines are returned, for the log.
    pub fn parse(text: &str) -> (Self, Vec<String>) {
        let (mut preferences, mut others) = (BTreeMap::new(), Vec::new());
        for line in text.lines() {
            let line: String = line.chars().filter(|letter| !letter.is_whitespace()).collect();
            match line.split_once('=') {
                _ if line.is_empty() => {}
                Some((name, versions))
                    if !name.is_empty() && !versions.is_empty() && !versions.contains('=') =>
                {
                    preferences.insert(name.to_owned(), versions.split(',').map(str::to_owned).collect());
                }
                _ => others.push(line),
            }
        }
        (Self(preferences), others)
    }
}

/// Chooses the version of one type. `preferred` is the version that the source cluster preferred, `others` are the
/// further ones in the backup. None means the preferred one.
pub fn choose(
    resource: &GroupResource,
    preferred: &str,
    others: &[&str],
    catalogue: &Catalogue,
    preferences: &VersionPreferences,
) -> Option<String> {
    let mut served: Vec<&str> = catalogue
        .all()
        .iter()
        .filter(|known| known.id == *resource)
        .map(|known| known.version.as_str())
        .collect();
    let stored = |version: &str| version == preferred || others.contains(&version);
    let asked_for = preferences.0.get(&resource.to_string()).into_iter().flatten();
    let asked_for = asked_for.map(String::as_str).find(|version| stored(version) && served.contains(version));
    let cluster =
        catalogue.get(resource).map(|known| known.version.as_str()).filter(|version| stored(version));
    served.sort_by(|left, right| compare(right, left));
    let old = Some(preferred).filter(|version| served.contains(version));
    let common = || served.iter().copied().find(|version| stored(version));
    let chosen = asked_for.or(cluster).or(old).or_else(common)?;
    (chosen != preferred).then(|| chosen.to_owned())
}

/// Kubernetes' order of versions: stable before beta before alpha, high numbers before low ones, other names last,
/// alphabetically.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (parts(left), parts(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// `v2beta1` is major 2, level 1, minor 1.
fn parts(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..end].parse().ok()?;
    let (level, minor) = match &rest[end..] {
        "" => return Some((2, major, 0)),
        level => match level.strip_prefix("beta") {
            Some(minor) => (1, minor),
            None => (0, level.strip_prefix("alpha")?),
        },
    };
    Some((level, major, if minor.is_empty() { 0 } else { minor.parse().ok()? }))
}

#[cfg(test)]
mod tests {
    use lifeboat_api::catalogue::ResourceType;
    use rstest::rstest;

    use super::*;

    /// The first version is the preferred one.
    fn catalogue(versions: &str) -> Catalogue {
        let of = |version: &str, preferred| ResourceType {
            id: GroupResource::parse("widgets.example.com"),
            version: version.into(),
            kind: "Widget".into(),
            preferred,
            ..ResourceType::default()
        };
        let versions = versions.split(',').filter(|version| !version.is_empty()).enumerate();
        Catalogue::new(versions.map(|(at, version)| of(version, at == 0)).collect())
    }

    #[rstest]
    #[case::the_cluster_prefers_another("v2,v1", "", Some("v2"))]
    #[case::the_same("v1,v2", "", None)]
    #[case::the_clusters_choice_is_not_stored("v3,v1", "", None)]
    #[case::only_a_common_one("v3,v1beta1,v2beta1", "", Some("v2beta1"))]
    #[case::nothing_in_common("v3", "", None)]
    #[case::not_served("", "", None)]
    #[case::preference("v1,v2,v2beta1", "widgets.example.com = v9, v2beta1", Some("v2beta1"))]
    #[case::wish_that_is_not_served("v2,v1", "widgets.example.com=v1beta1", Some("v2"))]
    #[case::wish_for_another_type("v1,v2", "gadgets.example.com=v2", None)]
    #[case::wish_for_the_old_one("v2,v1", "widgets.example.com=v1", None)]
    fn a_version_is_chosen_as_upstream_does(
        #[case] served: &str,
        #[case] preference: &str,
        #[case] expected: Option<&str>,
    ) {
        let resource = GroupResource::parse("widgets.example.com");
        let (preferences, _) = VersionPreferences::parse(preference);
        let chosen = choose(&resource, "v1", &["v2", "v2beta1", "v1beta1"], &catalogue(served), &preferences);
        assert_eq!(chosen.as_deref(), expected);
    }

    #[test]
    fn versions_are_ordered_as_kubernetes_does() {
        let mut versions =
            ["foo1", "v1alpha1", "v10", "v11beta2", "v2", "v12alpha1", "v11alpha2", "v3beta1", "v1", "bar"];
        versions.sort_by(|left, right| compare(right, left));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "bar", "foo1"]
        );
    }

    #[test]
    fn lines_that_are_no_wishes_are_given_back() {
        let (preferences, others) = VersionPreferences::parse("a.b=v1\n\nnonsense\n=v1\nc=\nd=v1=v2\n");
        assert_eq!(preferences.0.len(), 1);
        assert_eq!(others, ["nonsense", "=v1", "c=", "d=v1=v2"]);
    }
}
