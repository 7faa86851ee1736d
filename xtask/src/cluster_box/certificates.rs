//! The box's certificate authorities and the certificates they sign: one authority for the cluster, one for the S3
//! server. Writes `NAME.crt` and `NAME.key` into a directory that only root can read.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::layout::{ADDRESS, KUBERNETES_SERVICE, LOOPBACK, NODES};
use super::state;

pub(super) fn dir() -> PathBuf {
    super::layout::state("pki")
}

/// Client certificates: file name, user, group. A group `system:masters` may do everything.
const CLIENTS: [(&str, &str, &str); 6] = [
    ("admin", "lifeboat-box-admin", "system:masters"),
    ("kube-controller-manager", "system:kube-controller-manager", "lifeboat-box"),
    ("kube-scheduler", "system:kube-scheduler", "lifeboat-box"),
    ("kube-proxy", "system:kube-proxy", "lifeboat-box"),
    ("coredns", "lifeboat-box-dns", "system:masters"),
    ("csi", "lifeboat-box-csi", "system:masters"),
];

pub(super) fn write_all() -> Result<()> {
    let dir = dir();
    fs::create_dir_all(&dir).and_then(|()| fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)))?;
    let cluster = Authority::create(&dir, "ca", "lifeboat-box")?;
    for (name, user, group) in CLIENTS {
        cluster.client(name, user, group)?;
    }
    cluster.server(
        "kube-apiserver",
        &[
            ADDRESS,
            KUBERNETES_SERVICE,
            LOOPBACK,
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ],
    )?;
    for node in NODES {
        cluster.server(&format!("kubelet-{}", node.number), &[node.address, node.name])?;
        let name = format!("node-{}", node.number);
        cluster.client(&name, &format!("system:node:{}", node.name), "system:nodes")?;
    }
    let key = KeyPair::generate().context("cannot make a key for service accounts")?;
    state::replace(&dir.join("service-accounts.key"), key.serialize_pem().as_bytes())?;
    state::replace(&dir.join("service-accounts.pub"), key.public_key_pem().as_bytes())?;
    Authority::create(&dir, "s3-ca", "lifeboat-box-s3")?.server("s3", &[ADDRESS, LOOPBACK, "localhost"])
}

struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn create(dir: &Path, file: &str, name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).with_context(|| format!("cannot sign {name}"))?;
        write(dir, file, &certificate.pem(), &key)?;
        Ok(Self { dir: dir.to_owned(), issuer: Issuer::new(params, key) })
    }

    fn client(&self, file: &str, user: &str, group: &str) -> Result<()> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(file, params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn server(&self, file: &str, names: &[&str]) -> Result<()> {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, file);
        self.sign(file, params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn sign(
        &self,
        file: &str,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<()> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let certificate =
            params.signed_by(&key, &self.issuer).with_context(|| format!("cannot sign {file}"))?;
        write(&self.dir, file, &certificate.pem(), &key)
    }
}

fn write(dir: &Path, file: &str, certificate: &str, key: &KeyPair) -> Result<()> {
    state::replace(&dir.join(format!("{file}.crt")), certificate.as_bytes())?;
    state::replace(&dir.join(format!("{file}.key")), key.serialize_pem().as_bytes())
}
