//! Makes a container image from one static program, as an archive for `ctr images import` (docker-archive: one layer, a
//! config with its digest, a manifest).
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::layout::PAUSE_IMAGE;
use crate::run::{architecture, hex};

/// Packs the pause program; it is the image's only file.
pub(super) fn pause_image(program: &Path, archive: &Path) -> Result<()> {
    let program = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let layer = tar([("pause", program.as_slice(), 0o755)])?;
    let config = serde_json::to_vec(&json!({
        "architecture": architecture()?,
        "os": "linux",
        "config": { "Entrypoint": ["/pause"], "User": "65535:65535" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))] },
    }))?;
    let name = format!("{}.json", digest(&config));
    let manifest = serde_json::to_vec(
        &json!([{ "Config": name, "RepoTags": [format!("docker.io/{PAUSE_IMAGE}")], "Layers": ["layer.tar"] }]),
    )?;
    let content = tar([
        (name.as_str(), config.as_slice(), 0o644),
        ("layer.tar", layer.as_slice(), 0o644),
        ("manifest.json", manifest.as_slice(), 0o644),
    ])?;
    File::create(archive)
        .and_then(|mut file| file.write_all(&content))
        .with_context(|| format!("cannot write {}", archive.display()))
}

fn tar<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8], u32)>) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content, mode) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        builder.append_data(&mut header, name, content)?;
    }
    Ok(builder.into_inner()?)
}

fn digest(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}
