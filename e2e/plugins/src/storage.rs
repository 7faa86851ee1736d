//! An object store in a directory that misbehaves for some keys.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use lifeboat_plugin_sdk::{Body, Bytes, Config, Error, ObjectStore, Result, async_trait};
use tokio::fs;
use tokio::io::AsyncWriteExt;

#[derive(Default)]
pub(crate) struct Files(Mutex<Option<PathBuf>>);

impl Files {
    fn path(&self, bucket: &str, key: &str) -> Result<PathBuf> {
        let root = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let root = root.ok_or_else(|| Error::new("used before Init"))?;
        // One file for each key, so that any prefix can be listed.
        Ok(root.join(bucket).join(key.replace('%', "%25").replace('/', "%2F")))
    }

    async fn all(&self, bucket: &str) -> Result<Vec<String>> {
        let mut entries = fs::read_dir(self.path(bucket, "")?).await?;
        let mut keys = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".unfinished") {
                keys.push(name.replace("%2F", "/").replace("%25", "%"));
            }
        }
        keys.sort();
        Ok(keys)
    }
}

#[async_trait]
impl ObjectStore for Files {
    async fn init(&self, config: Config) -> Result<()> {
        let root = config.get("root").ok_or_else(|| Error::new("config has no root"))?;
        if config.get("bucket").is_none_or(String::is_empty) || !config.contains_key("prefix") {
            return Err(Error::new("config has no bucket or no prefix"));
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(PathBuf::from(root));
        Ok(())
    }

    async fn put(&self, bucket: &str, key: &str, mut body: Body) -> Result<()> {
        match key.rsplit('/').next() {
            Some("stall") => std::future::pending::<()>().await,
            Some("early") => return Ok(()),
            Some("crash") => std::process::exit(7),
            _ => {}
        }
        let path = self.path(bucket, key)?;
        let unfinished = path.with_extension("unfinished");
        let mut file = fs::File::create(&unfinished).await?;
        while let Some(piece) = body.next().await {
            match piece {
                Ok(piece) => file.write_all(&piece).await?,
                Err(error) => {
                    fs::remove_file(&unfinished).await?;
                    return Err(error);
                }
            }
        }
        file.flush().await?;
        Ok(fs::rename(unfinished, path).await?)
    }

    async fn exists(&self, bucket: &str, key: &str) -> Result<bool> {
        Ok(fs::try_exists(self.path(bucket, key)?).await?)
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Body> {
        let bytes = Bytes::from(fs::read(self.path(bucket, key)?).await?);
        let good = futures::stream::once(async move { Ok(bytes) });
        Ok(match key.rsplit('/').next() {
            Some("cut") => good
                .chain(futures::stream::once(async { Err(Error::new("the test requested a broken stream")) }))
                .boxed(),
            Some("crash") => good.chain(futures::stream::once(async { std::process::exit(7) })).boxed(),
            Some("stop") => good.chain(futures::stream::pending()).boxed(),
            _ => good.boxed(),
        })
    }

    async fn list_prefixes(&self, bucket: &str, prefix: &str, delimiter: &str) -> Result<Vec<String>> {
        let below = |key: &String| {
            let rest = key.strip_prefix(prefix)?;
            rest.split_once(delimiter).map(|(name, _)| format!("{prefix}{name}{delimiter}"))
        };
        let mut prefixes: Vec<String> = self.all(bucket).await?.iter().filter_map(below).collect();
        prefixes.dedup();
        Ok(prefixes)
    }

    async fn list(&self, bucket: &str, prefix: &str) -> Result<Vec<String>> {
        if prefix.ends_with("outside/") {
            return Ok(vec!["another/location".to_owned()]);
        }
        Ok(self.all(bucket).await?.into_iter().filter(|key| key.starts_with(prefix)).collect())
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        Ok(fs::remove_file(self.path(bucket, key)?).await?)
    }

    async fn signed_url(&self, bucket: &str, key: &str, ttl: Duration) -> Result<String> {
        Ok(format!("https://{bucket}.example.com/{key}?seconds={}", ttl.as_secs()))
    }
}
