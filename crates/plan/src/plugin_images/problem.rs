//! Init containers of the server's pods that do not complete: the image cannot be pulled, needs root, or fails. Takes
//! the Deployment and its pods, gives messages that name the image and the next step.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{containers, text};

/// How many characters of a container's log are quoted.
const LONGEST: usize = 400;

/// A problem with one container in one of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProblem {
    pub container: String,
    pub image: String,
    pub kind: ProblemKind,
    /// The message for users.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The image cannot be pulled.
    Image,
    /// It only works as root, which the namespace forbids.
    NeedsRoot,
    /// It ended with an error, or cannot be started.
    Failed,
}

impl ProblemKind {
    /// The reason for an event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Image => "PluginImageNotPulled",
            Self::NeedsRoot => "PluginNeedsRoot",
            Self::Failed => "PluginImageFailed",
        }
    }
}

/// At most one problem per container. Pods that are being deleted are ignored, and so are containers that the
/// Deployment no longer has, because their pods will be deleted.
pub fn problems(deployment: &Value, pods: &[Value]) -> Vec<ContainerProblem> {
    let wanted = containers(deployment);
    let is_wanted = |problem: &ContainerProblem| {
        wanted.iter().any(|container| {
            text(container, "name") == problem.container && text(container, "image") == problem.image
        })
    };
    let mut found = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none()) {
        let statuses = pod.pointer("/status/initContainerStatuses").and_then(Value::as_array);
        let statuses = statuses.into_iter().flatten();
        for problem in statuses.filter_map(|status| judge(pod, status)).filter(is_wanted) {
            found.entry(problem.container.clone()).or_insert(problem);
        }
    }
    found.into_values().collect()
}

fn judge(pod: &Value, status: &Value) -> Option<ContainerProblem> {
    let waiting = text(status.pointer("/state/waiting").unwrap_or(&Value::Null), "reason");
    let said = status.pointer("/state/waiting/message").and_then(Value::as_str).unwrap_or_default();
    let (kind, what) = match waiting {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull"
        | "ImageInspectError" => {
            (ProblemKind::Image, format!("its image cannot be fetched: {}", clean(said)))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            (kind_of(said), format!("it cannot be started: {}", clean(said)))
        }
        // Between two runs the result of the last one is used.
        _ => ended(status)?,
    };
    let container = text(status, "name").to_owned();
    // The status may identify the image by digest; the message uses the name from the spec.
    let image = given_image(pod, &container).unwrap_or_else(|| text(status, "image").to_owned());
    let message = format!(
        "init container '{container}' (image {image}) prevents new server pods from starting, the old one keeps running: {what}; {}",
        advice(kind, &container)
    );
    Some(ContainerProblem { container, image, kind, message })
}

fn ended(status: &Value) -> Option<(ProblemKind, String)> {
    let of = |pointer: &str| status.pointer(pointer).filter(|ended| ended["exitCode"] != 0);
    let ended = of("/state/terminated").or_else(|| {
        // A container that is running again may succeed; one in back-off has failed.
        status.pointer("/state/waiting").and_then(|_| of("/lastState/terminated"))
    })?;
    let said = text(ended, "message");
    let message = if said.trim().is_empty() { text(ended, "reason") } else { said };
    Some((kind_of(said), format!("it ended with exit code {}: {}", ended["exitCode"], clean(message))))
}

fn kind_of(said: &str) -> ProblemKind {
    let said = said.to_lowercase();
    let root =
        ["permission denied", "operation not permitted", "run as root", "must be root", "eacces", "eperm"];
    if root.iter().any(|phrase| said.contains(phrase)) { ProblemKind::NeedsRoot } else { ProblemKind::Failed }
}

fn advice(kind: ProblemKind, container: &str) -> String {
    match kind {
        ProblemKind::Image => {
            format!("correct the image, or remove it with `lifeboat plugin remove {container}`")
        }
        ProblemKind::NeedsRoot => format!(
            "the image must run as root, which Pod Security level 'restricted' forbids; remove it with `lifeboat plugin \
             remove {container}` and use an image whose files any user may read and whose program only writes to /target"
        ),
        ProblemKind::Failed => {
            format!(
                "a plugin image copies its plugins to /target and exits; `lifeboat plugin remove {container}` removes it"
            )
        }
    }
}

fn given_image(pod: &Value, container: &str) -> Option<String> {
    let containers = pod.pointer("/spec/initContainers")?.as_array()?;
    let found = containers.iter().find(|found| text(found, "name") == container)?;
    Some(text(found, "image").to_owned()).filter(|image| !image.is_empty())
}

/// Bounds the text and puts it on one line.
fn clean(said: &str) -> String {
    let said = said.trim();
    // The end of a log has the error.
    let skip = said.chars().count().saturating_sub(LONGEST);
    let line: String = said.chars().skip(skip).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    match (line.is_empty(), skip) {
        (true, _) => "it gave no further message".to_owned(),
        (_, 0) => line.to_owned(),
        _ => format!("…{line}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn deployment(image: &str) -> Value {
        json!({"spec": {"template": {"spec": {"initContainers": [{"name": "aws", "image": image}]}}}})
    }

    fn found(pods: &[Value]) -> Vec<ContainerProblem> {
        problems(&deployment("velero/aws:v1"), pods)
    }

    fn pod(state: &Value, last: &Value) -> Value {
        json!({
            "metadata": {"name": "lifeboat-1"},
            "spec": {"initContainers": [{"name": "aws", "image": "velero/aws:v1"}]},
            "status": {"initContainerStatuses": [
                {"name": "aws", "image": "sha256:1234", "state": state, "lastState": last}
            ]},
        })
    }

    #[rstest]
    #[case::no_such_image(json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}), json!({}),
        ProblemKind::Image, "not found")]
    #[case::root_image(json!({"waiting": {"reason": "CreateContainerConfigError",
        "message": "container has runAsNonRoot and image will run as root"}}), json!({}),
        ProblemKind::NeedsRoot, "must run as root")]
    #[case::needs_root(json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        json!({"terminated": {"exitCode": 1, "message": "cp: /root/x: Permission denied\n"}}),
        ProblemKind::NeedsRoot, "exit code 1: cp: /root/x: Permission denied;")]
    #[case::failed(json!({"terminated": {"exitCode": 7, "reason": "Error"}}), json!({}),
        ProblemKind::Failed, "exit code 7: Error;")]
    #[case::no_program(json!({"waiting": {"reason": "CreateContainerError", "message": "no command specified"}}),
        json!({}), ProblemKind::Failed, "no command specified")]
    fn what_prevents_a_server_from_starting_is_reported(
        #[case] state: Value,
        #[case] last: Value,
        #[case] kind: ProblemKind,
        #[case] expected: &str,
    ) {
        let found = found(&[pod(&state, &last), pod(&state, &last)]);
        let [problem] = &found[..] else { panic!("{found:?}") };
        assert_eq!((problem.kind, problem.image.as_str()), (kind, "velero/aws:v1"));
        assert!(
            problem.message.contains(expected) && problem.message.contains("velero/aws:v1"),
            "{}",
            problem.message
        );
        assert!(problem.message.contains("lifeboat plugin"), "{}", problem.message);
    }

    #[rstest]
    #[case::done(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), json!({}))]
    #[case::waits(json!({"waiting": {"reason": "PodInitializing"}}), json!({}))]
    #[case::runs_again(json!({"running": {}}), json!({"terminated": {"exitCode": 1}}))]
    fn what_goes_well_or_may_yet_is_no_trouble(#[case] state: Value, #[case] last: Value) {
        assert_eq!(found(&[pod(&state, &last)]), []);
    }

    #[test]
    fn a_pod_that_is_being_deleted_does_not_count() {
        let mut pod = pod(&json!({"terminated": {"exitCode": 7}}), &json!({}));
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(found(&[pod]), []);
    }

    #[rstest]
    #[case::another_version("velero/aws:v2", 0)]
    #[case::this_one("velero/aws:v1", 1)]
    fn a_container_that_was_taken_out_or_replaced_is_no_trouble_any_more(
        #[case] image: &str,
        #[case] expected: usize,
    ) {
        let pod = pod(&json!({"terminated": {"exitCode": 7}}), &json!({}));
        assert_eq!(problems(&deployment(image), std::slice::from_ref(&pod)).len(), expected);
        assert_eq!(problems(&json!({}), &[pod]), []);
    }

    #[test]
    fn a_long_log_is_cut_to_its_end_and_one_line() {
        let said = format!("{}\nthe end", "ü".repeat(1000));
        let message = clean(&said);
        assert!(
            message.starts_with('…') && message.ends_with("the end") && !message.contains('\n'),
            "{message}"
        );
    }
}
