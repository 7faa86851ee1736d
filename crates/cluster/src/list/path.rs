//! Paths of the API. Names come from objects and from plugins; names that are not a single path segment are never
//! requested.

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

/// The name as a path segment; None if no object can have it.
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
