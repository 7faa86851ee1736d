//! [`Strict`]: the schema of a kind without `null`.
//!
//! schemars marks every `Option` as nullable. If a schema is not nullable, the API server drops a `null`
//! before validation, so that `has(field)` in a rule is false for it; upstream's CRDs do the same. Used by
//! [`super::crds`] and `appcatalog::crds` only.

use std::marker::PhantomData;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use kube::core::ApiResource;

/// Kind `K`, with optional fields that are absent or have a value.
pub(crate) struct Strict<K>(PhantomData<K>);

impl<K: CustomResourceExt> CustomResourceExt for Strict<K> {
    fn crd() -> CustomResourceDefinition {
        let mut definition = K::crd();
        for version in &mut definition.spec.versions {
            if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut())
            {
                forbid_null(root);
            }
        }
        definition
    }

    fn crd_name() -> &'static str {
        K::crd_name()
    }

    fn api_resource() -> ApiResource {
        K::api_resource()
    }

    fn shortnames() -> &'static [&'static str] {
        K::shortnames()
    }
}

/// Removes `null` from a schema and all nested schemas.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        forbid_null(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => forbid_null(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(forbid_null),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
    }
}
