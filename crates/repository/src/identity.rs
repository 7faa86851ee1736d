//! Who works with a repository: the names that locks, keys and snapshots carry. From the system, or the caller's.

use std::sync::OnceLock;

/// Host, user and process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// For locks: the caller's to set (a mover's is its cluster and pod).
    pub host: String,
    pub user: String,
    pub uid: u32,
    pub gid: u32,
}

impl Identity {
    /// What the system says. The name of the user is that of the passwd file: a static program has no NSS.
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
