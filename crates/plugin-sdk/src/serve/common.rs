//! Code that all services share: finding the requested plugin, parsing objects, and converting errors and panics to
//! answers. Also the services that every go-plugin program has.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::StreamExt;
use futures::stream::BoxStream;
use lifeboat_plugin_protocol::generated::plugin_lister_server::PluginLister;
use lifeboat_plugin_protocol::generated::{self, ListPluginsResponse, ResourceIdentifier, ResourceSelector};
use lifeboat_plugin_protocol::handshake::HEALTH_SERVICE;
use lifeboat_plugin_protocol::health::health_check_response::ServingStatus;
use lifeboat_plugin_protocol::health::health_server::Health;
use lifeboat_plugin_protocol::health::{HealthCheckRequest, HealthCheckResponse};
use lifeboat_plugin_protocol::plugin::grpc_broker_server::GrpcBroker;
use lifeboat_plugin_protocol::plugin::grpc_controller_server::GrpcController;
use lifeboat_plugin_protocol::plugin::grpc_stdio_server::GrpcStdio;
use lifeboat_plugin_protocol::plugin::{ConnInfo, Empty, StdioData};
use tonic::{Request, Response, Status, Streaming};

use super::Shared;
use crate::plugin::Named;
use crate::{Error, Object, Plugin, ResourceId, Selector};

/// One answer to the host.
pub(super) type Answer<T> = Result<Response<T>, Status>;

/// Implements every service; cheap to clone.
pub(super) struct Service(pub(super) Arc<Shared>);

impl Service {
    pub(super) fn plugin(&self) -> &Plugin {
        &self.0.plugin
    }
}

pub(super) fn find<T: ?Sized>(plugins: &Named<T>, name: &str) -> Result<Arc<T>, Status> {
    plugins
        .get(name)
        .cloned()
        .ok_or_else(|| Status::not_found(format!("this program has no such plugin: '{name}'")))
}

/// Runs a method of a plugin. A panic fails only this call.
pub(super) async fn run<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Status> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Status::unknown(error.to_string())),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Status::aborted(format!("plugin panicked: {text}")))
        }
    }
}

/// Parses an object from the wire.
pub(super) fn object(bytes: &[u8]) -> Result<Object, Status> {
    serde_json::from_slice(bytes)
        .map(Object)
        .map_err(|error| Status::invalid_argument(format!("an object is not valid JSON: {error}")))
}

pub(super) fn json(object: &Object) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(&object.0)
        .map_err(|error| Status::internal(format!("cannot write an object: {error}")))
}

pub(super) fn identifiers(items: Vec<ResourceId>) -> Vec<ResourceIdentifier> {
    items.into_iter().map(Into::into).collect()
}

#[allow(clippy::unnecessary_wraps)] // the field of the answer is optional
pub(super) fn selector(selector: Selector) -> Option<ResourceSelector> {
    Some(ResourceSelector {
        included_namespaces: selector.included_namespaces,
        excluded_namespaces: selector.excluded_namespaces,
        included_resources: selector.included_resources,
        excluded_resources: selector.excluded_resources,
        selector: selector.labels,
    })
}

#[tonic::async_trait]
impl PluginLister for Service {
    async fn list_plugins(&self, _: Request<generated::Empty>) -> Answer<ListPluginsResponse> {
        Ok(Response::new(ListPluginsResponse { plugins: self.plugin().listed() }))
    }
}

#[tonic::async_trait]
impl Health for Service {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Answer<HealthCheckResponse> {
        match request.get_ref().service.as_str() {
            "" | HEALTH_SERVICE => {
                Ok(Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
            }
            other => Err(Status::not_found(format!("no service '{other}'"))),
        }
    }
}

#[tonic::async_trait]
impl GrpcController for Service {
    async fn shutdown(&self, _: Request<Empty>) -> Answer<Empty> {
        self.0.enough.notify_one();
        Ok(Response::new(Empty {}))
    }
}

/// Standard output and error are not redirected: the host reads them from the pipes.
#[tonic::async_trait]
impl GrpcStdio for Service {
    type StreamStdioStream = BoxStream<'static, Result<StdioData, Status>>;
    async fn stream_stdio(&self, _: Request<()>) -> Answer<Self::StreamStdioStream> {
        Ok(Response::new(futures::stream::pending().boxed()))
    }
}

/// Plugins of this SDK offer no further connections.
#[tonic::async_trait]
impl GrpcBroker for Service {
    type StartStreamStream = BoxStream<'static, Result<ConnInfo, Status>>;
    async fn start_stream(&self, _: Request<Streaming<ConnInfo>>) -> Answer<Self::StartStreamStream> {
        Ok(Response::new(futures::stream::pending().boxed()))
    }
}
