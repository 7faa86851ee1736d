//! Writes valid inputs of each fuzz target to `fuzz/corpus/TARGET/`, as seeds for the fuzzer.

use std::path::Path;

use lifeboat_repository::testing::parse::TARGETS;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for target in &TARGETS {
        let directory = corpus.join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
