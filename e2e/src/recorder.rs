//! The recording plugins in Go: what they are told.

use crate::Namespace;

/// A config map that the recording plugins are for, with annotations that tell them what to do, and a Secret that they name.
pub fn told(namespace: &Namespace, name: &str, secret: &str, annotations: &[(&str, &str)]) {
    let told: Vec<String> = annotations
        .iter()
        .map(|(key, value)| format!("recorder.lifeboat.dev/{key}: '{value}'"))
        .chain([format!("recorder.lifeboat.dev/secret: {secret}")])
        .collect();
    namespace.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {secret}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{recorder: 'yes'}}, annotations: {{{}}}}}\n",
        told.join(", ")
    ));
}
