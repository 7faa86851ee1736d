//! The archive format: takes a layer and a run configuration and returns one tar that is an OCI layout and, with its
//! `manifest.json`, a docker-archive as well; containerd, podman and docker all read it. The same input gives the same
//! bytes.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::layer::{ROOT, stamp};
use crate::run::hex;

const CREATED: &str = "2024-01-01T00:00:00Z"; // layer::EPOCH
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// An image of one layer, ready to be written.
pub(super) struct Image<'a> {
    pub(super) reference: &'a str,
    pub(super) architecture: &'a str,
    /// The `config` object of the OCI image configuration: User, Entrypoint, Env, Labels.
    pub(super) config: Value,
    pub(super) layer: Layer,
}

/// A layer's tar with its digests and size for manifests.
pub(super) struct Layer {
    media_type: &'static str,
    /// Digest of the uncompressed tar.
    diff_id: String,
    blob: Blob,
}

struct Blob {
    digest: String,
    size: u64,
    content: Content,
}

enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl Layer {
    /// For published images: smaller, slightly slower to import. The header contains neither time nor file name.
    pub(super) fn gzip(tar: &[u8]) -> Result<Self> {
        let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6));
        gzip.write_all(tar).context("cannot compress the layer")?;
        let blob = Blob::bytes(gzip.finish().context("cannot compress the layer")?);
        let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
        Ok(Layer { media_type, diff_id: digest(&mut Cursor::new(tar))?.0, blob })
    }

    /// For test images, which never leave the machine: nothing to decompress on import.
    pub(super) fn plain(tar: &Path) -> Result<Self> {
        let mut file = File::open(tar).with_context(|| format!("cannot open {}", tar.display()))?;
        let (digest, size) = digest(&mut file)?;
        let blob = Blob { digest: digest.clone(), size, content: Content::File(tar.to_owned()) };
        Ok(Layer { media_type: "application/vnd.oci.image.layer.v1.tar", diff_id: digest, blob })
    }
}

impl Blob {
    fn bytes(content: Vec<u8>) -> Self {
        let digest = format!("sha256:{}", hex(&Sha256::digest(&content)));
        Blob { digest, size: content.len() as u64, content: Content::Bytes(content) }
    }

    fn json(value: &Value) -> Self {
        Self::bytes(value.to_string().into_bytes())
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest, "size": self.size })
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// Writes the archive; it gets its name only when it is complete.
pub(super) fn write(image: Image<'_>, archive: &Path) -> Result<()> {
    let partial = archive.with_extension("partial");
    let file = File::create(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    write_to(image, file).with_context(|| format!("cannot write {}", partial.display()))?;
    std::fs::rename(&partial, archive).with_context(|| format!("cannot name {}", archive.display()))
}

fn write_to<W: Write>(image: Image<'_>, output: W) -> Result<W> {
    let mut tar = tar::Builder::new(output);
    for directory in ["blobs/", "blobs/sha256/"] {
        let mut header = tar::Header::new_ustar();
        stamp(&mut header, tar::EntryType::Directory, 0o755, ROOT, 0);
        tar.append_data(&mut header, directory, std::io::empty())?;
    }
    for (path, blob) in files(image) {
        let mut header = tar::Header::new_ustar();
        stamp(&mut header, tar::EntryType::Regular, 0o644, ROOT, blob.size);
        match blob.content {
            Content::Bytes(bytes) => tar.append_data(&mut header, path, bytes.as_slice())?,
            Content::File(file) => tar.append_data(&mut header, path, File::open(file)?)?,
        }
    }
    Ok(tar.into_inner()?)
}

/// All files of the archive by path, which is also their order.
fn files(image: Image<'_>) -> BTreeMap<String, Blob> {
    let layer = image.layer;
    let config = Blob::json(&json!({
        "architecture": image.architecture,
        "os": "linux",
        "created": CREATED,
        "config": image.config,
        "rootfs": { "type": "layers", "diff_ids": [layer.diff_id] },
        "history": [{ "created": CREATED, "created_by": "cargo xtask image" }],
    }));
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": [layer.blob.descriptor(layer.media_type)],
    }));
    let mut descriptor = manifest.descriptor(MANIFEST);
    descriptor["platform"] = json!({ "architecture": image.architecture, "os": "linux" });
    descriptor["annotations"] = json!({
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference,
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    });
    let docker = json!([{
        "Config": config.path(),
        "RepoTags": [image.reference],
        "Layers": [layer.blob.path()],
    }]);
    let mut files: BTreeMap<_, _> =
        [layer.blob, config, manifest].into_iter().map(|blob| (blob.path(), blob)).collect();
    files.insert("index.json".to_owned(), Blob::json(&index));
    files.insert("manifest.json".to_owned(), Blob::json(&docker));
    files.insert("oci-layout".to_owned(), Blob::json(&json!({ "imageLayoutVersion": "1.0.0" })));
    files
}

/// `sha256:…` and the number of bytes; rewinds the reader.
fn digest(reader: &mut (impl Read + Seek)) -> Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let read = reader.read(&mut buffer).context("cannot read the layer")?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        size += read as u64;
    }
    reader.rewind().context("cannot read the layer")?;
    Ok((format!("sha256:{}", hex(&hash.finalize())), size))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::image::layer::Tree;

    fn tree() -> Vec<u8> {
        let mut tree = Tree::default();
        tree.file("etc/motd", 0o644, b"hello".to_vec());
        tree.to_tar().unwrap()
    }

    fn archive(layer: Layer) -> Vec<u8> {
        let config = json!({ "User": "65532:65532", "Entrypoint": ["/x"] });
        let image = Image { reference: "localhost/test:1", architecture: "amd64", config, layer };
        write_to(image, Vec::new()).unwrap()
    }

    fn contents(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut contents = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            contents.insert(entry.path().unwrap().display().to_string(), bytes);
        }
        contents
    }

    fn parsed(contents: &BTreeMap<String, Vec<u8>>, path: &str) -> Value {
        serde_json::from_slice(&contents[path]).unwrap()
    }

    /// The blob that a descriptor points to, verified against the descriptor.
    fn follow(contents: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap();
        let blob = &contents[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(digest, format!("sha256:{}", hex(&Sha256::digest(blob))));
        assert_eq!(descriptor["size"], blob.len());
        blob.clone()
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        let make = || archive(Layer::gzip(&tree()).unwrap());
        assert_eq!(make(), make());
    }

    #[test]
    fn every_descriptor_names_the_blob_it_describes() {
        let contents = contents(&archive(Layer::gzip(&tree()).unwrap()));
        let index = parsed(&contents, "index.json");
        let entry = &index["manifests"][0];
        assert_eq!(entry["annotations"]["io.containerd.image.name"], "localhost/test:1");
        let manifest: Value = serde_json::from_slice(&follow(&contents, entry)).unwrap();
        let config: Value = serde_json::from_slice(&follow(&contents, &manifest["config"])).unwrap();
        let layer = follow(&contents, &manifest["layers"][0]);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(layer.as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, tree());
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex(&Sha256::digest(&unpacked))));
    }

    #[test]
    fn docker_finds_config_and_layer_by_path() {
        let contents = contents(&archive(Layer::gzip(&tree()).unwrap()));
        let docker = parsed(&contents, "manifest.json");
        assert_eq!(docker[0]["RepoTags"][0], "localhost/test:1");
        assert!(contents.contains_key(docker[0]["Config"].as_str().unwrap()));
        assert!(contents.contains_key(docker[0]["Layers"][0].as_str().unwrap()));
    }

    #[test]
    fn a_layer_from_a_file_is_stored_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("layer.tar");
        std::fs::write(&path, tree()).unwrap();
        let contents = contents(&archive(Layer::plain(&path).unwrap()));
        let index = parsed(&contents, "index.json");
        let manifest: Value = serde_json::from_slice(&follow(&contents, &index["manifests"][0])).unwrap();
        assert_eq!(follow(&contents, &manifest["layers"][0]), tree());
    }
}
