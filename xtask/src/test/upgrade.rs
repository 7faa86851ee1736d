//! The part `upgrade`: takes an older build of Lifeboat, puts its image into the box beside the new one, and runs the tests that
//! replace it in the middle of its work. Runs only when named.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Part;
use super::part::Run;
use super::tally::Tally;
use crate::{cluster_box, image, tools};

/// Of the older build's image.
const TAG: &str = "upgrade-old";

impl Run {
    pub(crate) fn upgrade(&mut self) -> Result<Tally> {
        if let Some(context) = &self.args.context {
            bail!(
                "both builds run as processes of this machine beside the box: they cannot run on {context:?}"
            );
        }
        let old = self.old_binary.clone().context("--old-binary names no older build")?;
        let tests = self.on_the_cluster(&["upgrade"])?;
        let (archive, reference) = image::lifeboat_tagged(&old, TAG)?;
        cluster_box::load(&[archive])?;
        let tests = tests
            .threads(1)
            .env("LIFEBOAT_OLD_BIN", old)
            .env("LIFEBOAT_OLD_IMAGE", reference)
            .env("LIFEBOAT_RESTIC", tools::restic()?);
        let outcome = tests.run(|name| self.wants(&["upgrade"], name))?;
        self.filtered(outcome)
    }
}

/// The older build that the parts need, by its absolute path. What is missing is said before anything is compiled.
pub(super) fn old_binary(parts: &[Part], given: Option<&Path>) -> Result<Option<PathBuf>> {
    match (parts.contains(&Part::Upgrade), given) {
        (true, Some(path)) => {
            let found = path.canonicalize();
            Ok(Some(found.with_context(|| format!("cannot find the older build {}", path.display()))?))
        }
        (true, None) => bail!(
            "the part upgrade needs an older build: pass --old-binary PATH, a static program such as \
             `cargo xtask image` builds from an older commit"
        ),
        (false, Some(_)) => bail!("--old-binary is for the part upgrade: name that part, too"),
        (false, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_build_is_named_for_upgrades_and_for_nothing_else() {
        let program = std::env::current_exe().expect("this test");
        let found = old_binary(&[Part::E2e, Part::Upgrade], Some(&program)).expect("it is there");
        assert_eq!(found, program.canonicalize().ok());
        assert_eq!(old_binary(&[Part::E2e], None).expect("none is needed"), None);
        let error = |parts: &[Part], given: Option<&str>| {
            let given = given.map(Path::new);
            format!("{:#}", old_binary(parts, given).expect_err("it is refused"))
        };
        assert!(error(&[Part::Upgrade], None).contains("--old-binary PATH"));
        assert!(error(&[Part::Upgrade], Some("/nonexistent/lifeboat")).contains("/nonexistent/lifeboat"));
        assert!(error(&[Part::Unit], Some("lifeboat")).contains("name that part"));
    }
}
