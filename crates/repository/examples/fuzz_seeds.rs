//! Writes inputs that each fuzz target understands into `fuzz/corpus/TARGET/`, for the fuzzer to start from.

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
