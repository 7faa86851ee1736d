//! The Secret of an AppBinding after `secretTransforms`. Each resulting key is either a reference (a Secret and its
//! key) or a text that is not secret, so that a pod can refer to it and no object holds a copy.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::appcatalog::{AppBindingSpec, SecretRef, SecretTransform};
use lifeboat_api::common::ByteString;

use super::AppError;

/// What was read of an AppBinding.
#[derive(Clone, Default)]
pub struct AppFacts {
    pub namespace: String,
    pub name: String,
    pub spec: AppBindingSpec,
    /// The Secrets of its namespace that it names, by name. One that does not exist is not listed.
    pub secrets: BTreeMap<String, BTreeMap<String, ByteString>>,
}

impl AppFacts {
    /// The AppBinding as messages name it.
    pub fn title(&self) -> String {
        format!("AppBinding {}/{}", self.namespace, self.name)
    }

    /// The keys of a Secret that a field names.
    pub(super) fn secret(
        &self,
        field: &str,
        reference: &SecretRef,
    ) -> Result<&BTreeMap<String, ByteString>, AppError> {
        let kind = reference.kind.as_deref().filter(|kind| !kind.is_empty() && *kind != "Secret");
        if let Some(kind) = kind {
            return Err(AppError::SecretKind {
                app: self.title(),
                field: field.to_owned(),
                kind: kind.to_owned(),
            });
        }
        self.named(field, &reference.name)
    }

    fn named(&self, field: &str, name: &str) -> Result<&BTreeMap<String, ByteString>, AppError> {
        self.secrets.get(name).ok_or_else(|| AppError::NoSecret {
            app: self.title(),
            field: field.to_owned(),
            secret: name.to_owned(),
        })
    }

    /// The value of a key.
    pub(super) fn value<'a>(&'a self, source: &'a KeySource) -> Option<&'a [u8]> {
        match source {
            KeySource::Literal(text) => Some(text.as_bytes()),
            KeySource::Secret { name, key } => {
                self.secrets.get(name)?.get(key).map(|value| value.0.as_slice())
            }
        }
    }
}

/// Where the value of a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A key of a Secret in the AppBinding's namespace.
    Secret { name: String, key: String },
    /// A text that the AppBinding itself has, and that is not secret.
    Literal(String),
}

/// The Secrets that an AppBinding names.
pub fn secret_names(spec: &AppBindingSpec) -> BTreeSet<String> {
    let own = spec.secret.iter().chain(&spec.tls_secret).map(|secret| secret.name.clone());
    let added = spec
        .secret_transforms
        .iter()
        .filter_map(|transform| Some(transform.add_keys_from.as_ref()?.secret_ref.as_ref()?.name.clone()));
    own.chain(added).filter(|name| !name.is_empty()).collect()
}

/// The keys after all transforms.
pub(super) fn keys(facts: &AppFacts) -> Result<BTreeMap<String, KeySource>, AppError> {
    let mut keys = BTreeMap::new();
    if let Some(secret) = &facts.spec.secret {
        add(&mut keys, &secret.name, facts.secret("spec.secret", secret)?);
    }
    for (index, transform) in facts.spec.secret_transforms.iter().enumerate() {
        apply(facts, index, transform, &mut keys)?;
    }
    Ok(keys)
}

fn add(keys: &mut BTreeMap<String, KeySource>, name: &str, data: &BTreeMap<String, ByteString>) {
    let of = |key: &String| (key.clone(), KeySource::Secret { name: name.to_owned(), key: key.clone() });
    keys.extend(data.keys().map(of));
}

fn apply(
    facts: &AppFacts,
    index: usize,
    transform: &SecretTransform,
    keys: &mut BTreeMap<String, KeySource>,
) -> Result<(), AppError> {
    let app = || facts.title();
    if let Some(rename) = &transform.rename_key {
        let Some(source) = keys.remove(&rename.from) else {
            let (from, found) = (rename.from.clone(), listed(keys));
            return Err(AppError::NoKeyToRename { app: app(), index, from, found });
        };
        keys.insert(checked(facts, index, &rename.to)?, source);
    } else if let Some(added) = &transform.add_key {
        let text = match (&added.string_value, &added.value) {
            (Some(text), _) => text.clone(),
            (None, Some(bytes)) => String::from_utf8(bytes.0.clone()).map_err(|_| AppError::NotText {
                app: app(),
                field: format!("secretTransforms[{index}].addKey.value"),
            })?,
            (None, None) => String::new(),
        };
        keys.insert(checked(facts, index, &added.key)?, KeySource::Literal(text));
    } else if let Some(added) = &transform.add_keys_from {
        let field = format!("secretTransforms[{index}].addKeysFrom.secretRef");
        let name = added.secret_ref.as_ref().map(|secret| secret.name.clone()).unwrap_or_default();
        add(keys, &name, facts.named(&field, &name)?);
    } else if let Some(removed) = &transform.remove_key {
        keys.remove(&removed.key);
    } else {
        return Err(AppError::EmptyTransform { app: app(), index });
    }
    Ok(())
}

/// A key becomes the name of a file, so it has to be one.
fn checked(facts: &AppFacts, index: usize, key: &str) -> Result<String, AppError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || key.len() > 253 || matches!(key, "." | "..") || !key.bytes().all(is_plain) {
        return Err(AppError::KeyName { app: facts.title(), index, key: key.to_owned() });
    }
    Ok(key.to_owned())
}

/// The names of keys, as messages list them.
pub(super) fn listed(keys: &BTreeMap<String, KeySource>) -> String {
    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
