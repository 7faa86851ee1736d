//! Prints every CustomResourceDefinition of the crate as one JSON `List`, for `kubectl apply --server-side -f -`.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let list =
        serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": lifeboat_api::crds::all() });
    serde_json::to_writer(io::stdout().lock(), &list)?;
    writeln!(io::stdout())
}
