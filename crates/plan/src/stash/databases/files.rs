//! The Secret of an AppBinding after its transforms, and its certificates, as one volume of a pod. Values that are in
//! no Secret are annotations of the pod, because they are not secret.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::access::AppAccess;
use super::keys::KeySource;

/// Where the files are in every container: `secret/<key>`, `tls/<key>` and `ca.crt`.
pub const APP_MOUNT: &str = "/mover/app";
/// The name of the volume.
const VOLUME: &str = "app";
/// Names below [`APP_MOUNT`].
pub(super) const AUTHORITY: &str = "ca.crt";
pub(super) const TLS: &str = "tls";
const SECRET: &str = "secret";
/// Annotations of the pod.
const AUTHORITY_ANNOTATION: &str = "lifeboat.io/app-ca";
const TEXT_ANNOTATION: &str = "lifeboat.io/app-text-";
/// Readable by all users, because the containers of a pod may run as different users.
const READABLE: u32 = 0o444;

/// A volume with the files of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppFiles {
    pub annotations: BTreeMap<String, String>,
    /// None if there are no files.
    pub volume: Option<Value>,
}

impl AppFiles {
    pub fn of(app: &AppAccess) -> Self {
        let (mut annotations, mut texts) = (BTreeMap::new(), Vec::new());
        let mut text = |annotation: String, path: String, content: &str| {
            let field = format!("metadata.annotations['{annotation}']");
            texts.push(json!({"path": path, "fieldRef": {"fieldPath": field}}));
            annotations.insert(annotation, content.to_owned());
        };
        if let Some(authority) = &app.authority {
            text(AUTHORITY_ANNOTATION.to_owned(), AUTHORITY.to_owned(), authority);
        }
        let mut secrets: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (number, (key, source)) in app.keys.iter().enumerate() {
            let path = format!("{SECRET}/{key}");
            match source {
                KeySource::Literal(content) => text(format!("{TEXT_ANNOTATION}{number}"), path, content),
                KeySource::Secret { name, key } => {
                    secrets.entry(name).or_default().push(json!({"key": key, "path": path}));
                }
            }
        }
        if let Some((name, keys)) = &app.tls {
            let item = |key: &String| json!({"key": key, "path": format!("{TLS}/{key}")});
            secrets.entry(name).or_default().extend(keys.iter().map(item));
        }
        let mut sources: Vec<Value> = secrets
            .into_iter()
            .map(|(name, items)| json!({"secret": {"name": name, "items": items}}))
            .collect();
        if !texts.is_empty() {
            sources.push(json!({"downwardAPI": {"items": texts}}));
        }
        let projected = json!({"sources": sources, "defaultMode": READABLE});
        let volume = (!sources.is_empty()).then(|| json!({"name": VOLUME, "projected": projected}));
        Self { annotations, volume }
    }

    /// The mount of the volume.
    pub fn mount(&self) -> Option<Value> {
        self.volume.as_ref().map(|_| json!({"name": VOLUME, "mountPath": APP_MOUNT, "readOnly": true}))
    }
}
