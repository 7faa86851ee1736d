//! Certificates of the gateway: a certificate authority that all replicas share, and the certificate that a replica makes
//! for itself from it. Movers trust this authority and no other.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use secrecy::{ExposeSecret, SecretString};
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// TLS of a server with its certificate.
pub use tokio_rustls::rustls::ServerConfig as ServerTls;

/// The name in certificates of authorities.
const NAME: &str = "Lifeboat gateway";

/// How far clocks may be off.
const CLOCKS: SignedDuration = SignedDuration::from_hours(24);

/// A certificate authority.
#[derive(Clone, Debug)]
pub struct Authority {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: SecretString,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate for the gateway")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the certificate of the gateway")]
    Use(#[from] rustls::Error),
}

impl Authority {
    /// Makes an authority that is valid until `end`.
    pub fn new(now: Timestamp, end: Timestamp) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let certificate = authority(now, end)?.self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: SecretString::from(key.serialize_pem()) })
    }
}

/// TLS for a server of these names, with a new certificate of the authority that is valid until `end`.
pub fn server_config(
    by: &Authority,
    names: &[String],
    now: Timestamp,
    end: Timestamp,
) -> Result<Arc<ServerTls>, CertificateError> {
    // A signature needs the authority's name and key, not its certificate.
    let issuer = Issuer::new(authority(now, end)?, KeyPair::from_pem(by.key.expose_secret())?);
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    set_validity(&mut params, now, end);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerTls::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok(Arc::new(config))
}

fn authority(now: Timestamp, end: Timestamp) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, end);
    Ok(params)
}

/// By whole days: a certificate begins a day or two early, and ends with the day of its end.
fn set_validity(params: &mut CertificateParams, now: Timestamp, end: Timestamp) {
    let day = |time: Timestamp| {
        let date = time.to_zoned(TimeZone::UTC).date();
        // Months and days of a date are small and positive.
        let small = |number: i8| u8::try_from(number).unwrap_or(1);
        date_time_ymd(date.year().into(), small(date.month()), small(date.day()))
    };
    params.not_before = day(now.saturating_sub(CLOCKS).unwrap_or(now));
    params.not_after = day(end.saturating_add(CLOCKS).unwrap_or(end));
}
