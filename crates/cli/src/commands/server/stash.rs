//! Flags of Stash's API. It is not complete yet, so its flags are hidden and it is off by default.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lifeboat_operator::GatewaySettings;
use lifeboat_plan::stash::databases::Family;
use lifeboat_stash::StashSettings;
use url::Url;

use super::{address, duration};

#[derive(clap::Args)]
pub(super) struct StashArgs {
    /// Serve the kinds of Stash's API that have controllers; apply them with `lifeboat crds --all`
    #[arg(long, hide = true)]
    experimental_stash: bool,
    /// Namespaces whose Stash objects are served [default: all]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', hide = true)]
    tenant_namespaces: Vec<String>,
    /// Name of this server: it serves namespaces with the label lifeboat.io/served-by of this value, and no others
    #[arg(long, value_name = "NAME", hide = true)]
    served_by: Option<String>,
    /// Image with the tools of a family of databases (mysql, mariadb, postgres) in place of the official one; may be repeated
    #[arg(long, value_name = "FAMILY=IMAGE", value_parser = tool_image, hide = true)]
    tool_image: Vec<(String, String)>,
    /// How long a restore without timeOut waits for what is missing
    #[arg(long, value_name = "DURATION", default_value = "24h0m0s", value_parser = duration, hide = true)]
    restore_wait: Duration,
    /// Address on which repositories are served to movers in other namespaces than their Secrets
    #[arg(long, default_value = ":8087", value_parser = address, overrides_with = "gateway_address", hide = true)]
    gateway_address: SocketAddr,
    /// URL under which movers reach that address [default: the installation's Service]
    #[arg(long, value_name = "URL", value_parser = gateway_url, overrides_with = "gateway_url", hide = true)]
    gateway_url: Option<Url>,
}

/// Parses the URL of the gateway.
fn gateway_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{text:?} is not a URL: {error}"))?;
    if url.scheme() == "https" && url.host_str().is_some() && url.query().is_none() {
        return Ok(url);
    }
    Err(format!("{text:?} is not a URL of the gateway; write it like https://lifeboat.example:8087"))
}

fn tool_image(text: &str) -> Result<(String, String), String> {
    let families = Family::ALL.map(Family::as_str);
    match text.split_once('=') {
        Some((family, image)) if families.contains(&family) && !image.is_empty() => {
            Ok((family.to_owned(), image.to_owned()))
        }
        _ => Err(format!("expected FAMILY=IMAGE with a family of {}", families.join(", "))),
    }
}

impl StashArgs {
    pub(super) fn gateway(&self, spool: &Path) -> GatewaySettings {
        GatewaySettings {
            address: self.gateway_address,
            url: self.gateway_url.clone(),
            temporary: spool.to_owned(),
        }
    }

    /// None where Stash's API is not served.
    pub(super) fn settings(self, spool: &Path) -> Option<StashSettings> {
        self.experimental_stash.then(|| StashSettings {
            tenant_namespaces: self.tenant_namespaces,
            served_by: self.served_by,
            tool_images: self.tool_image.into_iter().collect(),
            restore_wait: self.restore_wait,
            temporary: spool.to_owned(),
            ..StashSettings::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_reached_by_https_only() {
        assert_eq!(gateway_url("https://10.0.0.1:8087").unwrap().as_str(), "https://10.0.0.1:8087/");
        for text in ["http://gateway:8087", "gateway:8087", "https://", "https://gateway/?a=b"] {
            assert!(gateway_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_image_of_a_family_is_read_and_another_family_is_refused() {
        let image = ("mysql".to_owned(), "registry.local/tools:1".to_owned());
        assert_eq!(tool_image("mysql=registry.local/tools:1"), Ok(image));
        for text in ["mongodb=x", "mysql=", "mysql"] {
            assert!(tool_image(text).unwrap_err().contains("mysql, mariadb, postgres"), "{text}");
        }
    }
}
