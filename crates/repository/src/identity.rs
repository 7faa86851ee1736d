//! The identity of the process that uses a repository: the names in locks, keys and snapshots. From the system, or
//! set by the caller.

use std::sync::OnceLock;

/// Host, user and process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// For locks. The caller may set it (a mover uses its cluster and pod).
    pub host: String,
    pub user: String,
    pub uid: u32,
    pub gid: u32,
}

impl Identity {
    /// From the system. The user name comes from the passwd file: a static program has no NSS.
    pub fn of_system() -> Self {
        static SYSTEM: OnceLock<Identity> = OnceLock::new();
        SYSTEM.get_or_init(read).clone()
    }
}

fn read() -> Identity {
    let uid = rustix::process::getuid().as_raw();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse::<u32>() == Ok(uid)).then(|| name.to_owned())
    });
    Identity { host, user: user.unwrap_or_default(), uid, gid: rustix::process::getgid().as_raw() }
}
