//! Typed reads of objects that were taken from the cluster or from a file of a backup as JSON: one that cannot be read is
//! logged and left out, and does not keep the others from being read.

use std::fmt::Display;

use kube::Resource;
use lifeboat_plan::json::text;
use lifeboat_plan::velero::typed::read;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind that can be read.
pub(crate) trait Typed: Resource<DynamicType = ()> + Default + Serialize + DeserializeOwned {}

impl<K: Resource<DynamicType = ()> + Default + Serialize + DeserializeOwned> Typed for K {}

/// The object; None if it cannot be read, which is logged.
pub(crate) fn readable<K: Typed>(object: &Value) -> Option<K> {
    read(object).map_err(|error| left_out::<K>(text(object, "/metadata/name"), &error)).ok()
}

fn left_out<K: Typed>(name: &str, error: &dyn Display) {
    tracing::warn!(kind = %K::kind(&()), name, %error, "an object cannot be read and is left out");
}

#[cfg(test)]
mod tests {
    use lifeboat_api::velero::PodVolumeBackup;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_keeps_no_other_from_being_read() {
        let named =
            |name: &str, volume: Value| json!({"metadata": {"name": name}, "spec": {"volume": volume}});
        let objects = [named("a", json!("data")), named("b", json!(7)), named("c", Value::Null)];
        let found: Vec<PodVolumeBackup> = objects.iter().filter_map(readable).collect();
        let found: Vec<_> = found.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
        assert_eq!(found, ["a", "c"]);
    }
}
