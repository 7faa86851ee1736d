//! Prints every generated file as one JSON object, path to content. `cargo xtask gen` writes or compares them.
#![allow(clippy::print_stdout)]

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string(&lifeboat_cli::generate::files())?);
    Ok(())
}
