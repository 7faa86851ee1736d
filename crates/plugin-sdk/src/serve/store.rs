//! The service of object stores.

use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lifeboat_plugin_protocol::generated as wire;
use lifeboat_plugin_protocol::generated::object_store_server::ObjectStore;
use tonic::{Request, Response, Status, Streaming};

use super::common::{Answer, Service, find, run};
use crate::{Body, Error};

/// The size of one message; hosts in Go accept at most 4 MiB.
const PIECE: usize = 64 * 1024;

/// The rest of the object after the first message. A cancelled call must not be taken for the end of the object, though
/// hyper's server reports both as the end of the body: it drops a cancelled call at its next await. The call therefore
/// awaits once before the end is accepted.
fn body(first: Vec<u8>, rest: Streaming<wire::PutObjectRequest>) -> Body {
    let rest = rest
        .map_ok(|message| Bytes::from(message.body))
        .map_err(|status| Error::new(format!("the upload was cancelled: {}", status.message())));
    let believed = futures::stream::once(tokio::task::yield_now()).filter_map(|()| async { None });
    futures::stream::once(async move { Ok(Bytes::from(first)) }).chain(rest).chain(believed).boxed()
}

fn pieces(bytes: Bytes) -> impl futures::Stream<Item = Result<wire::Bytes, Status>> {
    futures::stream::unfold(bytes, |mut bytes| async move {
        if !bytes.has_remaining() {
            return None;
        }
        let piece = bytes.split_to(bytes.len().min(PIECE));
        Some((Ok(wire::Bytes { data: piece.into() }), bytes))
    })
}

#[tonic::async_trait]
impl ObjectStore for Service {
    async fn init(&self, request: Request<wire::ObjectStoreInitRequest>) -> Answer<wire::Empty> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        run(store.init(request.config.into_iter().collect())).await?;
        Ok(Response::new(wire::Empty {}))
    }

    async fn put_object(&self, request: Request<Streaming<wire::PutObjectRequest>>) -> Answer<wire::Empty> {
        let mut stream = request.into_inner();
        let first = stream.message().await?;
        let first = first.ok_or_else(|| Status::invalid_argument("an upload without a message"))?;
        let store = find(&self.plugin().stores, &first.plugin)?;
        run(store.put(&first.bucket, &first.key, body(first.body, stream))).await?;
        Ok(Response::new(wire::Empty {}))
    }

    async fn object_exists(
        &self,
        request: Request<wire::ObjectExistsRequest>,
    ) -> Answer<wire::ObjectExistsResponse> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        let exists = run(store.exists(&request.bucket, &request.key)).await?;
        Ok(Response::new(wire::ObjectExistsResponse { exists }))
    }

    type GetObjectStream = BoxStream<'static, Result<wire::Bytes, Status>>;
    async fn get_object(&self, request: Request<wire::GetObjectRequest>) -> Answer<Self::GetObjectStream> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        let body = run(store.get(&request.bucket, &request.key)).await?;
        let pieces = body.map_ok(pieces).map_err(|error| Status::unknown(error.to_string())).try_flatten();
        Ok(Response::new(pieces.boxed()))
    }

    async fn list_common_prefixes(
        &self,
        request: Request<wire::ListCommonPrefixesRequest>,
    ) -> Answer<wire::ListCommonPrefixesResponse> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        let prefixes = run(store.list_prefixes(&request.bucket, &request.prefix, &request.delimiter)).await?;
        Ok(Response::new(wire::ListCommonPrefixesResponse { prefixes }))
    }

    async fn list_objects(
        &self,
        request: Request<wire::ListObjectsRequest>,
    ) -> Answer<wire::ListObjectsResponse> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        let keys = run(store.list(&request.bucket, &request.prefix)).await?;
        Ok(Response::new(wire::ListObjectsResponse { keys }))
    }

    async fn delete_object(&self, request: Request<wire::DeleteObjectRequest>) -> Answer<wire::Empty> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        run(store.delete(&request.bucket, &request.key)).await?;
        Ok(Response::new(wire::Empty {}))
    }

    async fn create_signed_url(
        &self,
        request: Request<wire::CreateSignedUrlRequest>,
    ) -> Answer<wire::CreateSignedUrlResponse> {
        let request = request.into_inner();
        let store = find(&self.plugin().stores, &request.plugin)?;
        let ttl = Duration::from_nanos(request.ttl.max(0).unsigned_abs());
        let url = run(store.signed_url(&request.bucket, &request.key, ttl)).await?;
        Ok(Response::new(wire::CreateSignedUrlResponse { url }))
    }
}
