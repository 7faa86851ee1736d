//! What a token permits, by method and path, and how large files may be. Pure.

use axum::http::Method;
use jiff::{SignedDuration, Timestamp};

use super::path::{FileName, FileType, Route};
use super::refusal::Refusal;
use super::{FileAccess, Grant, LockFacts};

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    List(FileType),
    Look(FileName),
    Read(FileName),
    /// The file is added; it has a name that is the SHA-256 of its content.
    Add(FileType, String),
    /// A lock of the token's own is removed.
    Unlock(String),
}

/// Whether an action moves much data. Renewing a lock must not wait behind packs.
pub(super) fn is_bulk(action: &Action) -> bool {
    match action {
        Action::List(file_type) | Action::Add(file_type, _) | Action::Read(FileName::Of(file_type, _)) => {
            *file_type != FileType::Lock
        }
        Action::Read(FileName::Config) | Action::Look(_) | Action::Unlock(_) => false,
    }
}

/// What a request does, if the token permits it.
pub(super) fn action(grant: &Grant, method: &Method, route: Route) -> Result<Action, Refusal> {
    let action = match (method.as_str(), route) {
        ("GET", Route::List(file_type)) => Action::List(file_type),
        ("HEAD", Route::File(name)) => Action::Look(name),
        ("GET", Route::File(name)) => Action::Read(name),
        ("POST", Route::Root) => return Err(Refusal::ServersOnly("creates repositories")),
        ("POST" | "DELETE", Route::File(FileName::Config)) => {
            return Err(Refusal::ServersOnly("writes the config"));
        }
        ("POST" | "DELETE", Route::File(FileName::Of(FileType::Key, _))) => {
            return Err(Refusal::ServersOnly("writes keys"));
        }
        ("POST", Route::File(FileName::Of(file_type, id))) => Action::Add(file_type, id),
        ("DELETE", Route::File(FileName::Of(FileType::Lock, id))) => Action::Unlock(id),
        ("DELETE", Route::File(FileName::Of(..))) => {
            return Err(Refusal::ServersOnly("deletes packs, index files and snapshots"));
        }
        _ => return Err(Refusal::Method),
    };
    match (grant.access, &action) {
        (_, Action::Unlock(_)) | (FileAccess::Add, _) => Ok(action),
        (FileAccess::Ended, _) => Err(Refusal::Ended),
        (FileAccess::Read, Action::Add(file_type, _)) if *file_type != FileType::Lock => {
            Err(Refusal::ReadOnly)
        }
        (FileAccess::Read, _) => Ok(action),
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The largest file that any token may add.
pub(super) const LARGEST: u64 = 32 * MIB;

/// The largest file of a type that may be added. A pack is complete at 16 MiB, and its last blob has 8 MiB at most; index
/// files and snapshots are much smaller, but grow with the number of blobs and paths.
pub(super) fn largest(file_type: FileType) -> u64 {
    match file_type {
        FileType::Data => LARGEST,
        FileType::Index => 16 * MIB,
        FileType::Snapshot => 4 * MIB,
        FileType::Lock => LARGEST_LOCK,
        FileType::Key => 0,
    }
}

/// A lock has about 300 bytes.
pub(super) const LARGEST_LOCK: u64 = 16 * KIB;

/// How far the clock of a mover may be off. If storage reports no times, the time inside a lock determines whether it
/// is stale.
const CLOCKS: SignedDuration = SignedDuration::from_mins(10);

/// Whether a lock may be added with this token. An exclusive lock would block all others, and no task with a token
/// needs one; a lock with a time in the future would not expire in time.
pub(super) fn may_lock(grant: &Grant, lock: Option<&LockFacts>, now: Timestamp) -> Result<(), Refusal> {
    let Some(lock) = lock else { return Err(Refusal::BadLock("it is not a lock of this repository")) };
    if lock.exclusive {
        return Err(Refusal::BadLock("exclusive locks are taken by the server only"));
    }
    if lock.user != grant.lock_user {
        return Err(Refusal::BadLock("its user name is not that of the task"));
    }
    if lock.time.duration_since(now).abs() > CLOCKS {
        return Err(Refusal::BadLock("its time is not now; set the clock of the node"));
    }
    Ok(())
}

/// Whether a lock was created with a token of this task.
pub(super) fn is_own_lock(grant: &Grant, lock: Option<&LockFacts>) -> bool {
    lock.is_some_and(|lock| lock.user == grant.lock_user)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn grant(access: FileAccess) -> Grant {
        Grant {
            repository: "stash/shop/r".into(),
            task: "t".into(),
            access,
            lock_user: "lifeboat-task/t".into(),
        }
    }

    fn file(file_type: FileType) -> Route {
        Route::File(FileName::Of(file_type, "id".into()))
    }

    const ADD: FileAccess = FileAccess::Add;
    const READ: FileAccess = FileAccess::Read;
    const ENDED: FileAccess = FileAccess::Ended;

    #[rstest]
    #[case::listing(ADD, "GET", Route::List(FileType::Snapshot), 200)]
    #[case::config(READ, "GET", Route::File(FileName::Config), 200)]
    #[case::key(READ, "GET", file(FileType::Key), 200)]
    #[case::look(READ, "HEAD", file(FileType::Data), 200)]
    #[case::pack(ADD, "POST", file(FileType::Data), 200)]
    #[case::index(ADD, "POST", file(FileType::Index), 200)]
    #[case::snapshot(ADD, "POST", file(FileType::Snapshot), 200)]
    #[case::lock(ADD, "POST", file(FileType::Lock), 200)]
    #[case::lock_of_a_restore(READ, "POST", file(FileType::Lock), 200)]
    #[case::unlock(READ, "DELETE", file(FileType::Lock), 200)]
    #[case::unlock_at_the_end(ENDED, "DELETE", file(FileType::Lock), 200)]
    #[case::read_at_the_end(ENDED, "GET", file(FileType::Data), 403)]
    #[case::list_at_the_end(ENDED, "GET", Route::List(FileType::Lock), 403)]
    #[case::lock_at_the_end(ENDED, "POST", file(FileType::Lock), 403)]
    #[case::pack_of_a_restore(READ, "POST", file(FileType::Data), 403)]
    #[case::index_of_a_restore(READ, "POST", file(FileType::Index), 403)]
    #[case::snapshot_of_a_restore(READ, "POST", file(FileType::Snapshot), 403)]
    #[case::key_is_added(ADD, "POST", file(FileType::Key), 403)]
    #[case::config_is_written(ADD, "POST", Route::File(FileName::Config), 403)]
    #[case::create(ADD, "POST", Route::Root, 403)]
    #[case::config_is_deleted(ADD, "DELETE", Route::File(FileName::Config), 403)]
    #[case::key_is_deleted(ADD, "DELETE", file(FileType::Key), 403)]
    #[case::pack_is_deleted(ADD, "DELETE", file(FileType::Data), 403)]
    #[case::index_is_deleted(ADD, "DELETE", file(FileType::Index), 403)]
    #[case::snapshot_is_deleted(ADD, "DELETE", file(FileType::Snapshot), 403)]
    #[case::repository_is_deleted(ADD, "DELETE", Route::Root, 405)]
    #[case::type_is_deleted(ADD, "DELETE", Route::List(FileType::Data), 405)]
    #[case::put(ADD, "PUT", file(FileType::Data), 405)]
    #[case::patch(ADD, "PATCH", Route::File(FileName::Config), 405)]
    fn a_token_permits(
        #[case] access: FileAccess,
        #[case] method: &str,
        #[case] route: Route,
        #[case] status: u16,
    ) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let found = action(&grant(access), &method, route);
        assert_eq!(found.map_or_else(|refusal| refusal.status().as_u16(), |_| 200), status);
    }

    #[rstest]
    #[case::own(Some(("lifeboat-task/t", false, 0)), true)]
    #[case::clock_is_behind(Some(("lifeboat-task/t", false, -500)), true)]
    #[case::of_another_task(Some(("lifeboat-task/u", false, 0)), false)]
    #[case::exclusive(Some(("lifeboat-task/t", true, 0)), false)]
    #[case::from_tomorrow(Some(("lifeboat-task/t", false, 24 * 3600)), false)]
    #[case::not_readable(None, false)]
    fn a_lock_may_be_added(#[case] lock: Option<(&str, bool, i64)>, #[case] expected: bool) {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let facts = lock.map(|(user, exclusive, ahead)| LockFacts {
            user: user.into(),
            exclusive,
            time: now + SignedDuration::from_secs(ahead),
        });
        assert_eq!(may_lock(&grant(ADD), facts.as_ref(), now).is_ok(), expected);
    }

    #[test]
    fn locks_do_not_wait_behind_packs() {
        assert!(is_bulk(&Action::Add(FileType::Data, String::new())));
        assert!(!is_bulk(&Action::Add(FileType::Lock, String::new())));
        assert!(!is_bulk(&Action::List(FileType::Lock)) && is_bulk(&Action::List(FileType::Data)));
    }
}
