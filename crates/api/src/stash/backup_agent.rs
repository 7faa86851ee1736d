//! Kind BackupAgent: the image and the commands that Restic and Recovery run.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits;

/// An image, and the commands to run in it.
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
    /// Image with the programs of the commands.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Commands for a backup and for a recovery.
    pub commands: AgentCommands,
    /// What a line for the shell gets as "$@", before the `args` of the Restic; placeholders such as {{Host}} are replaced. Default:
    /// by the program of the line, such as `--databases NAME` for mysqldump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::LIST))]
    pub arguments: Option<Vec<String>>,
}

/// Commands of an agent. ${DB_USER}, ${DB_PASSWORD}, ${DB_HOST} and {{RepoName}} are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = cel::required(
    "(has(self.backup) && self.backup.size() > 0) || (has(self.recovery) && self.recovery.size() > 0)",
    ".backup", "commands needs at least one of backup, recovery",
))]
#[serde(rename_all = "camelCase")]
pub struct AgentCommands {
    /// Command for a backup: program and arguments, or a single line for the shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub backup: Vec<String>,
    /// Command for a recovery: program and arguments, or a single line for the shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LIST))]
    pub recovery: Vec<String>,
}
