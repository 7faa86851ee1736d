//! Paths of the API. Names come from objects and from plugins: what is no name of one path segment is not asked for.

use std::fmt::Write as _;

use lifeboat_api::catalogue::ResourceType;

/// `/api/v1/namespaces/shop/pods`, `/apis/apps/v1/deployments`.
pub fn collection_path(kind: &ResourceType, namespace: Option<&str>) -> String {
    let root = if kind.id.group.is_empty() { "/api" } else { "/apis" };
    let base = format!("{root}/{}", kind.api_version());
    match namespace.and_then(segment) {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{}", kind.id.resource),
        None => format!("{base}/{}", kind.id.resource),
    }
}

/// The name as part of a path; None for what no object can be called.
pub(super) fn segment(name: &str) -> Option<String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
        return None;
    }
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,;=".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    Some(text)
}
