//! Kind BackupAgent: the image and the commands with which Restic and Recovery do their work.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;

/// An image, and what to run in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "stash.appscode.com",
    version = "v1alpha1",
    kind = "BackupAgent",
    derive = "Default",
    derive = "PartialEq",
    doc = "The image and the commands with which backups and recoveries are made.",
    category = "lifeboat",
    category = "stash",
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BackupAgentSpec {
    /// Image that has the commands' programs.
    #[schemars(length(min = 1))]
    pub image: String,
    /// What is run for a backup and for a recovery.
    pub commands: AgentCommands,
}

/// What is run in an agent's image. ${DB_USER}, ${DB_PASSWORD}, ${DB_HOST} and {{RepoName}} are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = cel::required(
    "(has(self.backup) && self.backup.size() > 0) || (has(self.recovery) && self.recovery.size() > 0)",
    ".backup", "commands needs at least one of backup, recovery",
))]
#[serde(rename_all = "camelCase")]
pub struct AgentCommands {
    /// What makes a backup: the arguments of a program, or a single line for the shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub backup: Vec<String>,
    /// What brings a backup back: the arguments of a program, or a single line for the shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub recovery: Vec<String>,
}
