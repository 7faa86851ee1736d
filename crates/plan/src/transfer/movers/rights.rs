//! The permissions of a mover's container: user and capabilities. Takes the location of the data, the pod that uses
//! the volume and the namespace's Pod Security level; gives security contexts for `job`, or why no mover can run
//! there. The table for administrators is in docs/movers.md.

use serde_json::{Value, json};

use super::MoverPlace;

/// Reads files of all owners: sufficient for a backup.
const READ: &[&str] = &["DAC_READ_SEARCH"];

/// Reads files of all owners where Pod Security level `baseline` rejects `DAC_READ_SEARCH`.
const READ_BASELINE: &[&str] = &["DAC_OVERRIDE"];

/// Writes files of all owners with their metadata. Level `baseline` allows all of them.
const WRITE: &[&str] = &[
    // To set owners and groups.
    "CHOWN",
    // To write into directories that their owner made inaccessible.
    "DAC_OVERRIDE",
    // To set modes, times and extended attributes of files of other owners.
    "FOWNER",
    // To keep set-user and set-group bits when the file belongs to another user.
    "FSETID",
    // To create device files.
    "MKNOD",
    // To set file capabilities.
    "SETFCAP",
];

/// The user of the image, who owns no files.
const USER: i64 = 65532;

/// The Pod Security level that a namespace enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodSecurity {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The pod that uses the volume of a mover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetPod {
    /// The user and group of its containers, if its spec sets them.
    pub user: Option<i64>,
    pub group: Option<i64>,
    pub fs_group: Option<i64>,
}

/// Why no mover can run in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error(
        "its namespace does not allow pods with directories of nodes: label it pod-security.kubernetes.io/enforce=privileged"
    )]
    NodeDirectory,
    #[error(
        "its namespace allows only pods without rights (Pod Security level restricted), and the pod does not name the user \
         who owns the files: set spec.securityContext.runAsUser"
    )]
    NoUser,
    #[error(
        "a block device belongs to root, and its namespace does not allow pods that run as root: label it \
         pod-security.kubernetes.io/enforce=baseline"
    )]
    Device,
}

/// The permissions of a mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    user: User,
    capabilities: &'static [&'static str],
    /// It mounts host directories, which have the SELinux labels of other pods.
    host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    /// Needed to read or write files or devices of all owners.
    Root,
    Other {
        user: i64,
        group: i64,
        fs_group: i64,
    },
}

const UNPRIVILEGED: User = User::Other { user: USER, group: USER, fs_group: USER };

pub(super) fn of(
    place: &MoverPlace,
    target: Option<&TargetPod>,
    security: PodSecurity,
) -> Result<Rights, NotAllowed> {
    match (place, security) {
        (MoverPlace::NodeDirectory { writable, .. }, PodSecurity::Privileged) => {
            Ok(root(if *writable { WRITE } else { READ }, true))
        }
        (MoverPlace::NodeDirectory { .. }, _) => Err(NotAllowed::NodeDirectory),
        (MoverPlace::Claim { block: true, .. }, PodSecurity::Restricted) => Err(NotAllowed::Device),
        // The device belongs to root, so no capability is needed.
        (MoverPlace::Claim { block: true, .. }, _) => Ok(root(&[], false)),
        (MoverPlace::Claim { .. }, PodSecurity::Restricted) => as_target(target),
        (MoverPlace::Claim { writable: true, .. }, _) => Ok(root(WRITE, false)),
        (MoverPlace::Claim { .. }, PodSecurity::Baseline) => Ok(root(READ_BASELINE, false)),
        (MoverPlace::Claim { .. }, PodSecurity::Privileged) => Ok(root(READ, false)),
        (MoverPlace::Anywhere, _) => Ok(Rights { user: UNPRIVILEGED, capabilities: &[], host: false }),
    }
}

fn root(capabilities: &'static [&'static str], host: bool) -> Rights {
    Rights { user: User::Root, capabilities, host }
}

/// The user of the pod itself, who can read and write its files.
fn as_target(target: Option<&TargetPod>) -> Result<Rights, NotAllowed> {
    let user = target.and_then(|target| target.user).filter(|user| *user != 0).ok_or(NotAllowed::NoUser)?;
    let group = target.and_then(|target| target.group).unwrap_or(user);
    let fs_group = target.and_then(|target| target.fs_group).unwrap_or(group);
    Ok(Rights { user: User::Other { user, group, fs_group }, capabilities: &[], host: false })
}

impl Rights {
    pub(super) fn pod(self) -> Value {
        let mut context = match self.user {
            User::Root => json!({"runAsUser": 0, "runAsGroup": 0}),
            User::Other { user, group, fs_group } => {
                json!({"runAsNonRoot": true, "runAsUser": user, "runAsGroup": group, "fsGroup": fs_group})
            }
        };
        context["seccompProfile"] = json!({"type": "RuntimeDefault"});
        if self.host {
            context["seLinuxOptions"] = json!({"type": "spc_t"});
        }
        context
    }

    pub(super) fn container(self) -> Value {
        let mut capabilities = json!({"drop": ["ALL"]});
        if !self.capabilities.is_empty() {
            capabilities["add"] = json!(self.capabilities);
        }
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": capabilities,
        })
    }

    /// Files of a Secret belong to root; another user reads them through the pod's group.
    pub(super) fn secret_mode(self) -> u32 {
        if self.user == User::Root { 0o400 } else { 0o440 }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn on_node() -> MoverPlace {
        MoverPlace::NodeDirectory { node: "a".into(), directory: "/d".into(), writable: false }
    }

    fn claim(block: bool, writable: bool) -> MoverPlace {
        MoverPlace::Claim { claim: "c".into(), block, writable, node: None }
    }

    #[rstest]
    #[case::host_paths_need_privileged(on_node(), PodSecurity::Baseline, NotAllowed::NodeDirectory)]
    #[case::devices_need_root(claim(true, false), PodSecurity::Restricted, NotAllowed::Device)]
    #[case::whose_files(claim(false, false), PodSecurity::Restricted, NotAllowed::NoUser)]
    fn a_namespace_that_allows_less_is_named(
        #[case] place: MoverPlace,
        #[case] security: PodSecurity,
        #[case] expected: NotAllowed,
    ) {
        assert_eq!(of(&place, None, security), Err(expected));
    }

    #[test]
    fn under_baseline_files_are_read_with_a_capability_that_it_allows() {
        let rights = of(&claim(false, false), None, PodSecurity::Baseline).unwrap();
        assert_eq!(rights.container()["capabilities"]["add"], json!(["DAC_OVERRIDE"]));
        let rights = of(&claim(false, false), None, PodSecurity::Privileged).unwrap();
        assert_eq!(rights.container()["capabilities"]["add"], json!(["DAC_READ_SEARCH"]));
    }

    #[test]
    fn under_restricted_the_mover_runs_as_the_pod_whose_volume_it_is() {
        let target = TargetPod { user: Some(999), group: None, fs_group: Some(70) };
        let rights = of(&claim(false, true), Some(&target), PodSecurity::Restricted).unwrap();
        let pod = rights.pod();
        assert_eq!(
            (&pod["runAsUser"], &pod["runAsGroup"], &pod["fsGroup"]),
            (&json!(999), &json!(999), &json!(70))
        );
        assert_eq!(rights.container()["capabilities"], json!({"drop": ["ALL"]}));
        let root = TargetPod { user: Some(0), ..target };
        assert_eq!(of(&claim(false, true), Some(&root), PodSecurity::Restricted), Err(NotAllowed::NoUser));
    }
}
