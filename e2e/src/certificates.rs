//! Certificates for servers of tests: an authority of its own for each, or one that has signed nothing.

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use crate::unique;

/// A server's certificate with its key, and the authority that signed it, all in PEM.
pub struct ServerCertificate {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

impl ServerCertificate {
    /// For a server with this name or address.
    pub fn of(host: &str) -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.distinguished_name = named(&unique("authority"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        // A certificate with the name of its authority counts as signed by itself.
        parameters.distinguished_name = named("server");
        let issuer = Issuer::new(authority, authority_key);
        let certificate = parameters.signed_by(&key, &issuer).unwrap();
        Self { authority: authority_pem, certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}
