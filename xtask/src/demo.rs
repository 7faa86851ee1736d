//! `cargo xtask demo`: a cluster, Lifeboat on it, a storage location, a sample app, and a page that says what runs.
//! Each act is a function; backup, disaster and restore will follow the sample app.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::target::{Target, TargetArgs};
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
    closing_page(&target, start)
}

fn act(number: &str, title: &str) {
    println!("\n== {number}  {title}");
}

/// Installs as a user would, with the command of the docs.
fn install(target: &Target) -> Result<()> {
    let credentials = write_credentials(target)?;
    let endpoint = &target.environment["LIFEBOAT_S3_ENDPOINT"];
    let region = &target.environment["AWS_REGION"];
    let outcome = run::run(
        target
            .lifeboat()
            .args(["install", "--image", &target.image])
            .args(["--provider", "aws", "--bucket", "lifeboat", "--prefix", "demo", "--secret-file"])
            .arg(&credentials)
            .args([
                "--backup-location-config",
                &format!("region={region},s3Url={endpoint},s3ForcePathStyle=true"),
            ]),
    );
    fs::remove_file(&credentials).context("cannot remove the credentials file")?;
    outcome
}

/// Credentials go through a file, never through arguments.
fn write_credentials(target: &Target) -> Result<std::path::PathBuf> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::env::temp_dir().join(format!("lifeboat-demo-credentials-{}", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let value = |name: &str| target.environment.get(name).cloned().unwrap_or_default();
    write!(
        file,
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        value("AWS_ACCESS_KEY_ID"),
        value("AWS_SECRET_ACCESS_KEY")
    )?;
    Ok(path)
}

fn sample_app(target: &Target) -> Result<()> {
    let manifests = run::output(target.kubectl().args(["kustomize", "examples/demo-app"]))?;
    let manifests = manifests.replace(crate::image::DEBIAN, &target.test_image);
    run::with_input(target.kubectl().args(["apply", "-f", "-"]), &manifests)?;
    for workload in ["statefulset/ledger", "deployment/storefront"] {
        run::run(target.kubectl().args(["-n", "demo-app", "rollout", "status", workload, "--timeout=180s"]))?;
    }
    Ok(())
}

fn closing_page(target: &Target, start: Instant) -> Result<()> {
    run::run(target.lifeboat().arg("version"))?;
    println!();
    run::run(target.lifeboat().args(["backup-location", "get"]))?;
    println!();
    run::run(target.kubectl().args(["get", "pods", "-n", "lifeboat", "-o", "wide"]))?;
    println!();
    run::run(target.kubectl().args(["get", "pods,pvc", "-n", "demo-app"]))?;
    println!(
        "\nThe demo stands after {} s. Backup, disaster and restore follow in the next versions. Try meanwhile:",
        start.elapsed().as_secs()
    );
    if target.is_box() {
        println!(
            "  eval \"$(cargo xtask box env)\"                 # kubectl and S3 of the box in this shell"
        );
    }
    println!("  kubectl -n lifeboat get bsl                   # the storage location as Kubernetes shows it");
    println!("  kubectl explain backup.spec                   # every field has words");
    println!("  kubectl -n lifeboat logs deploy/lifeboat      # what the server says");
    println!("  cargo xtask demo --down                       # remove everything again");
    Ok(())
}

fn down(args: &Args) -> Result<()> {
    if args.target.context.is_none() {
        return cluster_box::down();
    }
    let target = Target::prepare(&args.target)?;
    run::run(target.kubectl().args(["delete", "namespace", "demo-app", "--ignore-not-found"]))?;
    run::run(target.lifeboat().arg("uninstall"))?;
    println!("Kept: namespace lifeboat with its Secrets, and the custom resource definitions.");
    Ok(())
}
