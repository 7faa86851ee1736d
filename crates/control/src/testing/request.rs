//! Parses a request: its verb, its path in the API, and the parameters of its query.

use lifeboat_cluster::testing::Asked;

use super::selectors::Selectors;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Replace,
    Patch,
    Delete,
}

impl Verb {
    /// None for a method that the API does not have.
    pub(super) fn of(asked: &Asked) -> Option<Self> {
        let has_name = || ObjectPath::parse(&decoded(&asked.path)).is_none_or(|place| place.name.is_some());
        Some(match asked.method.as_str() {
            "GET" if parameter(&asked.query, "watch").is_some() => Self::Watch,
            "GET" if has_name() => Self::Get,
            "GET" => Self::List,
            "POST" => Self::Create,
            "PUT" => Self::Replace,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }
}

pub(super) struct Request<'a> {
    pub(super) asked: &'a Asked,
    pub(super) path: String,
    /// None if the path is not about objects: discovery, the version.
    pub(super) place: Option<ObjectPath>,
    pub(super) query: Query,
}

impl<'a> Request<'a> {
    pub(super) fn new(asked: &'a Asked) -> Self {
        let path = decoded(&asked.path);
        let place = ObjectPath::parse(&path);
        Self { asked, path, place, query: Query::of(&asked.query) }
    }

    /// Whether the client requests only the metadata of objects.
    pub(super) fn wants_metadata(&self) -> bool {
        self.asked.accept.contains("as=PartialObjectMetadata")
    }
}

/// A list of objects, an object, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectPath {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: Option<String>,
    pub(super) plural: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl ObjectPath {
    /// None for paths that are not about objects.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let (group, version, rest) = match parts[..] {
            ["api", version, ref rest @ ..] => ("", version, rest),
            ["apis", group, version, ref rest @ ..] => (group, version, rest),
            _ => return None,
        };
        let place = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let text = |part: &str| Some(part.to_owned());
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, text(name), None),
            [plural, name, subresource] => (plural, text(name), text(subresource)),
            _ => return None,
        };
        Some(Self { namespace, plural: (*plural).to_owned(), name, subresource, ..place })
    }

    /// The path of the list, without an object's name.
    pub(super) fn list(&self) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace = self.namespace.as_ref().map(|name| format!("/namespaces/{name}")).unwrap_or_default();
        format!("{root}/{}{namespace}/{}", self.version, self.plural)
    }

    /// The path of the object, without a subresource.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.list(), self.name.as_deref().unwrap_or_default())
    }

    /// Whether an object belongs to this list, of one namespace or of all.
    pub(super) fn lists(&self, path: &str) -> bool {
        Self::parse(path).is_some_and(|object| {
            let is_in = self.namespace.is_none() || self.namespace == object.namespace;
            let of_type = (&object.group, &object.version, &object.plural)
                == (&self.group, &self.version, &self.plural);
            object.name.is_some() && of_type && is_in
        })
    }
}

/// The query parameters of a read.
#[derive(Default)]
pub(super) struct Query {
    pub(super) selectors: Selectors,
    pub(super) limit: Option<usize>,
    /// The last object of the previous page.
    pub(super) after: Option<String>,
    /// The resource version after which a watch starts.
    pub(super) version: Option<u64>,
    /// Whether a watch starts with all existing objects.
    pub(super) initial_events: bool,
    /// Whether a creation is only tried.
    pub(super) dry_run: bool,
}

impl Query {
    fn of(query: &str) -> Self {
        let text = |name: &str| parameter(query, name).filter(|value| !value.is_empty());
        let selector = |name: &str| text(name).unwrap_or_default();
        Self {
            selectors: Selectors::parse(&selector("labelSelector"), &selector("fieldSelector")),
            limit: text("limit").and_then(|value| value.parse().ok()),
            after: text("continue"),
            version: text("resourceVersion").and_then(|value| value.parse().ok()),
            initial_events: text("sendInitialEvents").as_deref() == Some("true"),
            dry_run: text("dryRun").is_some(),
        }
    }
}

/// The value of a query's parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(&value.replace('+', " ")))
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%');
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::in_its_namespace("/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/a/pods", true)]
    #[case::in_another_namespace("/api/v1/namespaces/b/pods/p", "/api/v1/namespaces/a/pods", false)]
    #[case::in_all("/api/v1/namespaces/b/pods/p", "/api/v1/pods", true)]
    #[case::of_another_type("/api/v1/namespaces/b/pods/p", "/api/v1/secrets", false)]
    #[case::of_the_cluster("/api/v1/namespaces/a", "/api/v1/namespaces", true)]
    #[case::not_what_is_in_a_namespace("/api/v1/namespaces/a/pods/p", "/api/v1/namespaces", false)]
    #[case::of_another_version("/apis/g/v1/things/a", "/apis/g/v2/things", false)]
    fn a_list_holds(#[case] path: &str, #[case] list: &str, #[case] expected: bool) {
        assert_eq!(ObjectPath::parse(list).unwrap().lists(path), expected);
    }

    #[rstest]
    #[case::a_list("GET", "/api/v1/pods", "limit=5", Verb::List)]
    #[case::a_watch("GET", "/api/v1/pods", "watch=true", Verb::Watch)]
    #[case::an_object("GET", "/api/v1/namespaces/a", "", Verb::Get)]
    #[case::a_subresource("PATCH", "/apis/g/v1/namespaces/n/things/a/status", "", Verb::Patch)]
    #[case::discovery("GET", "/apis", "", Verb::Get)]
    fn a_request_has_a_verb(
        #[case] method: &str,
        #[case] path: &str,
        #[case] query: &str,
        #[case] verb: Verb,
    ) {
        let asked =
            Asked { method: method.into(), path: path.into(), query: query.into(), ..Asked::default() };
        assert_eq!(Verb::of(&asked), Some(verb));
    }

    #[test]
    fn a_place_is_the_path_that_it_was_read_from() {
        for path in ["/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/a", "/apis/g/v1/things/x"] {
            assert_eq!(ObjectPath::parse(path).unwrap().object(), path);
        }
        let status = ObjectPath::parse("/apis/g/v1/namespaces/n/things/a/status").unwrap();
        assert_eq!(status.subresource.as_deref(), Some("status"));
        assert_eq!(status.object(), "/apis/g/v1/namespaces/n/things/a");
        for path in ["/api", "/apis", "/apis/g", "/apis/g/v1", "/version"] {
            assert_eq!(ObjectPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn names_and_parameters_are_decoded() {
        let asked = Asked {
            path: "/apis/g/v1/things/a%3Ab".into(),
            query: "labelSelector=a%2Fb%3Dc&limit=7".into(),
            ..Asked::default()
        };
        let request = Request::new(&asked);
        assert_eq!((request.path.as_str(), request.query.limit), ("/apis/g/v1/things/a:b", Some(7)));
        assert!(request.query.selectors.select(&serde_json::json!({"metadata": {"labels": {"a/b": "c"}}})));
    }
}
