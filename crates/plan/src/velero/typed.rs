//! Reads PodVolumeBackups, DataUploads and DataDownloads from JSON. They come from the cluster and from files of backups
//! that other versions wrote, which leave out fields that are required today: a field that is missing or null has its
//! default. Called wherever such an object is taken from outside.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an object; the error names a field that has the wrong type.
pub fn read<K: Default + Serialize + DeserializeOwned>(object: &Value) -> Result<K, serde_json::Error> {
    let mut object = object.clone();
    fill(&mut object, serde_json::to_value(K::default())?);
    serde_json::from_value(object)
}

/// Sets the fields of `object` that are missing or null.
fn fill(object: &mut Value, defaults: Value) {
    match (object, defaults) {
        (Value::Object(fields), Value::Object(defaults)) => {
            for (name, default) in defaults {
                fill(fields.entry(name).or_insert(Value::Null), default);
            }
        }
        (object, default) if object.is_null() => *object = default,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::velero::{DataMovePhase, DataUpload, PodVolumeBackup};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::nothing_at_all(Value::Null)]
    #[case::no_fields(json!({}))]
    #[case::null_fields(json!({"metadata": null, "spec": {"volume": null, "pod": null}, "status": null}))]
    fn what_is_missing_has_its_default(#[case] object: Value) {
        assert_eq!(read::<PodVolumeBackup>(&object).unwrap(), PodVolumeBackup::default());
    }

    #[test]
    fn what_is_there_is_read_also_a_phase_of_another_version() {
        let object = json!({"metadata": {"name": "du"}, "spec": {"sourcePVC": "data"},
            "status": {"phase": "Resting", "snapshotID": "s"}, "later": 1});
        let upload: DataUpload = read(&object).unwrap();
        assert_eq!(upload.spec.source_pvc, "data");
        assert_eq!(*upload.phase(), DataMovePhase::Other("Resting".to_owned()));
    }

    #[test]
    fn a_field_of_the_wrong_type_is_an_error_that_says_what_is_wrong() {
        let error = read::<PodVolumeBackup>(&json!({"spec": {"volume": 7}})).unwrap_err();
        assert!(error.to_string().contains("invalid type: integer `7`, expected a string"), "{error}");
    }
}
