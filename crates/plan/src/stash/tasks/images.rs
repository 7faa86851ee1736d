//! Images of upstream's addons, which are refused: they report to upstream's operator through the API, write no files
//! that a mover could store, and exit with 0 even if they failed.

/// The organisation of upstream's images.
const ORGANISATION: &str = "stashed";
/// The names of its images, wherever they are copied to.
const NAMES: [&str; 13] = [
    "stash",
    "stash-enterprise",
    "stash-elasticsearch",
    "stash-etcd",
    "stash-mariadb",
    "stash-mongodb",
    "stash-mysql",
    "stash-nats",
    "stash-percona-xtradb",
    "stash-postgres",
    "stash-redis",
    "stash-vault",
    "stash-kubedump",
];

pub(super) fn is_of_upstream(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    let mut parts: Vec<&str> = name.split('/').collect();
    let last = parts.pop().unwrap_or_default();
    let last = last.split(':').next().unwrap_or_default();
    NAMES.contains(&last) || parts.contains(&ORGANISATION)
}
