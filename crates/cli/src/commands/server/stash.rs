//! Flags of Stash's API. It is not complete yet, so its flags are hidden and it is off by default.

use std::path::Path;
use std::time::Duration;

use lifeboat_plan::stash::databases::Family;
use lifeboat_stash::StashSettings;

use super::duration;

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
    fn the_image_of_a_family_is_read_and_another_family_is_refused() {
        let image = ("mysql".to_owned(), "registry.local/tools:1".to_owned());
        assert_eq!(tool_image("mysql=registry.local/tools:1"), Ok(image));
        for text in ["mongodb=x", "mysql=", "mysql"] {
            assert!(tool_image(text).unwrap_err().contains("mysql, mariadb, postgres"), "{text}");
        }
    }
}
