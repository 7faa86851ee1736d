//! `cargo xtask demo`: a cluster, Lifeboat on it, a storage location, a sample app, and a page that says what runs.
//! Each act is a function; backup, disaster and restore will follow the sample app.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::target::{Cluster, Target, TargetArgs};
use crate::{cluster_box, run};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Remove what the demo made: the whole box, or from a named cluster the app and Lifeboat
    #[arg(long)]
    down: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.down {
        return down(args);
    }
    let start = Instant::now();
    act("1/4", "a cluster with Lifeboat's image");
    let target = Target::prepare(&args.target)?;
    act("2/4", "Lifeboat, with a storage location on S3");
    install(&target)?;
    act("3/4", "a sample app: a ledger with volumes, a storefront");
    sample_app(&target)?;
    act("4/4", "what runs now");
    closing_page(&target.cluster, start)
}

fn act(number: &str, title: &str) {
    println!("\n== {number}  {title}");
}

/// Installs as a user would, with the command of the docs.
fn install(target: &Target) -> Result<()> {
    let cluster = &target.cluster;
    let credentials = credentials_file(&cluster.environment)?;
    let endpoint = &cluster.environment["LIFEBOAT_S3_ENDPOINT"];
    let region = &cluster.environment["AWS_REGION"];
    run::run(
        cluster
            .lifeboat()
            .args(["install", "--image", &target.image])
            .args(["--provider", "aws", "--bucket", "lifeboat", "--prefix", "demo", "--secret-file"])
            .arg(credentials.path())
            .args([
                "--backup-location-config",
                &format!("region={region},s3Url={endpoint},s3ForcePathStyle=true"),
            ]),
    )
}

/// Credentials go through a file, never through arguments: a new one that only this user reads, gone when dropped.
fn credentials_file(environment: &BTreeMap<String, String>) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::with_prefix("lifeboat-demo-").context("cannot create a temporary file")?;
    write!(
        file,
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
    )
    .with_context(|| format!("cannot write {}", file.path().display()))?;
    Ok(file)
}

fn sample_app(target: &Target) -> Result<()> {
    let cluster = &target.cluster;
    let manifests = run::output(cluster.kubectl().args(["kustomize", "examples/demo-app"]))?;
    let manifests = manifests.replace(crate::image::DEBIAN, &target.test_image);
    print!("{}", run::with_input(cluster.kubectl().args(["apply", "-f", "-"]), &manifests)?);
    for workload in ["statefulset/ledger", "deployment/storefront"] {
        run::run(cluster.kubectl().args([
            "-n",
            "demo-app",
            "rollout",
            "status",
            workload,
            "--timeout=180s",
        ]))?;
    }
    Ok(())
}

fn closing_page(cluster: &Cluster, start: Instant) -> Result<()> {
    run::run(cluster.lifeboat().arg("version"))?;
    println!();
    run::run(cluster.lifeboat().args(["backup-location", "get"]))?;
    println!();
    run::run(cluster.kubectl().args(["get", "pods", "-n", "lifeboat", "-o", "wide"]))?;
    println!();
    run::run(cluster.kubectl().args(["get", "pods,pvc", "-n", "demo-app"]))?;
    println!(
        "\nThe demo stands after {} s. Backup, disaster and restore follow in the next versions. Try meanwhile:",
        start.elapsed().as_secs()
    );
    for line in things_to_try(&cluster.binary.to_string_lossy(), cluster.context()) {
        println!("  {line}");
    }
    Ok(())
}

/// Commands to copy, each with what it shows.
fn things_to_try(binary: &str, context: Option<&str>) -> Vec<String> {
    let on = context.map(|name| format!(" --context {name}")).unwrap_or_default();
    let lines = [
        (format!("alias lifeboat='{binary}{on}'"), "the program that was just built"),
        ("lifeboat backup-location get".to_owned(), "where backups will go, and whether that works"),
        ("lifeboat repository-password export".to_owned(), "keep it: backups cannot be read without it"),
        (format!("kubectl{on} -n lifeboat get bsl"), "the storage location as Kubernetes shows it"),
        (format!("kubectl{on} explain backup.spec"), "every field has words"),
        (format!("kubectl{on} -n lifeboat logs deploy/lifeboat"), "what the server says"),
        (format!("cargo xtask demo --down{on}"), "remove everything again"),
    ];
    let in_the_box = (
        "eval \"$(cargo xtask box env)\"".to_owned(),
        "kubectl and S3 of the box in this shell, first of all",
    );
    let first = context.is_none().then_some(in_the_box);
    first.into_iter().chain(lines).map(|(command, about)| format!("{command:<46}  # {about}")).collect()
}

fn down(args: &Args) -> Result<()> {
    let Some(context) = &args.target.context else { return cluster_box::down() };
    let cluster = Cluster::named(context)?;
    run::run(cluster.kubectl().args(["delete", "namespace", "demo-app", "--ignore-not-found"]))?;
    run::run(cluster.lifeboat().arg("uninstall"))?;
    println!("Kept: namespace lifeboat with its Secrets, and the custom resource definitions.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_page_offers_the_built_program_for_this_cluster() {
        let text = things_to_try("/target/lifeboat", Some("mine")).join("\n");
        assert!(text.contains("alias lifeboat='/target/lifeboat --context mine'"), "{text}");
        assert!(text.contains("cargo xtask demo --down --context mine"), "{text}");
        assert!(!text.contains("box env"), "{text}");
        assert!(things_to_try("/target/lifeboat", None)[0].starts_with("eval "));
    }

    #[test]
    fn the_credentials_file_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let keys =
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| (name.to_owned(), "k".to_owned()));
        let file = credentials_file(&BTreeMap::from(keys)).expect("written");
        let path = file.path().to_owned();
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
    }
}
