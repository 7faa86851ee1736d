//! The CustomResourceDefinitions of all groups.
//!
//! [`all`] is every kind we define, [`installed`] the kinds this version has controllers for. Used by
//! `lifeboat crds`, `lifeboat install`, the chart's generator and the API tests.

use crate::{appcatalog, repositories, stash, velero};

pub use crate::definition::{Crd, NAME_LABEL, VELERO_LABEL};

/// Every kind of every group, installed or not.
pub fn all() -> Vec<Crd> {
    [velero::crds(), stash::crds(), repositories::crds(), appcatalog::crds()].concat()
}

/// The kinds that this version installs: those with a controller. Group `velero.io` is installed whole,
/// because stock clients list all its kinds; Stash's API where it is served (`with_stash`).
pub fn installed(with_stash: bool) -> Vec<Crd> {
    let mut installed = velero::crds();
    if with_stash {
        installed.extend(of_stash());
    }
    installed
}

/// Kind Restic, which has a controller that serves volumes only: it is installed on request.
pub fn restic() -> Vec<Crd> {
    let mut restic = stash::crds();
    restic.retain(|crd| crd.kind() == "Restic");
    restic
}

/// The kinds of Stash's API that have a controller, or that controllers read and write.
pub fn of_stash() -> Vec<Crd> {
    let mut with_controller = stash::crds();
    with_controller.retain(|crd| !stash::WITHOUT_CONTROLLER.contains(&crd.kind()));
    [with_controller, repositories::crds(), appcatalog::crds()].concat()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    };

    use super::*;

    #[test]
    fn every_field_of_every_kind_has_a_description() {
        let mut missing = Vec::new();
        for crd in all() {
            for version in crd.versions() {
                let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
                let root = schema.expect("every version has a schema");
                fields_without_description(crd.kind(), root, &mut missing);
            }
            // The API server has its own description there and refuses any other.
            missing.retain(|path| *path != format!("{}.metadata", crd.kind()));
        }
        assert!(missing.is_empty(), "fields without a description:\n{}", missing.join("\n"));
    }

    #[test]
    fn every_object_has_the_fields_at_the_root_that_the_api_server_expects() {
        for crd in all() {
            let schema =
                crd.versions()[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let fields = schema.and_then(|root| root.properties.as_ref()).expect("objects have fields");
            for field in ["apiVersion", "kind", "spec"] {
                assert!(fields.contains_key(field), "{} has no {field}", crd.kind());
            }
            let object = JSONSchemaProps { type_: Some("object".to_owned()), ..JSONSchemaProps::default() };
            assert_eq!(fields.get("metadata"), Some(&object), "{}", crd.kind());
        }
    }

    #[test]
    fn every_crd_is_labelled_as_ours_and_listed_in_our_category() {
        for crd in all() {
            let labels = crd.definition().metadata.labels.clone().unwrap_or_default();
            assert_eq!(labels.get(NAME_LABEL.0).map(String::as_str), Some(NAME_LABEL.1), "{}", crd.name());
            let categories = crd.definition().spec.names.categories.clone().unwrap_or_default();
            assert!(categories.contains(&"lifeboat".to_owned()), "{} is not in our category", crd.name());
        }
    }

    #[test]
    fn kinds_with_a_controller_are_a_part_of_all_kinds() {
        let all = all();
        for with_stash in [false, true] {
            assert!(installed(with_stash).iter().all(|crd| all.contains(crd)));
            assert!(!installed(with_stash).is_empty());
        }
    }

    #[test]
    fn no_kind_without_a_controller_is_installed() {
        let names = |crds: Vec<Crd>| crds.iter().map(|crd| crd.name().to_owned()).collect::<Vec<_>>();
        let all = names(all());
        let installed = names(installed(true));
        let left_out: Vec<_> =
            all.iter().filter(|name| !installed.contains(name)).map(String::as_str).collect();
        assert_eq!(
            left_out,
            [
                "restics.stash.appscode.com",
                "recoveries.stash.appscode.com",
                "backupagents.stash.appscode.com",
                "backupblueprints.stash.appscode.com",
            ]
        );
        for expected in [
            "backupbatches.stash.appscode.com",
            "snapshots.repositories.stash.appscode.com",
            "appbindings.appcatalog.appscode.com",
        ] {
            assert!(installed.contains(&expected.to_owned()), "{expected}");
        }
        assert!(names(super::installed(false)).iter().all(|name| name.ends_with(".velero.io")));
    }

    fn fields_without_description(path: &str, schema: &JSONSchemaProps, missing: &mut Vec<String>) {
        for (name, field) in schema.properties.iter().flatten() {
            let path = format!("{path}.{name}");
            if field.description.as_deref().unwrap_or_default().trim().is_empty() {
                missing.push(path.clone());
            }
            fields_without_description(&path, field, missing);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            fields_without_description(&format!("{path}[]"), items, missing);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            fields_without_description(&format!("{path}{{}}"), values, missing);
        }
    }
}
