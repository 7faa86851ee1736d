//! Label selectors: compiled once, from a spec or from text, then evaluated for many objects, or rendered as a query
//! for the API server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use lifeboat_api::common::LabelSelector;

/// A validated selector. The default matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    key: String,
    is: Is,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Is {
    In(Vec<String>),
    NotIn(Vec<String>),
    There,
    NotThere,
}

/// Why a selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("the operator {operator:?} for label {key:?} is none of In, NotIn, Exists, DoesNotExist")]
    Operator { key: String, operator: String },
    #[error("the operator {operator} for label {key:?} needs at least one value")]
    NoValues { key: String, operator: String },
    #[error("the operator {operator} for label {key:?} takes no values")]
    Values { key: String, operator: String },
    #[error(
        "cannot read {term:?} in the label selector; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
    )]
    Text { term: String },
    #[error("the label selector {text:?} has a comma with nothing before or after it; remove it")]
    Empty { text: String },
    #[error(
        "{value:?} cannot be the value of label {key:?}: values have at most 63 letters, digits, \"-\", \"_\" and \".\", and start and end with a letter or digit"
    )]
    Value { key: String, value: String },
}

impl Selector {
    /// Compiles the selector of a spec.
    pub fn new(spec: &LabelSelector) -> Result<Self, SelectorError> {
        let mut terms: Vec<Term> = spec
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Term { key: key.clone(), is: Is::In(vec![value.clone()]) })
            .collect();
        for expression in spec.match_expressions.iter().flatten() {
            let (key, operator) = (expression.key.clone(), expression.operator.clone());
            let values = expression.values.clone().unwrap_or_default();
            let is = match (operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => return Err(SelectorError::NoValues { key, operator }),
                ("Exists" | "DoesNotExist", false) => return Err(SelectorError::Values { key, operator }),
                ("In", false) => Is::In(values),
                ("NotIn", false) => Is::NotIn(values),
                ("Exists", true) => Is::There,
                ("DoesNotExist", true) => Is::NotThere,
                _ => return Err(SelectorError::Operator { key, operator }),
            };
            terms.push(Term { key, is });
        }
        terms.into_iter().map(checked).collect::<Result<_, _>>().map(|terms| Self { terms })
    }

    /// Parses text such as `app=web,tier in (a,b),!debug`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let terms = split(text);
        if terms.iter().any(|term| term.is_empty()) {
            return Err(SelectorError::Empty { text: text.to_owned() });
        }
        let terms = terms.into_iter().map(|text| term(text).and_then(checked));
        terms.collect::<Result<_, _>>().map(|terms| Self { terms })
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().all(|term| {
            let value = labels.get(&term.key);
            match &term.is {
                Is::In(values) => value.is_some_and(|value| values.contains(value)),
                Is::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Is::There => value.is_some(),
                Is::NotThere => value.is_none(),
            }
        })
    }

    /// The selector in the form of a spec. A key that is used twice becomes an expression.
    pub fn to_spec(&self) -> LabelSelector {
        let (mut labels, mut expressions) = (BTreeMap::new(), Vec::new());
        for term in &self.terms {
            let (operator, values) = match &term.is {
                Is::In(values) if values.len() == 1 && !labels.contains_key(&term.key) => {
                    labels.insert(term.key.clone(), values[0].clone());
                    continue;
                }
                Is::In(values) => ("In", Some(values.clone())),
                Is::NotIn(values) => ("NotIn", Some(values.clone())),
                Is::There => ("Exists", None),
                Is::NotThere => ("DoesNotExist", None),
            };
            let (key, operator) = (term.key.clone(), operator.to_owned());
            expressions.push(LabelSelectorRequirement { key, operator, values });
        }
        LabelSelector {
            match_labels: Some(labels).filter(|labels| !labels.is_empty()),
            match_expressions: Some(expressions).filter(|expressions| !expressions.is_empty()),
        }
    }

    /// The selector as a query for the API server; empty for everything.
    pub fn to_query(&self) -> String {
        let mut text = String::new();
        for term in &self.terms {
            if !text.is_empty() {
                text.push(',');
            }
            let key = &term.key;
            // Writing to a String cannot fail.
            let _ = match &term.is {
                Is::In(values) if values.len() == 1 => write!(text, "{key}={}", values[0]),
                Is::In(values) => write!(text, "{key} in ({})", values.join(",")),
                Is::NotIn(values) => write!(text, "{key} notin ({})", values.join(",")),
                Is::There => write!(text, "{key}"),
                Is::NotThere => write!(text, "!{key}"),
            };
        }
        text
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let terms = text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    terms.map(str::trim).collect()
}

/// Rejects values that no label can have, which the API server would reject as well.
fn checked(term: Term) -> Result<Term, SelectorError> {
    if let Is::In(values) | Is::NotIn(values) = &term.is
        && let Some(value) = values.iter().find(|value| !is_value(value))
    {
        return Err(SelectorError::Value { key: term.key.clone(), value: value.clone() });
    }
    Ok(term)
}

fn is_value(text: &str) -> bool {
    let inside = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let edge = |letter: char| letter.is_ascii_alphanumeric();
    text.len() <= 63
        && text.chars().all(inside)
        && text.starts_with(edge) != text.is_empty()
        && text.ends_with(edge) != text.is_empty()
}

fn term(text: &str) -> Result<Term, SelectorError> {
    let wrong = || SelectorError::Text { term: text.to_owned() };
    let made = if let Some((head, list)) = text.split_once('(') {
        let values: Vec<_> = list
            .strip_suffix(')')
            .ok_or_else(wrong)?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        let (key, word) = head.trim().rsplit_once(char::is_whitespace).ok_or_else(wrong)?;
        let is = match word {
            "in" => Is::In(values),
            "notin" => Is::NotIn(values),
            _ => return Err(wrong()),
        };
        (key, is)
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Is::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Is::In(vec![value.trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Is::NotThere)
    } else {
        (text, Is::There)
    };
    let key = made.0.trim();
    if key.is_empty() || key.contains(|letter: char| letter.is_whitespace() || "=!(),".contains(letter)) {
        return Err(wrong());
    }
    Ok(Term { key: key.to_owned(), is: made.1 })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect()
    }

    #[rstest]
    #[case::equal("app=web", true)]
    #[case::double_equal("app==web", true)]
    #[case::other_value("app=db", false)]
    #[case::unequal("app!=db", true)]
    #[case::unequal_and_missing("zone!=a", true)]
    #[case::among("app in (db, web)", true)]
    #[case::not_among("app notin (db,web)", false)]
    #[case::there("tier", true)]
    #[case::not_there("!tier", false)]
    #[case::all_terms("app=web,!debug,tier in (a,b)", true)]
    #[case::everything("", true)]
    fn a_selector_matches(#[case] text: &str, #[case] expected: bool) {
        let found = labels(&[("app", "web"), ("tier", "a")]);
        let selector = Selector::parse(text).unwrap();
        assert_eq!(selector.matches(&found), expected);
        // The API server must interpret the query in the same way.
        assert_eq!(Selector::parse(&selector.to_query()).unwrap(), selector);
        assert_eq!(Selector::new(&selector.to_spec()).unwrap().matches(&found), expected);
    }

    #[rstest]
    #[case("app in db")]
    #[case("app in (db")]
    #[case("=x")]
    #[case("a b=c")]
    fn a_term_that_cannot_be_read_is_named(#[case] text: &str) {
        assert_eq!(Selector::parse(text), Err(SelectorError::Text { term: text.into() }));
    }

    #[rstest]
    #[case::two_commas("a==b,,c")]
    #[case::at_the_end("a=b,")]
    #[case::at_the_start(",a=b")]
    fn a_comma_too_many_is_refused(#[case] text: &str) {
        assert_eq!(Selector::parse(text), Err(SelectorError::Empty { text: text.into() }));
    }

    #[rstest]
    #[case::space("app=web or", "web or")]
    #[case::letter("app in (a,b!)", "b!")]
    #[case::edge("app!=-b", "-b")]
    fn a_value_that_no_label_can_have_is_refused(#[case] text: &str, #[case] value: &str) {
        let refused = SelectorError::Value { key: "app".into(), value: value.into() };
        assert_eq!(Selector::parse(text), Err(refused.clone()));
        let spec = LabelSelector {
            match_labels: Some([("app".into(), value.into())].into()),
            ..LabelSelector::default()
        };
        assert_eq!(Selector::new(&spec), Err(refused));
        assert!(Selector::parse("app=").is_ok());
    }

    #[test]
    fn an_expression_without_values_is_refused() {
        let spec: LabelSelector =
            serde_json::from_value(serde_json::json!({"matchExpressions": [{"key": "a", "operator": "In"}]}))
                .unwrap();
        let error = Selector::new(&spec).unwrap_err();
        assert_eq!(error, SelectorError::NoValues { key: "a".into(), operator: "In".into() });
    }
}
