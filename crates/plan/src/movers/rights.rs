//! The rights of a mover's container by its place: which user, which capabilities. Takes a place, gives security contexts
//! for `job`. docs/movers.md has the table for admins; this is where it comes from.

use serde_json::{Value, json};

use super::Place;

/// Reading files of all owners: nothing else is needed for a backup.
const READ: &[&str] = &["DAC_READ_SEARCH"];

/// Writing files of all owners as they were.
const WRITE: &[&str] = &[
    // Owners and groups.
    "CHOWN",
    // Into directories that their owner closed.
    "DAC_OVERRIDE",
    // Modes, times and extended attributes of files of others.
    "FOWNER",
    // Set-user and set-group bits stay when others write.
    "FSETID",
    // Device files.
    "MKNOD",
    // Capabilities of files.
    "SETFCAP",
];

/// What a mover may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    /// Needed where files or devices of all owners are read or written.
    root: bool,
    capabilities: &'static [&'static str],
    /// It sees directories of the host, which carry labels of other pods where SELinux is on.
    host: bool,
}

pub(super) fn of(place: &Place) -> Rights {
    let files = |writable: bool| if writable { WRITE } else { READ };
    match place {
        Place::NodeDirectory { writable, .. } => {
            Rights { root: true, capabilities: files(*writable), host: true }
        }
        Place::Claim { block: false, writable, .. } => {
            Rights { root: true, capabilities: files(*writable), host: false }
        }
        // The device belongs to root, who needs nothing more for it.
        Place::Claim { block: true, .. } => Rights { root: true, capabilities: &[], host: false },
        Place::Anywhere => Rights { root: false, capabilities: &[], host: false },
    }
}

impl Rights {
    pub(super) fn pod(self, user: i64) -> Value {
        let mut context = if self.root {
            json!({"runAsUser": 0, "runAsGroup": 0})
        } else {
            json!({"runAsNonRoot": true, "runAsUser": user, "runAsGroup": user, "fsGroup": user})
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

    /// Files of a Secret belong to root; whoever is not root reads them by the pod's group.
    pub(super) fn secret_mode(self) -> u32 {
        if self.root { 0o400 } else { 0o440 }
    }
}
