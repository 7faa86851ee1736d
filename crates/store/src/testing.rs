//! For tests of this crate and of crates that use it: the conformance suite that every backend and every layer
//! passes, and the layer that injects faults.

mod checks;

use bytes::Bytes;
use object_store::ClientOptions;
use object_store::client::{HttpConnector, HttpRequestBody};
use url::Url;

use crate::http::Connector;
use crate::store::Store;

pub use crate::layers::fault::{Fault, Faults, Rule};

/// Which optional features a backend has.
#[derive(Debug, Clone, Default)]
pub struct Abilities {
    /// It makes signed URLs.
    pub signs: bool,
    /// The certificate authority to trust when such a URL is fetched.
    pub ca_pem: Option<Vec<u8>>,
    /// A prefix disappears with its last object. Servers that keep directories (SeaweedFS) list it a while longer, so
    /// callers must not conclude anything from a prefix alone.
    pub no_empty_prefixes: bool,
}

impl Abilities {
    pub fn local() -> Self {
        Self { no_empty_prefixes: true, ..Self::default() }
    }
}

/// Checks every guarantee that Lifeboat relies on. `store` must be empty, and is empty afterwards. Panics with the
/// reason.
#[allow(clippy::missing_panics_doc)]
pub async fn conformance(store: &Store, abilities: Abilities) {
    checks::writes(store).await;
    checks::create_only(store).await;
    checks::ranges(store).await;
    checks::missing_objects(store).await;
    checks::deletes(store, abilities.no_empty_prefixes).await;
    checks::similar_prefixes(store).await;
    checks::special_characters(store).await;
    checks::many_keys(store).await;
    checks::streams(store).await;
    checks::refused_keys(store).await;
    checks::prefixes_nest(store).await;
    if abilities.signs {
        checks::signed_urls(store, abilities.ca_pem.as_deref()).await;
    }
    assert_eq!(checks::keys(store, "").await, Vec::<String>::new(), "the suite leaves nothing behind");
    assert_eq!(store.abort_uploads("").await.expect("uploads are listed"), 0, "no upload stays open");
}

/// Fetches a signed URL as a browser would.
pub async fn fetch(
    url: &Url,
    ca_pem: Option<&[u8]>,
) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let options = ClientOptions::new().with_allow_http(true);
    let roots = reqwest::Certificate::from_pem_bundle(ca_pem.unwrap_or_default())?;
    let connector = Connector { roots, ..Connector::default() };
    let request = http::Request::get(url.as_str()).body(HttpRequestBody::empty())?;
    let response = connector.connect(&options)?.execute(request).await?;
    Ok(response.into_body().bytes().await?)
}
