//! Label and field selectors in the API's syntax.

use serde_json::Value;

/// The selectors of a list or a watch. The default selects everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Selectors {
    labels: Vec<Requirement>,
    /// By the path of a field, such as `involvedObject.uid`. A field that an object does not have is empty.
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Exists,
    IsMissing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selectors {
    pub(super) fn parse(labels: &str, fields: &str) -> Self {
        Self { labels: requirements(labels), fields: requirements(fields) }
    }

    pub(super) fn select(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
        let field = |key: &str| Some(field(object, key));
        self.labels.iter().all(|requirement| requirement.holds(label(&requirement.key).as_deref()))
            && self.fields.iter().all(|requirement| requirement.holds(field(&requirement.key).as_deref()))
    }
}

impl Requirement {
    fn parse(requirement: &str) -> Self {
        let listed =
            |list: &str| list.trim_matches(['(', ')']).split(',').map(|one| one.trim().to_owned()).collect();
        let one = |value: &str| vec![value.trim().to_owned()];
        let (key, test) = if let Some(key) = requirement.strip_prefix('!') {
            (key, Test::IsMissing)
        } else if let Some((key, list)) = requirement.split_once(" notin ") {
            (key, Test::NotIn(listed(list.trim())))
        } else if let Some((key, list)) = requirement.split_once(" in ") {
            (key, Test::In(listed(list.trim())))
        } else if let Some((key, value)) = requirement.split_once("!=") {
            (key, Test::NotIn(one(value)))
        } else if let Some((key, value)) = requirement.split_once('=') {
            (key, Test::In(one(value.trim_start_matches('='))))
        } else {
            (requirement, Test::Exists)
        };
        Self { key: key.trim().to_owned(), test }
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let is_among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        match &self.test {
            Test::Exists => value.is_some(),
            Test::IsMissing => value.is_none(),
            Test::In(values) => is_among(values),
            Test::NotIn(values) => !is_among(values),
        }
    }
}

/// A field as text; empty if the object does not have it.
fn field(object: &Value, path: &str) -> String {
    match path.split('.').fold(object, |value, part| &value[part]) {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The requirements of a selector, which are separated by commas outside of lists.
fn requirements(selector: &str) -> Vec<Requirement> {
    let mut depth = 0_usize;
    let parts = selector.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(Requirement::parse).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::equal("a=1", true)]
    #[case::equal_twice("a==1", true)]
    #[case::another_value("a=2", false)]
    #[case::unequal("a!=2", true)]
    #[case::unequal_to_what_is_missing("b!=2", true)]
    #[case::empty_value("empty=", true)]
    #[case::empty_value_of_a_label_that_is_missing("b=", false)]
    #[case::empty_value_of_a_label_with_another("a=", false)]
    #[case::exists("a", true)]
    #[case::is_missing("!a", false)]
    #[case::one_of("a in (0, 1),empty", true)]
    #[case::none_of("a notin (0,1)", false)]
    #[case::all_must_hold("a=1,b", false)]
    #[case::with_a_domain("example.com/x=y-z.1", true)]
    fn labels_are_selected(#[case] selector: &str, #[case] expected: bool) {
        let labels = json!({"a": "1", "empty": "", "example.com/x": "y-z.1"});
        let object = json!({"metadata": {"labels": labels}});
        assert_eq!(Selectors::parse(selector, "").select(&object), expected);
    }

    #[rstest]
    #[case::name("metadata.name=x", true)]
    #[case::deep("involvedObject.uid=u,type!=Normal", true)]
    #[case::empty("spec.nodeName=", true)]
    #[case::number("spec.count=3", true)]
    #[case::another("metadata.name=y", false)]
    fn fields_are_selected(#[case] selector: &str, #[case] expected: bool) {
        let object = json!({"metadata": {"name": "x"}, "involvedObject": {"uid": "u"}, "type": "Warning",
            "spec": {"count": 3}});
        assert_eq!(Selectors::parse("", selector).select(&object), expected);
    }
}
