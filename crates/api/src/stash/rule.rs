//! [`RestoreRule`]: which snapshots are restored to which hosts.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::Schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::limits;

/// Which data some hosts of a restore get. The rule that lists a host applies to it; a rule without
/// `targetHosts` applies to all hosts that no other rule lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = not_snapshots_and_paths())]
#[serde(rename_all = "camelCase")]
pub struct RestoreRule {
    /// Hosts to which this rule applies: the alias, with "-<ordinal>" for a StatefulSet and "-<node>" for a
    /// DaemonSet. Empty: every host that no other rule lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::HOSTS), inner(length(max = limits::NAME)))]
    pub target_hosts: Option<Vec<String>>,
    /// Host whose backup is restored. Empty: the target host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_host: Option<String>,
    /// Snapshots to restore, by their id, or "latest". Not together with `paths`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Vec<String>>,
    /// Paths to restore, each from its newest snapshot. Not together with `snapshots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Patterns of files to exclude.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// Patterns of files to restore; all others are excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
}

fn not_snapshots_and_paths() -> Rule {
    Rule::new(
        "!(has(self.snapshots) && self.snapshots.size() > 0 && has(self.paths) && self.paths.size() > 0)",
    )
    .message("snapshots and paths exclude each other: a snapshot has its own paths")
}

/// Rule: at most one entry applies to "all other hosts".
pub(super) fn one_rule_for_all_others() -> Rule {
    Rule::new("self.filter(rule, !has(rule.targetHosts) || rule.targetHosts.size() == 0).size() <= 1")
        .message(
            "rules: only one rule may have empty targetHosts, the one for all hosts that no other rule lists",
        )
}

/// Rule: no host is listed by two entries.
pub(super) fn no_host_twice() -> Rule {
    Rule::new(
        "self.all(rule, !has(rule.targetHosts) || rule.targetHosts.all(host, \
         self.exists_one(other, has(other.targetHosts) && host in other.targetHosts)))",
    )
    .message("rules: a host may be in targetHosts of one rule only")
}

/// Lowers the bounds of all rules inside a schema to those for members of a batch, because the cost of a rule counts
/// once for each member.
pub(super) fn bounds_for_members(schema: &mut Schema) {
    if let Some(fields) = schema.as_object_mut() {
        fields.values_mut().for_each(lower_bounds);
    }
}

fn lower_bounds(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                let bound = match name.as_str() {
                    "rules" => Some(limits::MEMBER_RULES),
                    "targetHosts" => Some(limits::MEMBER_HOSTS),
                    _ => None,
                };
                if let (Some(bound), Some(max)) = (bound, value.get_mut("maxItems")) {
                    *max = Value::from(bound);
                }
                lower_bounds(value);
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(lower_bounds),
        _ => {}
    }
}
