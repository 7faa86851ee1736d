//! Reads objects over HTTP, through the `kubectl proxy` that `cargo xtask test` starts (LIFEBOAT_API_PROXY). A test
//! that waits polls, and a kubectl process for each poll kept both cores busy. Called by [`crate::get`]; arguments that
//! it does not support are left to kubectl.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// A request with the arguments of `kubectl get`: one kind, one name or none, a namespace, a selector.
#[derive(Debug, Default, PartialEq, Eq)]
struct Question<'a> {
    kind: &'a str,
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    selector: Option<&'a str>,
}

/// A kind of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    /// All names under which it can be requested.
    names: Vec<String>,
    /// Its API path, such as `/apis/velero.io/v1`.
    root: String,
    plural: String,
    is_namespaced: bool,
}

/// The kinds of the last discovery; custom resource definitions add more.
static KINDS: Mutex<Vec<Kind>> = Mutex::new(Vec::new());

/// The object or the list; `Null` if the object does not exist. None if kubectl has to be used.
pub(crate) fn get(arguments: &[&str]) -> Option<Value> {
    let proxy = std::env::var("LIFEBOAT_API_PROXY").ok()?;
    let question = understand(arguments)?;
    let path = path(&question, &kind(&proxy, question.kind)?)?;
    match request(&proxy, &path, "application/json")? {
        (200, object) => Some(as_kubectl_shows(object)),
        // A missing kind is not a missing object: kubectl distinguishes them.
        (404, status) if question.name.is_some() && status["details"]["name"] == question.name? => {
            Some(Value::Null)
        }
        _ => None,
    }
}

fn understand<'a>(arguments: &[&'a str]) -> Option<Question<'a>> {
    let mut question = Question::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "-n" | "--namespace" => question.namespace = Some(rest.next()?),
            "-l" | "--selector" => question.selector = Some(rest.next()?),
            flag if flag.starts_with('-') => return None,
            several if several.contains([',', '/']) && question.kind.is_empty() => return None,
            kind if question.kind.is_empty() => question.kind = kind,
            name if question.name.is_none() => question.name = Some(name),
            _ => return None,
        }
    }
    (!question.kind.is_empty()).then_some(question)
}

fn path(question: &Question<'_>, kind: &Kind) -> Option<String> {
    let mut parts = vec![kind.root.clone()];
    if kind.is_namespaced {
        parts.extend(["namespaces".to_owned(), question.namespace?.to_owned()]);
    }
    parts.push(kind.plural.clone());
    parts.extend(question.name.map(encoded));
    let query = question.selector.map(|selector| format!("?labelSelector={}", encoded(selector)));
    Some(parts.join("/") + &query.unwrap_or_default())
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => text + &char::from(byte).to_string(),
        _ => text + &format!("%{byte:02X}"),
    })
}

/// The kind with this name; repeats the discovery if it is unknown.
fn kind(proxy: &str, name: &str) -> Option<Kind> {
    let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
    let find =
        |kinds: &[Kind]| kinds.iter().find(|kind| kind.names.iter().any(|known| known == name)).cloned();
    if let Some(found) = find(&kinds) {
        return Some(found);
    }
    *kinds = discover(proxy)?;
    find(&kinds)
}

fn discover(proxy: &str) -> Option<Vec<Kind>> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut kinds = Vec::new();
    for root in ["/api", "/apis"] {
        let (200, groups) = request(proxy, root, accept)? else { return None };
        kinds.extend(kinds_of(root, &groups));
    }
    Some(kinds)
}

/// The kinds of groups, each in the version that the API server prefers.
fn kinds_of(root: &str, groups: &Value) -> Vec<Kind> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut kinds = Vec::new();
    for group in list(&groups["items"]) {
        let name = text(&group["metadata"]["name"]);
        for version in list(&group["versions"]) {
            let version_name = text(&version["version"]);
            for resource in list(&version["resources"]) {
                let plural = text(&resource["resource"]);
                let mut names = vec![plural.clone(), text(&resource["singularResource"])];
                names.extend(list(&resource["shortNames"]).iter().map(text));
                if !name.is_empty() {
                    names.extend(names.clone().iter().map(|short| format!("{short}.{name}")));
                }
                let parts: Vec<&str> =
                    [root, &name, &version_name].into_iter().filter(|part| !part.is_empty()).collect();
                let (root, is_namespaced) = (parts.join("/"), resource["scope"] == "Namespaced");
                kinds.push(Kind { names, root, plural, is_namespaced });
            }
        }
    }
    kinds
}

/// Adds kind and version to the items of a list, as kubectl does.
fn as_kubectl_shows(mut object: Value) -> Value {
    let kind = object["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let version = object["apiVersion"].clone();
    // Indexing would add the field if it is missing, and kubectl takes an object with it for a list.
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    if let (Some(kind), Some(items)) = (kind, items) {
        for item in items {
            item["kind"] = Value::from(kind.clone());
            item["apiVersion"] = version.clone();
        }
    }
    object
}

/// Status and body. With HTTP/1.0 the answer ends with the connection and is not chunked.
fn request(proxy: &str, path: &str, accept: &str) -> Option<(u16, Value)> {
    let address = proxy.trim_start_matches("http://");
    let mut connection = TcpStream::connect(address).ok()?;
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_slice(&answer[end + 4..]).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_kubectl_are_understood_or_left_to_it() {
        let named =
            Question { kind: "bsl", name: Some("default"), namespace: Some("lifeboat"), selector: None };
        assert_eq!(understand(&["-n", "lifeboat", "bsl", "default"]), Some(named));
        let listed = Question { kind: "pods", name: None, namespace: Some("a"), selector: Some("app=db") };
        assert_eq!(understand(&["-n", "a", "pods", "-l", "app=db"]), Some(listed));
        for others in [&["pods,jobs"][..], &["pods", "-A"], &["pods", "a", "b"], &["pod/a"], &[]] {
            assert_eq!(understand(others), None, "{others:?}");
        }
    }

    #[test]
    fn a_kind_is_known_by_every_name_and_has_its_path() {
        let resource = json!({"resource": "backups", "singularResource": "backup", "scope": "Namespaced", "shortNames": ["b"]});
        let groups = json!({"items": [{"metadata": {"name": "velero.io"},
            "versions": [{"version": "v1", "resources": [resource]}]}]});
        let [kind] = &kinds_of("/apis", &groups)[..] else { panic!("one kind") };
        for name in ["backups", "backup", "b", "backups.velero.io", "backup.velero.io"] {
            assert!(kind.names.iter().any(|known| known == name), "{name}");
        }
        let question = Question { kind: "b", name: None, namespace: Some("a"), selector: Some("x.io/y=z") };
        let expected = "/apis/velero.io/v1/namespaces/a/backups?labelSelector=x.io%2Fy%3Dz";
        assert_eq!(path(&question, kind).as_deref(), Some(expected));
    }

    #[test]
    fn items_of_a_list_say_what_they_are() {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]});
        let item = as_kubectl_shows(list)["items"][0].clone();
        assert_eq!((&item["kind"], &item["apiVersion"]), (&json!("Pod"), &json!("v1")));
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}});
        assert_eq!(as_kubectl_shows(object.clone()), object);
    }
}
