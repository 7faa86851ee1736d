//! Flags of Stash's API.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lifeboat_operator::GatewaySettings;
use lifeboat_plan::install::STASH_BY_DEFAULT;
use lifeboat_plan::stash::databases::Family;
use lifeboat_stash::StashSettings;
use url::Url;

use super::{address, duration};
use crate::args::namespace_name;

#[derive(clap::Args)]
pub(super) struct StashArgs {
    /// Serve the kinds of Stash's API: back up and restore single workloads and databases
    #[arg(long, alias = "experimental-stash", default_value_t = STASH_BY_DEFAULT, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = clap::ArgAction::Set, overrides_with = "stash")]
    stash: bool,
    /// Namespaces whose objects of Stash's API are served [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = namespace_name, overrides_with = "tenant_namespaces")]
    tenant_namespaces: Vec<String>,
    /// Name of this server for Stash's API: it serves the namespaces whose label lifeboat.io/served-by has this value [default:
    /// those without the label]
    #[arg(long, value_name = "NAME", value_parser = served_by)]
    served_by: Option<String>,
    /// Image with the tools of a family of databases (mysql, mariadb, postgres) in place of the official one; can be repeated
    #[arg(long, value_name = "FAMILY=IMAGE", value_parser = tool_image)]
    tool_image: Vec<(String, String)>,
    /// Serve Restics, whose kind `lifeboat crds --all` has
    #[arg(long, hide = true)]
    experimental_restics: bool,
    /// How long a restore of Stash's API waits for what is missing, unless it has a timeOut
    #[arg(long, value_name = "DURATION", default_value = "24h0m0s", value_parser = duration)]
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

/// The value of a label, which a namespace can have.
fn served_by(text: &str) -> Result<String, String> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if text.len() <= 63
        && text.chars().all(is_inside)
        && is_end(text.chars().next())
        && is_end(text.chars().last())
    {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} cannot be the value of a label; use up to 63 letters, digits, '-', '_' and '.', such as test-1"
        ))
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
        self.stash.then(|| StashSettings {
            tenant_namespaces: self.tenant_namespaces,
            served_by: self.served_by,
            restics: self.experimental_restics,
            tool_images: self.tool_image.into_iter().collect(),
            restore_wait: self.restore_wait,
            temporary: spool.to_owned(),
            ..StashSettings::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: StashArgs,
    }

    fn settings(line: &str) -> Option<StashSettings> {
        let words = std::iter::once("server").chain(line.split(' ').filter(|word| !word.is_empty()));
        let parsed = Line::try_parse_from(words).map_err(|error| error.to_string()).unwrap();
        parsed.args.settings(Path::new("/spool"))
    }

    #[rstest]
    #[case::unless_told("", STASH_BY_DEFAULT)]
    #[case::on("--stash", true)]
    #[case::on_in_full("--stash=true", true)]
    #[case::off("--stash=false", false)]
    #[case::its_old_name("--experimental-stash", true)]
    #[case::added_at_install("--stash=false --experimental-stash", true)]
    #[case::taken_away_at_install("--stash=true --stash=false", false)]
    fn the_api_is_served_where_the_last_word_says_so(#[case] line: &str, #[case] is_served: bool) {
        assert_eq!(settings(line).is_some(), is_served);
    }

    #[test]
    fn namespaces_that_were_given_at_install_give_way_to_those_that_were_added() {
        let settings =
            settings("--stash --tenant-namespaces=a,b --tenant-namespaces=c --served-by test-1").unwrap();
        assert_eq!(settings.tenant_namespaces, ["c"]);
        assert_eq!(settings.served_by.as_deref(), Some("test-1"));
    }

    #[test]
    fn restics_are_served_on_request_only() {
        assert!(!settings("--stash").unwrap().restics);
        assert!(settings("--stash --experimental-restics").unwrap().restics);
    }

    #[rstest]
    #[case("test-1", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a b", false)]
    fn the_name_of_a_server_can_be_a_label(#[case] name: &str, #[case] is_valid: bool) {
        assert_eq!(served_by(name).is_ok(), is_valid);
    }

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
