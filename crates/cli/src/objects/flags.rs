//! Values of flags in the forms that stock Velero accepts: label selectors, maps with ":", durations.

use std::collections::BTreeMap;
use std::str::FromStr;

use lifeboat_api::common::{GoDuration, LabelSelector, ParseDurationError};
use lifeboat_plan::selector::{Selector, SelectorError};

/// Why the value of a flag is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error("{0:?} has an empty alternative, which would select everything; write SELECTOR or SELECTOR")]
    EmptyAlternative(String),
    #[error("{0:?} does not name two namespaces; write FROM:TO,FROM:TO")]
    Mapping(String),
    #[error("namespace {0:?} is mapped twice")]
    MappedTwice(String),
    #[error(transparent)]
    Duration(#[from] ParseDurationError),
    #[error("a duration cannot be negative; write it like 720h or 1h30m")]
    Negative,
}

/// `app=web,tier in (a,b)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectorArg(pub(crate) LabelSelector);

impl FromStr for SelectorArg {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        Ok(Self(Selector::parse(text)?.to_spec()))
    }
}

/// `app=web or app=db`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrSelectorArg(pub(crate) Vec<LabelSelector>);

impl FromStr for OrSelectorArg {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        text.split(" or ")
            .map(|part| match part.trim() {
                "" => Err(FlagError::EmptyAlternative(text.to_owned())),
                part => part.parse().map(|SelectorArg(selector)| selector),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// `from:to,from:to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MappingArg(pub(crate) BTreeMap<String, String>);

impl FromStr for MappingArg {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        let mut map = BTreeMap::new();
        for pair in text.split(',').map(str::trim) {
            let (from, to) = pair
                .split_once(':')
                .filter(|(from, to)| !from.is_empty() && !to.is_empty())
                .ok_or_else(|| FlagError::Mapping(pair.to_owned()))?;
            if map.insert(from.to_owned(), to.to_owned()).is_some() {
                return Err(FlagError::MappedTwice(from.to_owned()));
            }
        }
        Ok(Self(map))
    }
}

/// Parses a duration that is not negative.
pub(crate) fn length(text: &str) -> Result<GoDuration, FlagError> {
    let length: GoDuration = text.parse()?;
    if length.to_signed().is_negative() {
        return Err(FlagError::Negative);
    }
    Ok(length)
}

/// The values of a list flag; `None` if it was not given.
pub(crate) fn given(list: &[String]) -> Option<Vec<String>> {
    let list: Vec<_> =
        list.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect();
    (!list.is_empty()).then_some(list)
}

/// A reference to a ConfigMap, with the kind spelt as stock Velero does.
pub(crate) fn config_map(name: Option<&String>) -> Option<lifeboat_api::common::TypedLocalObjectReference> {
    name.map(|name| lifeboat_api::common::TypedLocalObjectReference {
        api_group: None,
        kind: "configmap".to_owned(),
        name: name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_become_what_a_spec_holds() {
        let one: SelectorArg = "app=web,tier in (a,b),!debug".parse().unwrap();
        assert_eq!(
            serde_json::to_value(one.0).unwrap(),
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "debug", "operator": "DoesNotExist"},
            ]})
        );
        let any: OrSelectorArg = "app=web or app=db".parse().unwrap();
        assert_eq!(any.0.len(), 2);
        assert!("a b=c".parse::<SelectorArg>().unwrap_err().to_string().contains("\"a b=c\""));
    }

    #[test]
    fn what_would_take_everything_by_a_slip_is_refused() {
        for slip in ["app=web or ", " or app=web", "a=b or  or c=d"] {
            assert!(
                slip.parse::<OrSelectorArg>().unwrap_err().to_string().contains("empty alternative"),
                "{slip}"
            );
        }
        assert!("app=web or".parse::<OrSelectorArg>().is_err());
        assert!("a==b,,c".parse::<SelectorArg>().unwrap_err().to_string().contains("comma"));
    }

    #[test]
    fn a_length_of_time_is_not_negative() {
        assert!(length("-5h").unwrap_err().to_string().contains("negative"));
        assert!(length("0").is_ok() && length("24h").is_ok() && length("1d").is_err());
    }

    #[test]
    fn mappings_name_two_namespaces_each() {
        let map: MappingArg = "shop:shop-test, db:db-test".parse().unwrap();
        assert_eq!(map.0["db"], "db-test");
        for (wrong, message) in
            [("shop", "FROM:TO"), ("shop:", "FROM:TO"), ("a:b,a:c", "twice"), ("", "FROM:TO")]
        {
            assert!(wrong.parse::<MappingArg>().unwrap_err().to_string().contains(message), "{wrong}");
        }
    }
}
