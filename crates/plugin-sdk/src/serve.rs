//! The plugin's side of the protocol: checks that a host started the program, listens on a socket, prints its address,
//! and serves until the host asks it to end.

mod actions;
mod common;
mod lifeboat;
mod store;
mod volumes;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lifeboat_plugin_protocol::generated as one;
use lifeboat_plugin_protocol::handshake::{
    COOKIE_NAME, COOKIE_VALUE, CORE_VERSION, PROTOCOL_VERSION, VERSIONS_NAME,
};
use lifeboat_plugin_protocol::lifeboat::capabilities_server::CapabilitiesServer;
use lifeboat_plugin_protocol::lifeboat::progress_server::ProgressServer;
use lifeboat_plugin_protocol::plugin::grpc_broker_server::GrpcBrokerServer;
use lifeboat_plugin_protocol::plugin::grpc_controller_server::GrpcControllerServer;
use lifeboat_plugin_protocol::plugin::grpc_stdio_server::GrpcStdioServer;
use lifeboat_plugin_protocol::{health, v1, v2};
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tonic::transport::Server;

use crate::Plugin;
use crate::error::{ServeError, Served};
use crate::{install, logging};

/// The maximum size of a message from a host: an item, the item of the backup, and the Restore.
const LARGEST: usize = 64 * 1024 * 1024;
/// How long answers may be sent after the host asked the program to end.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

impl Plugin {
    /// Serves until the host asks the program to end. Call it as the last line of `main`; it creates its own tokio
    /// runtime.
    ///
    /// Called as `PROGRAM install [DIRECTORY]` it copies itself into the directory (`/target`) instead: an image that
    /// contains only the program, with `ENTRYPOINT ["/program", "install"]`, is a plugin image.
    pub fn serve(self) -> Served {
        self.check_all()?;
        if let Some(directory) = install::asked_for(std::env::args_os().skip(1))? {
            return install::install(&directory);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| ServeError::Serve(error.to_string()))?;
        let served = runtime.block_on(self.serve_here());
        // Calls that are still running must not keep the program alive.
        runtime.shutdown_background();
        served
    }

    /// Like [`Self::serve`], for programs that already have a runtime.
    pub async fn serve_here(self) -> Served {
        self.check_all()?;
        check_host()?;
        logging::begin();
        run(self).await
    }
}

/// Checks that a host with a supported protocol started this program.
fn check_host() -> Served {
    if std::env::var(COOKIE_NAME).ok().as_deref() != Some(COOKIE_VALUE) {
        return Err(ServeError::NotStartedByAHost);
    }
    let versions = std::env::var(VERSIONS_NAME).unwrap_or_default();
    if !versions.is_empty() && !versions.split(',').any(|version| version.trim() == PROTOCOL_VERSION) {
        return Err(ServeError::Protocol(versions));
    }
    Ok(())
}

/// The state that all services share.
pub(crate) struct Shared {
    plugin: Plugin,
    enough: Notify,
}

async fn run(plugin: Plugin) -> Served {
    let path = socket();
    let listener = UnixListener::bind(&path)
        .map_err(|error| ServeError::Listen { path: path.display().to_string(), error })?;
    let _remove = Remove(path.clone());
    greet(&path).map_err(|error| ServeError::Serve(format!("cannot print the handshake: {error}")))?;
    let shared = Arc::new(Shared { plugin, enough: Notify::new() });
    let incoming = futures::stream::unfold(listener, |listener| async move {
        let connection = listener.accept().await.map(|(stream, _)| stream);
        Some((connection, listener))
    });
    let service = || common::Service(Arc::clone(&shared));
    macro_rules! large {
        ($server:path) => {
            <$server>::new(service()).max_decoding_message_size(LARGEST)
        };
    }
    let serving = Server::builder()
        .initial_stream_window_size(1024 * 1024)
        .add_service(health::health_server::HealthServer::new(service()))
        .add_service(GrpcBrokerServer::new(service()))
        .add_service(GrpcControllerServer::new(service()))
        .add_service(GrpcStdioServer::new(service()))
        .add_service(one::plugin_lister_server::PluginListerServer::new(service()))
        .add_service(CapabilitiesServer::new(service()))
        .add_service(ProgressServer::new(service()))
        .add_service(large!(v2::backup_item_action_server::BackupItemActionServer<_>))
        .add_service(large!(v2::restore_item_action_server::RestoreItemActionServer<_>))
        .add_service(large!(one::delete_item_action_server::DeleteItemActionServer<_>))
        .add_service(large!(v1::item_block_action_server::ItemBlockActionServer<_>))
        .add_service(large!(one::object_store_server::ObjectStoreServer<_>))
        .add_service(large!(one::volume_snapshotter_server::VolumeSnapshotterServer<_>))
        .serve_with_incoming(incoming);
    let enough = async {
        shared.enough.notified().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        served = serving => served.map_err(|error| ServeError::Serve(error.to_string())),
        () = enough => Ok(()),
    }
}

/// A unique path for the socket, from the process ID and the time.
fn socket() -> PathBuf {
    let directory = std::env::var_os("PLUGIN_UNIX_SOCKET_DIR").filter(|path| !path.is_empty());
    let directory = directory.map_or_else(std::env::temp_dir, PathBuf::from);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    directory.join(format!("plugin{}-{now}", std::process::id()))
}

/// Prints the handshake line that the host waits for.
fn greet(path: &Path) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{CORE_VERSION}|{PROTOCOL_VERSION}|unix|{}|grpc|", path.display())?;
    out.flush()
}

struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
