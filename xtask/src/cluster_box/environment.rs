//! The environment that other programs need to use the box: `env` prints it, demo and tests use it as a map.
use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::certificates;
use super::layout::{self, ACCESS_KEY, ADDRESS, REGION, S3, S3_TLS};
use super::state::State;

pub(super) fn environment() -> Result<BTreeMap<String, String>> {
    let state =
        State::load()?.context("there is no box on this machine; start it with `cargo xtask box up`")?;
    let programs = state.programs.get("kube").map(|dir| dir.join("path")).unwrap_or_default();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut all: BTreeMap<String, String> = [
        ("KUBECONFIG", layout::kubeconfig().display().to_string()),
        ("PATH", format!("{}:{path}", programs.display())),
        ("LIFEBOAT_S3_ENDPOINT", format!("http://{ADDRESS}:{}", S3.number)),
        ("LIFEBOAT_S3_TLS_ENDPOINT", format!("https://{ADDRESS}:{}", S3_TLS.number)),
        ("LIFEBOAT_S3_CA", certificates::dir().join("s3-ca.crt").display().to_string()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", state.s3_secret_key.clone()),
        ("AWS_REGION", REGION.to_owned()),
        ("LIFEBOAT_BOX_STATE", layout::STATE.to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    if layout::bare_kubeconfig().exists() {
        all.insert("LIFEBOAT_BARE_KUBECONFIG".into(), layout::bare_kubeconfig().display().to_string());
    }
    Ok(all)
}

/// Lines for `eval "$(cargo xtask box env)"`.
pub(super) fn export_lines(environment: &BTreeMap<String, String>) -> String {
    let line =
        |(name, value): (&String, &String)| format!("export {name}='{}'", value.replace('\'', r"'\''"));
    environment.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_the_shell() {
        let one = BTreeMap::from([("A".to_owned(), "it's $HOME".to_owned())]);
        assert_eq!(export_lines(&one), "export A='it'\\''s $HOME'");
    }
}
