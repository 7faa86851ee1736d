//! What a server keeps beside the data: one small file for each name, below a prefix that restic ignores, sealed with the repository's key.
//! Written by the server and, where only movers open the repository, by movers. What is in a file is the server's.

use futures::TryStreamExt;

use crate::error::{Error, Result};
use crate::files::OWN_PREFIX;
use crate::repository::Repository;

/// How many files a repository keeps: the oldest go.
pub const MOST: usize = 64;
/// The digits of a name.
const NAME: usize = 32;

/// The directory of the files.
pub fn directory() -> String {
    format!("{OWN_PREFIX}/state/")
}

/// Whether a text is the name of such a file.
pub fn is_name(text: &str) -> bool {
    text.len() == NAME && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes a file, in place of the one of this name. False if the storage has no place for it.
pub async fn write(repository: &Repository, name: &str, content: &[u8]) -> Result<bool> {
    let (store, directory) = (repository.store(), directory());
    let key = format!("{directory}{name}");
    match store.put(&key, repository.key().sealed(content)).await {
        Err(lifeboat_store::Error::Unsupported { .. }) => return Ok(false),
        written => written.map_err(Error::store("write the state"))?,
    }
    let listed: Vec<_> =
        store.list(&directory).try_collect().await.map_err(Error::store("list the states"))?;
    // Another repository may be in this directory.
    let own = listed.into_iter().filter(|info| info.key.strip_prefix(&directory).is_some_and(is_name));
    let mut own: Vec<_> = own.map(|info| (info.modified, info.key)).collect();
    own.sort();
    let surplus = own.len().saturating_sub(MOST);
    let old = own.into_iter().take(surplus).map(|(_, old)| old).filter(|old| *old != key);
    store.delete_many(old).await.map_err(Error::store("remove old states"))?;
    Ok(true)
}
