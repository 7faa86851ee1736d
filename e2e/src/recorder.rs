//! The recording plugins in Go and the annotations that control them.

use crate::Namespace;

/// Creates a ConfigMap that the recording plugins are for, with annotations that control them, and a Secret that they
/// name.
pub fn recorded_item(namespace: &Namespace, name: &str, secret: &str, annotations: &[(&str, &str)]) {
    let annotations: Vec<String> = annotations
        .iter()
        .map(|(key, value)| format!("recorder.lifeboat.dev/{key}: '{value}'"))
        .chain([format!("recorder.lifeboat.dev/secret: {secret}")])
        .collect();
    namespace.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {secret}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{recorder: 'yes'}}, annotations: {{{}}}}}\n",
        annotations.join(", ")
    ));
}
