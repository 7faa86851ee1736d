//! The permissions of a mover's container: user and capabilities. Takes the location of the data, the pod that uses
//! the volume and the namespace's Pod Security level; gives security contexts for `job`, or why no mover can run
//! there. The table for administrators is in docs/movers.md. In a tenant's namespace no volume gets the group of the
//! mover: the kubelet would change the owners of the application's files.

use serde_json::{Value, json};

use super::{MoverPlace, MoverVolume};

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
pub const USER: i64 = 65532;

/// The Pod Security level that a namespace enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodSecurity {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// The pod that uses the volume of a mover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetPod {
    /// The user and group of its containers, if they are known.
    pub user: Option<i64>,
    pub group: Option<i64>,
    /// Its further groups, with the one that owns its volumes.
    pub groups: Vec<i64>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    user: User,
    capabilities: &'static [&'static str],
    /// It mounts host directories, which have the SELinux labels of other pods.
    host: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum User {
    /// Needed to read or write files or devices of all owners.
    Root,
    Other {
        user: i64,
        group: i64,
        groups: Groups,
    },
}

/// The groups of a user besides its primary group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Groups {
    /// The kubelet makes it the group of the pod's volumes. Used only if no volume contains data of others.
    OfVolumes(i64),
    Supplemental(Vec<i64>),
}

/// `has_repository`: the repository is in a volume of the pod.
pub(super) fn of(
    place: &MoverPlace,
    has_repository: bool,
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
        (MoverPlace::Volumes { volumes, .. }, _) => of_volumes(volumes, has_repository, target, security),
        (MoverPlace::Anywhere, PodSecurity::Privileged) if !has_repository => {
            Ok(unprivileged(Groups::OfVolumes(USER)))
        }
        (MoverPlace::Anywhere, _) => of_volumes(&[], has_repository, target, security),
    }
}

/// The permissions in a tenant's namespace.
fn of_volumes(
    volumes: &[MoverVolume],
    has_repository: bool,
    target: Option<&TargetPod>,
    security: PodSecurity,
) -> Result<Rights, NotAllowed> {
    if volumes.is_empty() && !has_repository {
        return Ok(unprivileged(Groups::Supplemental(Vec::new())));
    }
    if security == PodSecurity::Restricted {
        // A device belongs to root, unless the container runtime gives it to the user of its pod, as the application's own pod needs it.
        return match as_target(target) {
            Err(_) if volumes.iter().any(|volume| volume.block) => Err(NotAllowed::Device),
            rights => rights,
        };
    }
    let mut files = volumes.iter().filter(|volume| !volume.block).peekable();
    let capabilities = match (files.peek().is_some(), files.any(|volume| volume.writable)) {
        (_, true) => WRITE,
        // Also writes into a repository that belongs to another user.
        (true, false) => READ_BASELINE,
        (false, false) if has_repository => READ_BASELINE,
        (false, false) => &[],
    };
    Ok(root(capabilities, false))
}

fn unprivileged(groups: Groups) -> Rights {
    Rights { user: User::Other { user: USER, group: USER, groups }, capabilities: &[], host: false }
}

fn root(capabilities: &'static [&'static str], host: bool) -> Rights {
    Rights { user: User::Root, capabilities, host }
}

/// The user of the pod itself, who can read and write its files.
fn as_target(target: Option<&TargetPod>) -> Result<Rights, NotAllowed> {
    let user = target.and_then(|target| target.user).filter(|user| *user != 0).ok_or(NotAllowed::NoUser)?;
    let group = target.and_then(|target| target.group).unwrap_or(user);
    let groups = Groups::Supplemental(target.map(|target| target.groups.clone()).unwrap_or_default());
    Ok(Rights { user: User::Other { user, group, groups }, capabilities: &[], host: false })
}

impl Rights {
    pub(super) fn pod(&self) -> Value {
        let mut context = match &self.user {
            User::Root => json!({"runAsUser": 0, "runAsGroup": 0}),
            User::Other { user, group, .. } => {
                json!({"runAsNonRoot": true, "runAsUser": user, "runAsGroup": group})
            }
        };
        match &self.user {
            User::Other { groups: Groups::OfVolumes(group), .. } => context["fsGroup"] = json!(group),
            User::Other { groups: Groups::Supplemental(groups), .. } if !groups.is_empty() => {
                context["supplementalGroups"] = json!(groups);
            }
            User::Other { .. } | User::Root => {}
        }
        context["seccompProfile"] = json!({"type": "RuntimeDefault"});
        if self.host {
            context["seLinuxOptions"] = json!({"type": "spc_t"});
        }
        context
    }

    pub(super) fn container(&self) -> Value {
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

    /// Files of a Secret belong to root; another user reads them through the group of the pod's volumes or, where there
    /// is none, as everybody in the containers that mount the Secret.
    pub(super) fn secret_mode(&self) -> u32 {
        match &self.user {
            User::Root => 0o400,
            User::Other { groups: Groups::OfVolumes(_), .. } => 0o440,
            User::Other { groups: Groups::Supplemental(_), .. } => 0o444,
        }
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
        assert_eq!(of(&place, false, None, security), Err(expected));
    }

    #[test]
    fn under_baseline_files_are_read_with_a_capability_that_it_allows() {
        let rights = of(&claim(false, false), false, None, PodSecurity::Baseline).unwrap();
        assert_eq!(rights.container()["capabilities"]["add"], json!(["DAC_OVERRIDE"]));
        let rights = of(&claim(false, false), false, None, PodSecurity::Privileged).unwrap();
        assert_eq!(rights.container()["capabilities"]["add"], json!(["DAC_READ_SEARCH"]));
    }

    #[test]
    fn under_restricted_the_mover_runs_as_the_pod_whose_volume_it_is() {
        let target = TargetPod { user: Some(999), group: None, groups: vec![70] };
        let rights = of(&claim(false, true), false, Some(&target), PodSecurity::Restricted).unwrap();
        let pod = rights.pod();
        assert_eq!(
            (&pod["runAsUser"], &pod["runAsGroup"], &pod["supplementalGroups"], &pod["fsGroup"]),
            (&json!(999), &json!(999), &json!([70]), &Value::Null)
        );
        assert_eq!(rights.container()["capabilities"], json!({"drop": ["ALL"]}));
        let root = TargetPod { user: Some(0), ..target };
        assert_eq!(
            of(&claim(false, true), false, Some(&root), PodSecurity::Restricted),
            Err(NotAllowed::NoUser)
        );
    }

    #[test]
    fn under_restricted_a_device_is_used_as_its_pod_uses_it() {
        let target = TargetPod { user: Some(999), group: Some(998), groups: Vec::new() };
        let rights = of(&volumes("rb"), false, Some(&target), PodSecurity::Restricted).unwrap();
        let pod = rights.pod();
        assert_eq!((&pod["runAsUser"], &pod["runAsGroup"]), (&json!(999), &json!(998)));
    }

    fn volumes(kinds: &str) -> MoverPlace {
        let of = |kind| MoverVolume { claim: "c".into(), block: kind == 'b', writable: kind == 'w' };
        MoverPlace::Volumes { volumes: kinds.chars().map(of).collect(), node: None }
    }

    /// `r` is a claim that is read, `w` one that is written, `b` a block device.
    #[rstest]
    #[case::reads(volumes("rr"), false, READ_BASELINE)]
    #[case::writes(volumes("rw"), false, WRITE)]
    #[case::devices(volumes("bb"), false, &[])]
    #[case::a_device_beside_files(volumes("br"), false, READ_BASELINE)]
    #[case::a_device_and_a_repository(volumes("b"), true, READ_BASELINE)]
    #[case::a_repository_alone(MoverPlace::Anywhere, true, READ_BASELINE)]
    fn under_baseline_root_has_what_its_volumes_need(
        #[case] place: MoverPlace,
        #[case] has_repository: bool,
        #[case] expected: &'static [&'static str],
    ) {
        for security in [PodSecurity::Baseline, PodSecurity::Privileged] {
            let rights = of(&place, has_repository, None, security).unwrap();
            assert_eq!(rights, root(expected, false));
        }
    }

    #[rstest]
    #[case::files(volumes("r"), false, Err(NotAllowed::NoUser))]
    #[case::devices(volumes("rb"), false, Err(NotAllowed::Device))]
    #[case::a_repository(MoverPlace::Anywhere, true, Err(NotAllowed::NoUser))]
    #[case::nothing(volumes(""), false, Ok(unprivileged(Groups::Supplemental(Vec::new()))))]
    #[case::nothing_anywhere(MoverPlace::Anywhere, false, Ok(unprivileged(Groups::Supplemental(Vec::new()))))]
    fn under_restricted_data_needs_a_known_user(
        #[case] place: MoverPlace,
        #[case] has_repository: bool,
        #[case] expected: Result<Rights, NotAllowed>,
    ) {
        assert_eq!(of(&place, has_repository, None, PodSecurity::Restricted), expected);
    }
}
