//! A CustomResourceDefinition, made from a Rust type and completed so that the API server accepts it and `kubectl
//! explain` shows it well. Each group makes those of its kinds; [`crate::crds`] lists them.

mod polish;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::CustomResourceExt;
use serde::Serialize;

/// The label of all objects that belong to Lifeboat.
pub const NAME_LABEL: (&str, &str) = ("app.kubernetes.io/name", "lifeboat");

/// The label by which stock Velero tools find the CRDs of their group.
pub const VELERO_LABEL: (&str, &str) = ("component", "velero");

/// One CustomResourceDefinition with one version, ready to apply.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Crd(CustomResourceDefinition);

impl Crd {
    /// The definition of kind `K`, with our label and a description of every field.
    pub fn of<K: CustomResourceExt>() -> Self {
        let mut definition = K::crd();
        for version in &mut definition.spec.versions {
            polish::version(version);
        }
        Self(definition).label(NAME_LABEL)
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, (key, value): (&str, &str)) -> Self {
        self.0.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Removes the status subresource that kube's derive adds, so that clients may write spec and
    /// status in one request, as stock Velero clients do.
    #[must_use]
    pub fn without_status_subresource(mut self) -> Self {
        for version in &mut self.0.spec.versions {
            version.subresources = None;
        }
        self
    }

    /// Makes `spec` optional. If no field of the spec is required, the API server adds an empty one, so that
    /// readers always find it.
    #[must_use]
    pub fn with_optional_spec(mut self) -> Self {
        for version in &mut self.0.spec.versions {
            polish::make_spec_optional(version);
        }
        self
    }

    /// The object to apply.
    pub fn definition(&self) -> &CustomResourceDefinition {
        &self.0
    }

    /// The object to apply, by value.
    pub fn into_definition(self) -> CustomResourceDefinition {
        self.0
    }

    /// The name of the CRD, such as `backups.velero.io`.
    pub fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    /// The API group, such as `velero.io`.
    pub fn group(&self) -> &str {
        &self.0.spec.group
    }

    /// The kind, such as `Backup`.
    pub fn kind(&self) -> &str {
        &self.0.spec.names.kind
    }

    /// The name in URLs and RBAC rules, such as `backups`.
    pub fn plural(&self) -> &str {
        &self.0.spec.names.plural
    }

    /// The versions it serves; each of our kinds has one.
    pub fn versions(&self) -> &[CustomResourceDefinitionVersion] {
        &self.0.spec.versions
    }
}
