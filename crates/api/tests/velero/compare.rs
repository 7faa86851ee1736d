//! Checks whether one kind accepts everything that another accepts: the comparator, and tests that it can fail.

use serde_json::{Value, json};

use super::facts::{Kind, Node};

/// Every place where `ours` is stricter than `upstream`, or does something else with the same object.
pub(crate) fn stricter(name: &str, ours: &Kind, upstream: &Kind) -> Vec<String> {
    let mut findings = Vec::new();
    if ours.scope != upstream.scope {
        findings.push(format!("scope is {}, upstream's is {}", ours.scope, upstream.scope));
    }
    if ours.status_subresource != upstream.status_subresource {
        findings.push(format!("status subresource: {}", ours.status_subresource));
    }
    for short_name in upstream.short_names.iter().filter(|name| !ours.short_names.contains(name)) {
        findings.push(format!("short name {short_name} is missing"));
    }
    for (column, (type_, _)) in &upstream.columns {
        if ours.columns.get(column).is_none_or(|(ours, _)| ours != type_) {
            findings.push(format!("column {column} of type {type_} is missing"));
        }
    }
    for (path, theirs) in &upstream.fields {
        match ours.fields.get(path) {
            Some(node) => findings.extend(field(node, theirs).map(|finding| format!("{path}: {finding}"))),
            None => findings.push(format!("{path}: is missing")),
        }
    }
    findings.into_iter().map(|finding| format!("{name} {finding}")).collect()
}

/// Where one field is stricter or different. What `upstream` says and `ours` does not makes ours wider, with
/// the exception of the marks in `MUST_MATCH`.
fn field(ours: &Node, upstream: &Node) -> impl Iterator<Item = String> {
    let missing = MUST_MATCH
        .iter()
        .filter(|key| upstream.contains_key(**key) && !ours.contains_key(**key))
        .map(|key| format!("{key} {} is missing", upstream[*key]));
    let said = ours.iter().filter_map(|(key, value)| {
        let theirs = upstream.get(key);
        (!accepts(key, value, theirs)).then(|| match theirs {
            Some(theirs) => format!("{key} is {value}, upstream's is {theirs}"),
            None => format!("{key} is {value}, upstream has none"),
        })
    });
    missing.chain(said).collect::<Vec<_>>().into_iter()
}

/// What changes the meaning of an object where it is absent: its shape, and what is kept of it.
const MUST_MATCH: [&str; 5] =
    ["type", "nullable", "default", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields"];

/// Whether `ours` lets through whatever `upstream` lets through under this keyword.
fn accepts(key: &str, ours: &Value, upstream: Option<&Value>) -> bool {
    match (key, upstream) {
        (_, Some(upstream)) if ours == upstream => true,
        // Wider, whatever upstream says.
        ("nullable" | "x-kubernetes-preserve-unknown-fields", _) => true,
        // Go's `int` has no format and 64 bits.
        ("format", None) => ours == "int64",
        // The API server's own default for lists.
        ("x-kubernetes-list-type", None) => ours == "atomic",
        // An empty spec where there is none; see `Crd::with_optional_spec`.
        ("default", None) => ours == &json!({}),
        ("enum", Some(upstream)) => is_subset(upstream, ours),
        ("required", Some(upstream)) => is_subset(ours, upstream),
        ("minItems" | "minLength" | "minimum", Some(upstream)) => ours.as_f64() <= upstream.as_f64(),
        ("maxItems" | "maxLength" | "maximum", Some(upstream)) => ours.as_f64() >= upstream.as_f64(),
        _ => false,
    }
}

fn is_subset(part: &Value, whole: &Value) -> bool {
    let (part, whole) = (part.as_array(), whole.as_array());
    part.zip(whole).is_some_and(|(part, whole)| part.iter().all(|value| whole.contains(value)))
}

mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_same(json!({"type": "string"}), json!({"type": "string"}), "")]
    #[case::another_type(json!({"type": "integer"}), json!({"type": "string"}), "type is")]
    #[case::no_type(json!({}), json!({"type": "string"}), "type \"string\" is missing")]
    #[case::wider_enum(json!({"enum": ["a", "b"]}), json!({"enum": ["a"]}), "")]
    #[case::narrower_enum(json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), "enum is")]
    #[case::enum_of_ours_only(json!({"enum": ["a"]}), json!({}), "enum is")]
    #[case::enum_of_theirs_only(json!({}), json!({"enum": ["a"]}), "")]
    #[case::more_required(json!({"required": ["a", "b"]}), json!({"required": ["a"]}), "required is")]
    #[case::less_required(json!({"required": ["a"]}), json!({"required": ["a", "b"]}), "")]
    #[case::required_of_ours_only(json!({"required": ["a"]}), json!({}), "required is")]
    #[case::not_nullable(json!({}), json!({"nullable": true}), "nullable true is missing")]
    #[case::nullable_of_ours_only(json!({"nullable": true}), json!({}), "")]
    #[case::int64(json!({"format": "int64"}), json!({}), "")]
    #[case::int32(json!({"format": "int32"}), json!({}), "format is")]
    #[case::pattern(json!({"pattern": "a"}), json!({}), "pattern is")]
    #[case::cel(json!({"x-kubernetes-validations": []}), json!({}), "x-kubernetes-validations is")]
    #[case::longer_minimum(json!({"minItems": 2}), json!({"minItems": 1}), "minItems is")]
    #[case::shorter_minimum(json!({"minItems": 0}), json!({"minItems": 1}), "")]
    #[case::prunes(json!({}), json!({"x-kubernetes-preserve-unknown-fields": true}), "is missing")]
    #[case::granular(json!({}), json!({"x-kubernetes-map-type": "atomic"}), "is missing")]
    #[case::another_default(json!({"default": "a"}), json!({"default": "b"}), "default is")]
    fn a_field_is_compared_by_what_it_lets_through(
        #[case] ours: Value,
        #[case] upstream: Value,
        #[case] finding: &str,
    ) {
        let node = |value: &Value| serde_json::from_value::<Node>(value.clone()).expect("an object");
        let findings: Vec<_> = field(&node(&ours), &node(&upstream)).collect();
        assert_eq!(findings.is_empty(), finding.is_empty(), "{findings:?}");
        assert!(findings.iter().all(|found| found.contains(finding)), "{findings:?}");
    }

    #[test]
    fn a_missing_field_column_or_short_name_is_found() {
        let upstream = Kind {
            short_names: vec!["bsl".into()],
            columns: [("Phase".to_owned(), ("string".to_owned(), ".status.phase".to_owned()))].into(),
            fields: [(".spec".to_owned(), Node::new())].into(),
            ..Kind::default()
        };
        assert_eq!(stricter("kind", &Kind::default(), &upstream).len(), 3);
        assert!(stricter("kind", &upstream, &upstream).is_empty());
    }
}
