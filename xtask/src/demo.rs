//! `cargo xtask demo`: sets up a cluster, Lifeboat, a storage location and a sample app; then makes a backup, deletes
//! the app, restores it and proves that everything is back. Each step is a function.

mod batch;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::target::{Cluster, Target, TargetArgs};
use crate::{cluster_box, run};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Remove everything that the demo created: the whole box, or from a named cluster the app and Lifeboat
    #[arg(long)]
    down: bool,
}

/// The pods with a ledger.
const LEDGERS: [&str; 2] = ["ledger-0", "ledger-1"];

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.down {
        return down(args);
    }
    let start = Instant::now();
    act("1/10", "a cluster with Lifeboat's image");
    let target = Target::prepare(&args.target)?;
    act("2/10", "Lifeboat, with a storage location on S3");
    install(&target)?;
    act("3/10", "a sample app: a ledger with volumes, a storefront");
    sample_app(&target)?;
    let backup = format!("demo-{}", stamp());
    act("4/10", "a backup of the app, with the data of its volumes");
    let before = inventory(&target.cluster)?;
    let ledgers = ledgers(&target.cluster)?;
    make_backup(&target.cluster, &backup)?;
    act("5/10", "disaster: the namespace is deleted");
    disaster(&target.cluster)?;
    act("6/10", "a restore from the bucket");
    restore(&target.cluster, &backup)?;
    act("7/10", "the proof: every object and every entry is restored");
    prove(&before, &inventory(&target.cluster)?)?;
    prove_data(&target.cluster, &ledgers)?;
    act("8/10", "a single file, restored from the backup to this machine");
    single_file(&target.cluster, &backup, &ledgers[0])?;
    act("9/10", "a batch by Stash's API: destroyed, and recovered");
    batch::batch(&target)?;
    act("10/10", "what runs now");
    closing_page(&target.cluster, start)
}

fn act(number: &str, title: &str) {
    println!("\n== {number}  {title}");
}

/// Installs with the command from the docs, as a user would.
fn install(target: &Target) -> Result<()> {
    let cluster = &target.cluster;
    let credentials = credentials_file(&cluster.environment)?;
    let endpoint = &cluster.environment["LIFEBOAT_S3_ENDPOINT"];
    let region = &cluster.environment["AWS_REGION"];
    run::run(
        cluster
            .lifeboat()
            .args(["install", "--image", &target.image, "--node-access"])
            .args(["--provider", "aws", "--bucket", "lifeboat", "--prefix", "demo", "--secret-file"])
            .arg(credentials.path())
            .args([
                "--backup-location-config",
                &format!("region={region},s3Url={endpoint},s3ForcePathStyle=true"),
            ]),
    )
}

/// Credentials are passed in a file, never as arguments: a new file that only this user can read, removed when dropped.
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
    wait_for_app(cluster)
}

fn wait_for_app(cluster: &Cluster) -> Result<()> {
    for workload in ["statefulset/ledger", "deployment/storefront"] {
        let wait = ["-n", "demo-app", "rollout", "status", workload, "--timeout=180s"];
        run::run(cluster.kubectl().args(wait))?;
    }
    Ok(())
}

/// The app's objects, as `kind/name`. Objects that clusters create by themselves are left out.
fn inventory(cluster: &Cluster) -> Result<Vec<String>> {
    const TYPES: &str = "configmaps,secrets,services,serviceaccounts,persistentvolumeclaims,pods,statefulsets,deployments,replicasets";
    let text = run::output(cluster.kubectl().args(["-n", "demo-app", "get", TYPES, "-o", "name"]))?;
    let mut names: Vec<_> = text
        .lines()
        .filter(|name| !["configmap/kube-root-ca.crt", "serviceaccount/default"].contains(name))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// A unique name for each run, because the bucket outlives the demo's cluster.
fn stamp() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn make_backup(cluster: &Cluster, name: &str) -> Result<()> {
    let only = ["--include-namespaces", "demo-app", "--default-volumes-to-fs-backup", "--wait"];
    run::run(cluster.lifeboat().args(["backup", "create", name]).args(only))?;
    run::run(cluster.lifeboat().args(["backup", "describe", name, "--details"]))
}

fn disaster(cluster: &Cluster) -> Result<()> {
    run::run(cluster.kubectl().args(["delete", "namespace", "demo-app", "--timeout=180s"]))
}

fn restore(cluster: &Cluster, backup: &str) -> Result<()> {
    run::run(cluster.lifeboat().args(["restore", "create", backup, "--from-backup", backup, "--wait"]))?;
    wait_for_app(cluster)
}

/// Fails if objects are missing, or if there are objects that were not in the backup.
fn prove(before: &[String], after: &[String]) -> Result<()> {
    let missing: Vec<_> = before.iter().filter(|name| !after.contains(name)).collect();
    let surplus: Vec<_> = after.iter().filter(|name| !before.contains(name)).collect();
    if !missing.is_empty() || !surplus.is_empty() {
        bail!("the app differs: missing {missing:?}, unexpected {surplus:?}");
    }
    println!("All {} objects of the app are restored, pods under their old names.", after.len());
    Ok(())
}

/// The content of the ledgers, by pod: entries that the backup must contain.
fn ledgers(cluster: &Cluster) -> Result<Vec<String>> {
    let read = |pod: &str| run::output(&mut in_pod(cluster, pod, &["cat", "/data/ledger.txt"]));
    LEDGERS.iter().map(|pod| read(pod)).collect()
}

fn in_pod(cluster: &Cluster, pod: &str, command: &[&str]) -> std::process::Command {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["-n", "demo-app", "exec", pod, "-c", "ledger", "--"]).args(command);
    kubectl
}

/// Checks that every ledger continues after its last entry in the backup and that its chain of checksums is intact.
fn prove_data(cluster: &Cluster, before: &[String]) -> Result<()> {
    for ((pod, before), after) in LEDGERS.iter().zip(before).zip(ledgers(cluster)?) {
        if !after.starts_with(before) {
            bail!("the ledger of {pod} does not begin with the entries that were backed up");
        }
        let whole = run::output(&mut in_pod(cluster, pod, &["/app/ledger", "verify"]))?;
        println!(
            "{pod}: entries from before the disaster that were restored: {}; verified: {}",
            before.lines().count(),
            whole.trim()
        );
    }
    Ok(())
}

/// Restores one file of one volume, without changing the app.
fn single_file(cluster: &Cluster, backup: &str, before: &str) -> Result<()> {
    let target = tempfile::tempdir().context("cannot create a temporary directory")?;
    run::run(cluster.lifeboat().args(["volume", "ls", backup]))?;
    let file = "demo-app/data-ledger-0:/ledger.txt";
    run::run(cluster.lifeboat().args(["volume", "restore", backup, file, "--to"]).arg(target.path()))?;
    let path = target.path().join("ledger.txt");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if !text.starts_with(before) {
        bail!("the file does not begin with the entries that were backed up");
    }
    println!("ledger.txt of ledger-0 as it was at the time of the backup; entries: {}", text.lines().count());
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
    println!("\nThe demo is ready after {} s. Try:", start.elapsed().as_secs());
    for line in things_to_try(&cluster.binary.to_string_lossy(), cluster.context()) {
        println!("  {line}");
    }
    Ok(())
}

/// Commands for the user to try, each with a description.
fn things_to_try(binary: &str, context: Option<&str>) -> Vec<String> {
    let on = context.map(|name| format!(" --context {name}")).unwrap_or_default();
    let lines = [
        (format!("alias lifeboat='{binary}{on}'"), "the program that was just built"),
        ("lifeboat backup get".to_owned(), "the backups and their phases"),
        ("lifeboat backup-location get".to_owned(), "the locations of backups and their state"),
        ("lifeboat volume ls BACKUP".to_owned(), "the volumes in a backup; with a name, their files"),
        ("lifeboat repository-password export".to_owned(), "keep it: backups cannot be read without it"),
        (format!("kubectl{on} -n lifeboat get bsl"), "the storage location as Kubernetes shows it"),
        (format!("kubectl{on} explain backup.spec"), "every field is documented"),
        (format!("kubectl{on} -n lifeboat logs deploy/lifeboat"), "the server's log"),
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
