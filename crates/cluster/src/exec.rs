//! Runs commands (hooks) in containers of running pods. Takes pod, container, command and timeout; returns the output
//! or the error. The client must not have a read timeout (see [`crate::connect::connect_patient`]): a command may print
//! nothing until its own timeout.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::AttachParams;
use kube::{Api, Client};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{ApiError, Attempt};

/// How much of a command's output is kept. The rest is read and dropped, so that the command never blocks.
const KEPT: usize = 4096;

/// Runs commands in pods; tests have their own implementation.
#[async_trait]
pub trait Commands: Send + Sync {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError>;
}

/// Runs commands in the pods of the cluster, with a client without a read timeout.
pub struct PodCommands(pub Client);

#[async_trait]
impl Commands for PodCommands {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        exec(&self.0, request).await
    }
}

/// The command, and the container to run it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub command: Vec<String>,
    pub timeout: Duration,
}

/// The beginning of the command's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: String,
    pub stderr: String,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("the command did not end within {} s; it may still run in the container", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the command ended with exit code {code}{}", said(.output))]
    Exit { code: String, output: Box<ExecOutput> },
    #[error("the command failed: {message}")]
    Failed { message: String },
    #[error("the connection to the container ended before the command did")]
    Cut,
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl ExecError {
    /// The message without what the command printed.
    pub fn without_output(&self) -> String {
        match self {
            Self::Exit { code, .. } => {
                format!("the command ended with exit code {code}; its output is secret")
            }
            other => other.to_string(),
        }
    }
}

fn said(output: &ExecOutput) -> String {
    let text = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// Runs the command and waits until it has ended.
pub async fn exec(client: &Client, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
    match tokio::time::timeout(request.timeout, run(client, request)).await {
        Ok(ended) => ended,
        // Dropping the call closes the connection, which does not end the command.
        Err(_elapsed) => Err(ExecError::Timeout(request.timeout)),
    }
}

async fn run(client: &Client, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
    let ExecRequest { namespace, pod, container, command, .. } = request;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut params = AttachParams::default().stdin(false).stdout(true).stderr(true);
    if !container.is_empty() {
        params = params.container(container);
    }
    let mut process = pods
        .exec(pod, command, &params)
        .await
        .attempt(format!("run a command in container {container:?} of pod {namespace}/{pod}"))?;
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let status = process.take_status();
    let (stdout, stderr, status) = tokio::join!(beginning(stdout), beginning(stderr), async {
        match status {
            Some(status) => status.await,
            None => None,
        }
    });
    process.abort();
    verdict(status.ok_or(ExecError::Cut)?, ExecOutput { stdout, stderr })
}

fn verdict(status: Status, output: ExecOutput) -> Result<ExecOutput, ExecError> {
    if status.status.as_deref() == Some("Success") {
        return Ok(output);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes
        .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .map(|cause| cause.message.clone().unwrap_or_default())
        .next();
    match code {
        Some(code) => Err(ExecError::Exit { code, output: Box::new(output) }),
        None => Err(ExecError::Failed { message: status.message.unwrap_or_default() }),
    }
}

/// Reads to the end and keeps the beginning.
async fn beginning(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        let room = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..length.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{client, failure};

    fn status(value: serde_json::Value) -> Status {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_exit_code_and_the_last_output_are_reported() {
        let failed = status(json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "m",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}));
        let output = ExecOutput { stdout: "out".into(), stderr: " no such database\n".into() };
        let error = verdict(failed, output).unwrap_err();
        assert_eq!(error.to_string(), "the command ended with exit code 3: no such database");
        assert!(verdict(status(json!({"status": "Success"})), ExecOutput::default()).is_ok());
    }

    #[tokio::test]
    async fn only_the_beginning_of_what_is_said_is_kept() {
        let long = vec![b'x'; 100_000];
        assert_eq!(beginning(Some(long.as_slice())).await.len(), KEPT);
    }

    fn request(timeout: Duration) -> ExecRequest {
        let command = vec!["true".to_owned()];
        ExecRequest { namespace: "n".into(), pod: "p".into(), container: "c".into(), command, timeout }
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_is_an_error_that_names_it() {
        let client = client(|_| failure(404, "NotFound")).await;
        let error = exec(&client, &request(Duration::from_secs(10))).await.unwrap_err();
        assert!(error.to_string().contains("pod n/p"), "{error}");
    }

    #[tokio::test]
    async fn a_command_that_hangs_ends_at_its_timeout() {
        // Accepts connections and never sends anything.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = kube::Config::new(format!("http://{}", silent.local_addr().unwrap()).parse().unwrap());
        let client = Client::try_from(config).unwrap();
        let error = exec(&client, &request(Duration::from_millis(50))).await.unwrap_err();
        assert!(matches!(error, ExecError::Timeout(_)), "{error}");
    }
}
