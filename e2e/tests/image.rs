//! The published image of Lifeboat.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::fs;

use lifeboat_e2e::{Program, get, lifeboat, variable};

#[test]
fn the_image_is_under_40_megabytes() {
    let size = fs::metadata(variable("LIFEBOAT_IMAGE_ARCHIVE")).unwrap().len();
    assert!(size < 40_000_000, "{size} bytes");
}

#[test]
fn the_binary_needs_no_library_of_the_system() {
    // ldd fails on a static binary, or prints "statically linked" for a static one that is position independent.
    let output = Program::new("ldd").arg(&variable("LIFEBOAT_BIN")).run();
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("statically linked") || said.contains("not a dynamic executable"), "{said}");
}

#[test]
fn the_program_prints_its_version_without_a_cluster() {
    let text = lifeboat().args(["version", "--client-only"]).env("KUBECONFIG", "/nonexistent").ok();
    assert!(text.starts_with("Client: v"), "{text}");
}

#[test]
fn a_pod_of_the_image_runs_as_an_ordinary_user() {
    lifeboat_e2e::Installation::ensure();
    let pods = get(&["-n", "lifeboat", "pods", "-l", "component=velero"]);
    for pod in pods["items"].as_array().unwrap() {
        let context = &pod["spec"]["securityContext"];
        assert_eq!(context["runAsNonRoot"], true, "{context}");
        let container = &pod["spec"]["containers"][0]["securityContext"];
        assert_eq!(container["readOnlyRootFilesystem"], true, "{container}");
    }
}
