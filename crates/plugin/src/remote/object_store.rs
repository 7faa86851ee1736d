//! Object stores served by plugin processes, behind crate `archive`'s trait. Keys of the trait are relative to the
//! location's prefix; plugins get full keys. Calls do not count towards the limit of concurrent calls, see
//! `docs/design/0004-plugins.md`.

mod upload;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_archive::{ByteStream, ObjectReading, ObjectStore, StoreError};
use lifeboat_plugin_protocol::generated as wire;
use lifeboat_plugin_protocol::generated::object_store_client::ObjectStoreClient;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};
use url::Url;

use crate::host::{Call, Init, Kind, PluginError, Session, Slot, moving};

/// The maximum size of a listing.
const LARGEST_LISTING: usize = 64 * 1024 * 1024;

/// The bucket and prefix of a location, and its plugin's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStoreLocation {
    pub bucket: String,
    /// Without leading and trailing slashes; empty for the whole bucket.
    pub prefix: String,
    /// The location's `config`, with `caCert` and `credentialsFile` if it has them. Bucket and prefix are added.
    pub config: BTreeMap<String, String>,
}

impl Session {
    /// A provider's object store, configured for one location. The plugin is started with the first call.
    pub fn object_store(
        &self,
        provider: &str,
        location: &ObjectStoreLocation,
    ) -> Result<Arc<dyn ObjectStore>, PluginError> {
        let mut config = location.config.clone();
        config.insert("bucket".to_owned(), location.bucket.clone());
        config.insert("prefix".to_owned(), location.prefix.clone());
        let (slot, init) = self.configured(Kind::ObjectStore, provider, config)?;
        let prefix = match location.prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Ok(Arc::new(Remote { slot, init, bucket: location.bucket.clone(), prefix }))
    }
}

struct Remote {
    slot: Arc<Slot>,
    init: Arc<Init>,
    bucket: String,
    /// Empty, or ends in a slash.
    prefix: String,
}

impl Remote {
    fn request(&self, what: &'static str) -> Call {
        let limit = self.slot.timeouts().call;
        Call { plugin: self.init.name.clone(), what, limit, init: Some(Arc::clone(&self.init)) }
    }

    fn plugin(&self) -> String {
        self.init.name.clone()
    }

    fn whole(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    async fn call<T, R>(
        &self,
        what: &'static str,
        make: impl FnOnce(ObjectStoreClient<Channel>) -> R,
    ) -> Result<T, StoreError>
    where
        R: Future<Output = Result<Response<T>, Status>>,
    {
        let with_client =
            |channel| make(ObjectStoreClient::new(channel).max_decoding_message_size(LARGEST_LISTING));
        self.slot
            .call_unlimited(&self.request(what), with_client)
            .await
            .map_err(|error| failed(&self.init.name, &error))
    }

    /// The key relative to the prefix; a key outside of it is an error of the plugin.
    fn relative(&self, call: &'static str, key: &str) -> Result<String, StoreError> {
        match key.strip_prefix(&self.prefix) {
            Some(key) => Ok(key.to_owned()),
            None => Err(StoreError::Plugin {
                plugin: self.plugin(),
                message: format!("{call} returned the key {key:?}, which is outside of {:?}", self.prefix),
            }),
        }
    }
}

#[async_trait]
impl ObjectStore for Remote {
    async fn put(&self, key: &str, body: Bytes) -> Result<(), StoreError> {
        let body = futures::stream::once(async move { Ok(body) }).boxed();
        self.put_stream(key, body).await.map(drop)
    }

    async fn put_stream(&self, key: &str, body: ByteStream) -> Result<u64, StoreError> {
        let call = self.request("PutObject");
        let first = wire::PutObjectRequest {
            plugin: self.plugin(),
            bucket: self.bucket.clone(),
            key: self.whole(key),
            body: Vec::new(),
        };
        upload::run(&self.slot, &call, first, body).await
    }

    async fn get_stream(&self, key: &str) -> Result<ObjectReading, StoreError> {
        let call = self.request("GetObject");
        let request = wire::GetObjectRequest {
            plugin: self.plugin(),
            bucket: self.bucket.clone(),
            key: self.whole(key),
        };
        let opened = async {
            let answer = self
                .slot
                .call_unlimited(&call, |channel| async move {
                    ObjectStoreClient::new(channel).get_object(request).await
                })
                .await?;
            // The first piece shows whether the object exists.
            read_first(&self.slot, &call, answer).await
        };
        match opened.await {
            Ok((first, stream)) => {
                Ok(ObjectReading { size: None, body: rest(Arc::clone(&self.slot), call, first, stream) })
            }
            // The protocol has no status for a missing object.
            Err(PluginError::Failed { .. }) if matches!(self.exists(key).await, Ok(false)) => {
                Err(StoreError::NotFound { key: key.to_owned() })
            }
            Err(error) => Err(failed(&self.init.name, &error)),
        }
    }

    async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        let request = wire::ObjectExistsRequest {
            plugin: self.plugin(),
            bucket: self.bucket.clone(),
            key: self.whole(key),
        };
        let answer =
            self.call("ObjectExists", |mut client| async move { client.object_exists(request).await });
        Ok(answer.await?.exists)
    }

    async fn directories(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        const CALL: &str = "ListCommonPrefixes";
        let whole = self.whole(prefix);
        let request = wire::ListCommonPrefixesRequest {
            plugin: self.plugin(),
            bucket: self.bucket.clone(),
            delimiter: "/".to_owned(),
            prefix: whole,
        };
        let answer = self.call(CALL, |mut client| async move { client.list_common_prefixes(request).await });
        let mut names = Vec::new();
        for full in answer.await?.prefixes {
            let key = self.relative(CALL, &full)?;
            let name = key.strip_prefix(prefix).unwrap_or(&key).trim_end_matches('/');
            if !name.is_empty() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        const CALL: &str = "ListObjects";
        let request = wire::ListObjectsRequest {
            plugin: self.plugin(),
            bucket: self.bucket.clone(),
            prefix: self.whole(prefix),
        };
        let answer = self.call(CALL, |mut client| async move { client.list_objects(request).await });
        answer.await?.keys.iter().map(|key| self.relative(CALL, key)).collect()
    }

    async fn delete(&self, keys: &[String]) -> Result<(), StoreError> {
        for key in keys {
            let request = wire::DeleteObjectRequest {
                plugin: self.plugin(),
                bucket: self.bucket.clone(),
                key: self.whole(key),
            };
            let answer = self
                .call("DeleteObject", |mut client| async move { client.delete_object(request).await })
                .await;
            if let Err(error) = answer
                && !matches!(self.exists(key).await, Ok(false))
            {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn signed_url(&self, key: &str, ttl: Duration) -> Result<Url, StoreError> {
        let request = wire::CreateSignedUrlRequest {
            plugin: self.plugin(),
            bucket: self.bucket.clone(),
            key: self.whole(key),
            ttl: i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX),
        };
        let answer =
            self.call("CreateSignedURL", |mut client| async move { client.create_signed_url(request).await });
        let url = answer.await?.url;
        Url::parse(&url).map_err(|error| StoreError::Plugin {
            plugin: self.plugin(),
            message: format!("CreateSignedURL returned an invalid URL: {error}"),
        })
    }

    /// The plugin protocol has no request for this; plugins abort the uploads that they started themselves.
    async fn abort_uploads(&self, _prefix: &str) -> Result<u64, StoreError> {
        Ok(0)
    }
}

type Pieces = Streaming<wire::Bytes>;

async fn read_first(
    slot: &Slot,
    call: &Call,
    mut stream: Pieces,
) -> Result<(Option<Bytes>, Pieces), PluginError> {
    let first = next(slot, call, &mut stream).await?;
    Ok((first, stream))
}

/// The next piece; None at the regular end.
async fn next(slot: &Slot, call: &Call, stream: &mut Pieces) -> Result<Option<Bytes>, PluginError> {
    match moving(call, slot.timeouts().stall, stream.message()).await? {
        Ok(piece) => Ok(piece.map(|piece| piece.data.into())),
        Err(status) => Err(slot.failure(call, &status).await),
    }
}

/// The object from its first piece on. The stream ends without an error only if the plugin ended it regularly.
fn rest(slot: Arc<Slot>, call: Call, first: Option<Bytes>, stream: Pieces) -> ByteStream {
    let Some(first) = first else { return futures::stream::empty().boxed() };
    let rest = futures::stream::try_unfold((slot, call, stream), |(slot, call, mut stream)| async move {
        match next(&slot, &call, &mut stream).await {
            Ok(Some(piece)) => Ok(Some((piece, (slot, call, stream)))),
            Ok(None) => Ok(None),
            Err(error) => Err(failed(&call.plugin, &error)),
        }
    });
    futures::stream::once(async move { Ok(first) }).chain(rest).boxed()
}

fn failed(plugin: &str, error: &PluginError) -> StoreError {
    let message = match error {
        PluginError::Failed { message, .. } => message.clone(),
        other => other.to_string(),
    };
    StoreError::Plugin { plugin: plugin.to_owned(), message }
}
