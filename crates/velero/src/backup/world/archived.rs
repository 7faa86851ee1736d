//! For tests: what an archive holds.

use std::io::Read;

use lifeboat_archive::ObjectStore;
use serde_json::Value;

/// The object at a path of an archive, such as `pods/namespaces/shop/web`.
pub(crate) async fn archived_object(store: &dyn ObjectStore, key: &str, path: &str) -> Option<Value> {
    let bytes = store.get(key, 1 << 24).await.unwrap();
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(bytes.as_ref()));
    let wanted = format!("resources/{path}.json");
    let mut entries = archive.entries().unwrap().map(Result::unwrap);
    let entry = entries.find(|entry| entry.path().unwrap().to_str() == Some(wanted.as_str()))?;
    Some(serde_json::from_reader(entry).unwrap())
}

/// The names in an archive, in order, without the copies under the preferred version.
pub(crate) async fn archived(store: &dyn ObjectStore, key: &str) -> Vec<String> {
    let bytes = store.get(key, 1 << 24).await.unwrap();
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(bytes.as_ref()));
    let mut names = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        if let Some(rest) = name.strip_prefix("resources/") {
            let object: Value = serde_json::from_str(&text).unwrap();
            assert!(
                object["kind"].is_string() && object["apiVersion"].is_string(),
                "{name} has no type: {text}"
            );
            if !rest.contains("-preferredversion/") {
                names.push(rest.trim_end_matches(".json").to_owned());
            }
        }
    }
    names
}
