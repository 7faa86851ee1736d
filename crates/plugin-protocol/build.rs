//! Compiles the protocol files without protoc, so that contributors need not install it.

use std::error::Error;
use std::path::Path;

const FILES: [&str; 12] = [
    "shared.proto",
    "plugin_lister.proto",
    "object_store.proto",
    "volume_snapshotter.proto",
    "backup_item_action.proto",
    "backup_item_action_v2.proto",
    "restore_item_action.proto",
    "restore_item_action_v2.proto",
    "delete_item_action.proto",
    "item_block_action.proto",
    "go_plugin.proto",
    "lifeboat.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let root = Path::new("proto");
    let mut files: Vec<_> = FILES.iter().map(|name| root.join(name)).collect();
    files.push(root.join("health.proto"));
    let descriptors = protox::compile(&files, [root])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
