//! References from our objects to others in the cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// Not k8s-openapi's type of the same name: that one makes `name` mandatory, upstream's CRDs do not.
/// One key of a Secret in the object's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretKeySelector {
    /// Name of the Secret. The schema allows an empty name for old objects; a Secret is never found by it.
    #[serde(default)]
    pub name: String,
    /// The key inside the Secret whose value is used.
    pub key: String,
    /// Whether a missing Secret or key is acceptable. Default: false, it is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}
