//! Control groups: one above the pods of each node, in every hierarchy of this machine, so that two kubelets do not
//! remove each other's groups. Supports version 1 (a directory per controller) and version 2 (one unified tree).
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::layout::{CGROUP, NODES};
use super::mounts;

/// Controllers that the kubelet requires; `hugetlb` and `io` only if the kernel has them.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"];

/// How this machine arranges control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hierarchies {
    V1(Vec<PathBuf>),
    V2(PathBuf),
}

impl Hierarchies {
    pub(super) fn detect() -> Result<Self> {
        from_mounts(&fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?)
    }

    fn roots(&self) -> Vec<&Path> {
        match self {
            Self::V1(roots) => roots.iter().map(PathBuf::as_path).collect(),
            Self::V2(root) => vec![root],
        }
    }

    /// The controllers that `create` has to enable at the root; `down` disables them again.
    pub(super) fn missing_controllers(&self) -> Result<Vec<String>> {
        let Self::V2(root) = self else { return Ok(Vec::new()) };
        let read = |name: &str| {
            fs::read_to_string(root.join(name))
                .with_context(|| format!("cannot read {name} in {}", root.display()))
        };
        let (available, enabled) = (read("cgroup.controllers")?, read("cgroup.subtree_control")?);
        Ok(missing(&available, &enabled))
    }

    pub(super) fn create(&self) -> Result<()> {
        match self {
            Self::V1(roots) => roots.iter().try_for_each(|root| create_v1(root)),
            Self::V2(root) => create_v2(root),
        }
    }

    /// Removes the box's groups from the bottom up. A group can be removed only a moment after its last process has
    /// ended.
    pub(super) fn remove(&self, controllers: &[String]) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        for root in self.roots() {
            let top = root.join(CGROUP);
            while top.exists() {
                remove_tree(&top);
                if top.exists() && Instant::now() > deadline {
                    bail!("cannot remove the control group {}: a process still runs in it", top.display());
                }
            }
        }
        if let Self::V2(root) = self {
            for name in controllers {
                // The kernel refuses if another program uses the controller by now, which is right.
                let _ = fs::write(root.join("cgroup.subtree_control"), format!("-{name}"));
            }
        }
        Ok(())
    }
}

/// Version 2 if there is only the unified tree; otherwise each mounted hierarchy, including the named and the unified
/// one, because runc creates its groups in all of them.
fn from_mounts(mountinfo: &str) -> Result<Hierarchies> {
    let all = mounts::parse(mountinfo);
    let of = |kind: &str| -> Vec<PathBuf> {
        all.iter().filter(|mount| mount.kind == kind).map(|mount| mount.target.clone()).collect()
    };
    let (v1, v2) = (of("cgroup"), of("cgroup2"));
    match (v1.is_empty(), v2.into_iter().next()) {
        (false, unified) => Ok(Hierarchies::V1(v1.into_iter().chain(unified).collect())),
        (true, Some(root)) => Ok(Hierarchies::V2(root)),
        (true, None) => {
            bail!("no control groups are mounted here (usually at /sys/fs/cgroup): pods cannot run")
        }
    }
}

fn missing(available: &str, enabled: &str) -> Vec<String> {
    let enabled: Vec<&str> = enabled.split_whitespace().collect();
    let has = |name: &&str| available.split_whitespace().any(|each| each == *name) && !enabled.contains(name);
    CONTROLLERS.iter().copied().filter(has).map(str::to_owned).collect()
}

fn create_v1(root: &Path) -> Result<()> {
    let top = root.join(CGROUP);
    make(&top)?;
    inherit_cpuset(root, &top)?;
    for node in NODES {
        let group = top.join(node.name);
        make(&group)?;
        inherit_cpuset(&top, &group)?;
    }
    Ok(())
}

/// A cpuset group of version 1 is empty at first and then accepts no process.
fn inherit_cpuset(parent: &Path, child: &Path) -> Result<()> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        if let Ok(value) = fs::read_to_string(parent.join(name))
            && child.join(name).exists()
        {
            fs::write(child.join(name), value.trim())
                .with_context(|| format!("cannot set {name} of {}", child.display()))?;
        }
    }
    Ok(())
}

fn create_v2(root: &Path) -> Result<()> {
    let top = root.join(CGROUP);
    delegate(root)?;
    make(&top)?;
    delegate(&top)?;
    for node in NODES {
        make(&top.join(node.name))?;
        delegate(&top.join(node.name))?;
    }
    Ok(())
}

/// Lets the children of a group use every controller that the group has.
fn delegate(group: &Path) -> Result<()> {
    let file = group.join("cgroup.subtree_control");
    let available = fs::read_to_string(group.join("cgroup.controllers"))
        .with_context(|| format!("cannot read the controllers of {}", group.display()))?;
    let enabled = fs::read_to_string(&file).unwrap_or_default();
    for name in missing(&available, &enabled) {
        fs::write(&file, format!("+{name}")).with_context(|| {
            format!("cannot give the control group controller {name} to pods through {}", file.display())
        })?;
    }
    Ok(())
}

fn make(group: &Path) -> Result<()> {
    fs::create_dir_all(group).with_context(|| format!("cannot create the control group {}", group.display()))
}

fn remove_tree(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    if fs::remove_dir(group).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_counts_as_version_1_with_every_hierarchy() {
        let text = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let expected = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"].map(PathBuf::from).to_vec();
        assert_eq!(from_mounts(text).expect("valid"), Hierarchies::V1(expected));
    }

    #[test]
    fn a_unified_machine_is_version_2() {
        let text = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(from_mounts(text).expect("valid"), Hierarchies::V2("/sys/fs/cgroup".into()));
    }

    #[test]
    fn a_machine_without_control_groups_is_refused() {
        assert!(from_mounts("22 27 0:21 / /proc rw - proc proc rw\n").is_err());
    }

    #[test]
    fn only_controllers_that_exist_and_are_off_are_switched_on() {
        assert_eq!(missing("cpuset cpu memory pids rdma\n", "cpu memory\n"), ["cpuset", "pids"]);
    }
}
