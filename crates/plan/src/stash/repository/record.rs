//! Which restic repository a Repository stands for: its ID and location are recorded in annotations when it is opened
//! for the first time. A repository that no longer exists at its location is not created again, and one that was
//! replaced is not used, unless a user removes the record. A Repository whose backend was changed gets a new record.

use serde_json::{Map, Value, json};

use crate::label;
use crate::stash::backend::{BackendAccess, BackendStorage};
use crate::stash::repo_dirs::RepoDir;

/// Annotation of a Repository: the ID of its restic repository.
pub const ID: &str = "lifeboat.io/repository-id";
/// Annotation of a Repository: the place of the backend in which that repository was found.
pub const LOCATION: &str = "lifeboat.io/repository-location";

/// The recorded repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub id: String,
    pub location: String,
}

/// Why the repository that is in the backend is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordProblem {
    #[error(
        "'{location}' holds the repository {found}, and {recorded} is on record: it was exchanged, or made anew; if that is \
         meant, remove annotation {ID} from the Repository"
    )]
    Another { location: String, recorded: String, found: String },
    #[error(
        "the repository {recorded} is not in '{location}' any more; bring its files back, or remove annotation {ID} from the \
         Repository to have a new one made"
    )]
    Vanished { location: String, recorded: String },
}

/// The recorded repository, if there is one.
pub fn recorded(object: &Value) -> Option<Recorded> {
    let text = |key: &str| object["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
    Some(Recorded { id: text(ID), location: text(LOCATION) }).filter(|recorded| !recorded.id.is_empty())
}

/// The patch that records a repository.
pub fn record(id: &str, location: &str) -> Value {
    json!({"metadata": {"annotations": {ID: id, LOCATION: location}}})
}

/// Annotation of a Repository: the IDs of the repositories in its directories, each with a digest of its place.
pub const DIRECTORIES: &str = "lifeboat.io/directory-ids";
/// How many digits of the digest of a place are recorded.
const PLACE_DIGITS: usize = 16;

/// The recorded repository in a directory of the backend, if there is one. `location`: the place of that directory; a record of
/// another place is that of a backend that was changed since.
pub fn recorded_in(object: &Value, directory: &RepoDir, location: &str) -> Option<Recorded> {
    let all = directories(object);
    let (id, place) = all.get(directory.as_str())?.as_str()?.split_once(' ')?;
    (place == place_of(location)).then(|| Recorded { id: id.to_owned(), location: location.to_owned() })
}

/// The IDs of the repositories in all directories.
pub fn recorded_ids(object: &Value) -> Vec<String> {
    let all = directories(object);
    let ids = all.values().filter_map(|entry| entry.as_str()?.split_once(' '));
    ids.map(|(id, _)| id.to_owned()).collect()
}

/// The patch that records the repository in a directory beside those on record. It is about the whole annotation, so that it must be
/// refused if the object was changed since it was read.
pub fn record_in(object: &Value, directory: &RepoDir, id: &str, location: &str) -> Value {
    let mut all = directories(object);
    all.insert(directory.to_string(), json!(format!("{id} {}", place_of(location))));
    json!({"metadata": {"annotations": {DIRECTORIES: Value::Object(all).to_string()}}})
}

fn directories(object: &Value) -> Map<String, Value> {
    let text = object["metadata"]["annotations"][DIRECTORIES].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

fn place_of(location: &str) -> String {
    label::digest(location)[..PLACE_DIGITS].to_owned()
}

/// The place of a repository in its backend. A volume has no name that all pods share, so its source is part of the place.
pub fn location(access: &BackendAccess) -> String {
    match &access.storage {
        BackendStorage::Volume(volume) => {
            let source = serde_json::to_string(&volume.source).unwrap_or_default();
            let sub_path = volume.sub_path.as_deref().unwrap_or_default();
            format!("{} {}", access.identifier, label::digest(&format!("{source} {sub_path}")))
        }
        BackendStorage::Bucket(_) | BackendStorage::Rest(_) => access.identifier.clone(),
    }
}

/// Compares the repository that was opened in `location` with the recorded one. True if it has to be recorded.
pub fn verify(recorded: Option<&Recorded>, location: &str, found: &str) -> Result<bool, RecordProblem> {
    match recorded.filter(|recorded| recorded.location == location) {
        None => Ok(true),
        Some(recorded) if recorded.id == found => Ok(false),
        Some(recorded) => Err(RecordProblem::Another {
            location: location.to_owned(),
            recorded: recorded.id.clone(),
            found: found.to_owned(),
        }),
    }
}

/// Whether a repository may be created in `location`, which has none.
pub fn may_create(recorded: Option<&Recorded>, location: &str) -> Result<(), RecordProblem> {
    match recorded.filter(|recorded| recorded.location == location) {
        None => Ok(()),
        Some(recorded) => {
            Err(RecordProblem::Vanished { location: location.to_owned(), recorded: recorded.id.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "s3:minio/bkt/team";

    #[test]
    fn a_repository_is_recorded_once_and_again_where_the_backend_was_changed() {
        assert_eq!(verify(None, HERE, "a"), Ok(true));
        let recorded = recorded(&record("a", HERE)).unwrap();
        assert_eq!(verify(Some(&recorded), HERE, "a"), Ok(false));
        assert_eq!(verify(Some(&recorded), "s3:minio/other", "b"), Ok(true));
        assert_eq!(may_create(Some(&recorded), "s3:minio/other"), Ok(()));
    }

    #[test]
    fn an_exchanged_or_vanished_repository_is_not_used_and_the_message_says_what_to_do() {
        let recorded = recorded(&record("a", HERE)).unwrap();
        let problems =
            [verify(Some(&recorded), HERE, "b").unwrap_err(), may_create(Some(&recorded), HERE).unwrap_err()];
        for problem in problems {
            assert!(problem.to_string().contains("remove annotation lifeboat.io/repository-id"), "{problem}");
        }
        assert_eq!(may_create(None, HERE), Ok(()));
    }

    #[test]
    fn each_directory_has_a_record_of_its_own() {
        let (one, other) = ("/volumes/deployment/a", "/volumes/deployment/b");
        let [one, other] = [one, other].map(|path| RepoDir::parse("repoDir", path).unwrap());
        let first = record_in(&json!({}), &one, "a", HERE);
        let both = record_in(&first, &other, "b", HERE);
        let id = |directory, place| recorded_in(&both, directory, place).map(|recorded| recorded.id);
        assert_eq!((id(&one, HERE), id(&other, HERE)), (Some("a".to_owned()), Some("b".to_owned())));
        assert_eq!(id(&one, "s3:minio/other"), None, "the backend was changed");
        assert_eq!(recorded_ids(&both), ["a", "b"]);
        let forged = json!({"metadata": {"annotations": {DIRECTORIES: "[1]"}}});
        assert_eq!((recorded_in(&forged, &one, HERE), recorded_ids(&forged)), (None, Vec::new()));
    }

    #[test]
    fn an_object_without_an_id_has_no_record() {
        assert_eq!(recorded(&json!({"metadata": {"annotations": {LOCATION: HERE}}})), None);
        assert_eq!(recorded(&json!({})), None);
    }
}
