//! `up`: starts a box from nothing, completes a running one, or replaces what a killed one left behind.
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cgroup::Hierarchies;
use super::layout::{
    self, BUCKET, CACHE, DNS_READY, NODES, S3, S3_FILER, S3_FILER_GRPC, S3_MASTER, S3_MASTER_GRPC,
};
use super::lock::Lock;
use super::mounts::{self, Purpose};
use super::progress::{self, note, step, wait};
use super::state::{Found, State};
use super::supervisor::{self, Spec};
use super::{
    certificates, components, config, down, firewall, images, kubectl, leftovers, network, packages,
    preflight, programs, state,
};
use crate::run;

/// A component that ended this often during the start is given up.
const HOPELESS: u32 = 5;

/// Sizes of the box's file systems; they are sparse, so they use only what is written.
const DISK_SIZE: u64 = 64 << 30;
const VOLUMES_SIZE: u64 = 20 << 30;

pub(super) fn up() -> Result<()> {
    preflight::machine()?;
    let _lock = Lock::acquire("box", "another clone starts or stops the box")?;
    let began = Instant::now();
    match state::find()? {
        Found::Running(state) => return revive(&state),
        Found::Stale(state, why) => {
            note(&format!("there was a box, but {why}: removing it, then starting a new one"));
            down::clean(&state)?;
        }
        Found::Nothing => {}
    }
    preflight::room()?;
    packages::install()?;
    let programs = programs::for_box()?;
    let state = State { programs, ..State::new(random()?, random()?) };
    if let Err(error) = start(state) {
        return Err(give_up(error));
    }
    note(&format!(
        "the box is up after {}; `cargo xtask box status` shows it",
        progress::seconds(began.elapsed())
    ));
    Ok(())
}

/// Starts the stopped processes of a running box and waits until all are ready.
fn revive(state: &State) -> Result<()> {
    for process in supervisor::status()?.iter().filter(|each| each.state != "running") {
        note(&format!("{} was {}: starting it", process.name, process.state));
        supervisor::start_again(&process.name)?;
    }
    ready(state)?;
    note("the box is up");
    Ok(())
}

fn start(mut state: State) -> Result<()> {
    let cgroups = Hierarchies::detect()?;
    network::load_modules();
    state.firewall = firewall::save()?;
    state.sysctls = network::settings();
    state.controllers = cgroups.missing_controllers()?;
    state.created_paths = leftovers::absent();
    state.save()?;
    step("network, control groups, file systems", || {
        network::create_bridges()?;
        network::apply_settings()?;
        firewall::open()?;
        cgroups.create()?;
        prepare_files(&state)
    })?;
    step("API server, container runtimes, S3 server", || first(&state))?;
    step("controllers, scheduler, network, DNS, kubelets", || second(&state))?;
    step("volumes and snapshots", || third(&state))?;
    step("all ready", || ready(&state))?;
    state.complete = true;
    state.save()
}

fn prepare_files(state: &State) -> Result<()> {
    mounts::mount_file_system(&layout::state("disk.img"), &layout::disk(), DISK_SIZE, Purpose::Scratch)?;
    for dir in [layout::state("logs"), layout::disk().join("s3"), layout::disk().join("etcd")] {
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    certificates::write_all()?;
    config::write_all(&state.s3_secret_key)?;
    for node in NODES {
        let file = layout::state(&format!("volumes-{}.img", node.number));
        mounts::mount_file_system(&file, &node.path("csi"), VOLUMES_SIZE, Purpose::Volumes)?;
    }
    Ok(())
}

fn first(state: &State) -> Result<()> {
    supervisor::launch(state).map_err(|error| failed("supervisor", error))?;
    start_all(&components::first(state))?;
    for node in &NODES {
        expect(&format!("containerd-{}", node.number), 30, || images::is_ready(node))?;
    }
    images::load(&state.program("kube", "pause.tar")).map_err(|error| failed("containerd-1", error))?;
    expect("kube-apiserver", 90, || kubectl::is_ready(state, &layout::kubeconfig()))
}

fn second(state: &State) -> Result<()> {
    start_all(&components::second(state))?;
    expect("kube-apiserver", 30, || apply(state, &state.program("kube", "crds")))
}

fn third(state: &State) -> Result<()> {
    start_all(&components::third(state))?;
    // The API server serves the kinds of new CRDs only after a moment.
    expect("kube-apiserver", 30, || apply(state, &config::manifests()))?;
    expect("s3", 60, || create_bucket(state))
}

/// Waits for everything that a user may rely on after `up`.
fn ready(state: &State) -> Result<()> {
    expect("kube-apiserver", 60, || kubectl::is_ready(state, &layout::kubeconfig()))?;
    expect("kubelet-1", 90, || nodes_ready(state))?;
    expect("kube-apiserver", 30, || annotate_directories(state))?;
    expect("coredns", 30, || kubectl::healthy(DNS_READY, "/ready"))?;
    expect("s3", 60, || kubectl::healthy(S3, "/healthz"))
}

/// Checks that both nodes are ready, both have their CSI driver, and pods may be created.
fn nodes_ready(state: &State) -> Result<()> {
    let ask = |arguments: &[&str]| run::output(kubectl::command(state).args(arguments));
    let ready =
        ask(&["get", "nodes", "-o", "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"])?;
    if ready.split_whitespace().filter(|each| *each == "True").count() != NODES.len() {
        bail!("not every node is ready: {ready}");
    }
    let drivers = ask(&["get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name}"])?;
    if drivers.split_whitespace().count() != NODES.len() {
        bail!("not every node has its CSI driver: {drivers}");
    }
    ask(&["get", "serviceaccount", "default", "-n", "default", "-o", "name"]).map(drop)
}

/// Annotates each node with its kubelet's directory, which is not the usual one; programs that need it read the
/// annotation.
fn annotate_directories(state: &State) -> Result<()> {
    for node in &NODES {
        let note = format!("lifeboat.io/kubelet-root={}", node.kubelet_dir().display());
        let arguments = ["annotate", "node", node.name, &note, "--overwrite"];
        run::output(kubectl::command(state).args(arguments))?;
    }
    Ok(())
}

fn apply(state: &State, path: &Path) -> Result<()> {
    let flags = ["apply", "--server-side", "--force-conflicts", "--validate=false", "-f"];
    run::output(kubectl::command(state).args(flags).arg(path)).map(drop)
}

fn create_bucket(state: &State) -> Result<()> {
    let server =
        |http: layout::Port, grpc: layout::Port| format!("{}:{}.{}", http.address, http.number, grpc.number);
    let mut shell = Command::new(state.program("s3", "weed"));
    shell
        .args(["-logtostderr=true", "shell"]) // else it leaves log files in /tmp
        .arg(format!("-master={}", server(S3_MASTER, S3_MASTER_GRPC)))
        .arg(format!("-filer={}", server(S3_FILER, S3_FILER_GRPC)));
    let text = run::with_input(&mut shell, &format!("s3.bucket.create -name {BUCKET}\ns3.bucket.list\n"))?;
    if !text.lines().any(|line| line.trim_start().starts_with(BUCKET)) {
        bail!("the bucket {BUCKET} was not created: {}", text.trim());
    }
    Ok(())
}

fn start_all(specs: &[Spec]) -> Result<()> {
    specs.iter().try_for_each(|spec| supervisor::start(spec).map_err(|error| failed(&spec.name, error)))
}

/// Waits for a component; if it is not ready in time, the error shows the end of its log.
fn expect(component: &str, limit: u64, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let mut hopeless = None;
    let waited = wait(Duration::from_secs(limit), || match check() {
        Err(error) if keeps_dying(component) => {
            hopeless = Some(error);
            Ok(())
        }
        other => other,
    });
    hopeless.map_or(waited, Err).map_err(|error| failed(component, error))
}

fn keeps_dying(component: &str) -> bool {
    supervisor::status()
        .is_ok_and(|all| all.iter().any(|each| each.name == component && each.restarts > HOPELESS))
}

fn failed(component: &str, error: anyhow::Error) -> anyhow::Error {
    let log = fs::read_to_string(layout::log(component)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(15)..].join("\n    ");
    error.context(format!("{component} did not start; the end of its log:\n    {tail}"))
}

/// Removes everything of a failed start except its logs.
fn give_up(error: anyhow::Error) -> anyhow::Error {
    let logs = Path::new(CACHE).join("failed-logs");
    let _ = fs::remove_dir_all(&logs);
    let _ = run::output(Command::new("cp").arg("-r").arg(layout::state("logs")).arg(&logs));
    let cleaned = match State::load() {
        Ok(Some(state)) => down::clean(&state),
        _ => Ok(()),
    };
    let error = error.context(format!("the box did not start; all its logs are in {}", logs.display()));
    match cleaned {
        Ok(()) => error,
        Err(second) => {
            error.context(format!("and cleaning up failed: {second:#}; run `cargo xtask box down`"))
        }
    }
}

/// 128 random bits as text.
fn random() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(run::hex(&bytes))
}
