//! Deletes the files of a repository: every object whose key belongs to the layout, and nothing else. Other objects
//! below the prefix are counted and named.

use futures::TryStreamExt;
use lifeboat_plan::stash::repository::layout::{CONFIG, DIRECTORIES, Left, is_own_file};
use lifeboat_store::Store;
use sha2::{Digest, Sha256};

use super::NotWiped;

/// How many files one request deletes at most.
const BATCH: usize = 1000;

/// A digest of the config as it is stored; None if there is none.
pub(super) async fn config_digest(store: &Store) -> Result<Option<String>, lifeboat_store::Error> {
    match store.get(CONFIG).await {
        Ok(config) => {
            let digest = Sha256::digest(&config);
            Ok(Some(digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the files of the repository with this config, the config last. Returns the objects that stay.
pub(super) async fn delete(store: &Store, noted: &str) -> Result<Left, NotWiped> {
    let mut left = beside(store).await?;
    match config_digest(store).await? {
        // The config is deleted last, when everything else is deleted.
        None => return Ok(left),
        Some(found) if found == noted => {}
        Some(_) => {
            let message = "the data is not deleted any further: the backend holds another repository now; set wipeOut to false to \
                           delete the object without it";
            return Err(NotWiped::Refused(message.to_owned()));
        }
    }
    for directory in DIRECTORIES {
        delete_below(store, directory, &mut left).await?;
    }
    store.delete(CONFIG).await?;
    Ok(left)
}

async fn delete_below(store: &Store, directory: &str, left: &mut Left) -> Result<(), NotWiped> {
    let mut listing = store.list(&format!("{directory}/"));
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let info = match listing.try_next().await {
            Ok(Some(info)) => info,
            // A REST server has no other directories than restic's.
            Ok(None) | Err(lifeboat_store::Error::Unsupported { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        if is_own_file(&info.key) {
            batch.push(info.key);
        } else {
            left.add(&info.key);
        }
        if batch.len() == BATCH {
            store.delete_many(std::mem::take(&mut batch)).await?;
        }
    }
    Ok(store.delete_many(batch).await?)
}

/// Objects and directories that do not belong to the repository.
async fn beside(store: &Store) -> Result<Left, NotWiped> {
    let mut left = Left::default();
    let listed = match store.list_directory("").await {
        Err(lifeboat_store::Error::Unsupported { .. }) => return Ok(left),
        listed => listed?,
    };
    let is_directory = |prefix: &&String| !DIRECTORIES.contains(&prefix.trim_end_matches('/'));
    for prefix in listed.prefixes.iter().filter(is_directory) {
        left.add(prefix);
    }
    for info in listed.objects.iter().filter(|info| info.key != CONFIG) {
        left.add(&info.key);
    }
    Ok(left)
}
