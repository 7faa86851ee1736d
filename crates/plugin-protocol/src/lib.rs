//! Messages and services of the plugin protocol, generated from the files in `proto/`, where every field is documented.
//! Packages and field numbers are those of Velero's plugins and HashiCorp's go-plugin; the comments are ours. The host
//! (crate `plugin`) uses the clients, the SDK (crate `plugin-sdk`) the servers.
//!
//! [`lifeboat`] is our extension of Velero's protocol. A plugin that does not implement it answers "unimplemented" and
//! is treated as a stock plugin.

/// Constants of the handshake.
pub mod handshake {
    /// The environment variable by which a program knows that a host started it as a plugin.
    pub const COOKIE_NAME: &str = "VELERO_PLUGIN";
    pub const COOKIE_VALUE: &str = "hello";
    /// go-plugin's own protocol.
    pub const CORE_VERSION: &str = "1";
    /// Velero's protocol on top of it.
    pub const PROTOCOL_VERSION: &str = "2";
    /// The service that go-plugin's health check asks for.
    pub const HEALTH_SERVICE: &str = "plugin";
    /// The environment variable with the protocol versions that the host supports.
    pub const VERSIONS_NAME: &str = "PLUGIN_PROTOCOL_VERSIONS";
}

/// The kinds of plugins, as a plugin lists them.
pub mod kinds {
    pub const OBJECT_STORE: &str = "ObjectStore";
    pub const VOLUME_SNAPSHOTTER: &str = "VolumeSnapshotter";
    pub const BACKUP_ITEM_ACTION: &str = "BackupItemAction";
    pub const BACKUP_ITEM_ACTION_V2: &str = "BackupItemActionV2";
    pub const RESTORE_ITEM_ACTION: &str = "RestoreItemAction";
    pub const RESTORE_ITEM_ACTION_V2: &str = "RestoreItemActionV2";
    pub const DELETE_ITEM_ACTION: &str = "DeleteItemAction";
    pub const ITEM_BLOCK_ACTION: &str = "ItemBlockAction";
}

macro_rules! package {
    ($(#[$doc:meta])* $module:ident, $package:literal) => {
        $(#[$doc])*
        #[allow(clippy::all, clippy::pedantic, unreachable_pub, rust_2018_idioms)]
        pub mod $module {
            tonic::include_proto!($package);
        }
    };
}

package!(
    /// Velero's package `generated`: everything of version 1 except item blocks.
    generated, "generated");
package!(
    /// Velero's package `v1`: item blocks.
    v1, "v1");
package!(
    /// Velero's package `v2`: actions with operations and the wait for additional items.
    v2, "v2");
package!(
    /// go-plugin's package `plugin`.
    plugin, "plugin");
package!(
    /// gRPC's own health check.
    health, "grpc.health.v1");
package!(
    /// Our extension of Velero's protocol.
    lifeboat, "lifeboat.plugin.v1");
