//! One running plugin program: started, connected after its handshake, its output read; ended by [`Process::stop`], or
//! killed when dropped. Slots start processes for calls, discovery starts them to ask what they serve.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use lifeboat_plugin_protocol::handshake::{COOKIE_NAME, COOKIE_VALUE, PROTOCOL_VERSION, VERSIONS_NAME};
use lifeboat_plugin_protocol::lifeboat::DescribeRequest;
use lifeboat_plugin_protocol::lifeboat::capabilities_client::CapabilitiesClient;
use lifeboat_plugin_protocol::plugin::grpc_controller_client::GrpcControllerClient;
use lifeboat_plugin_protocol::plugin::grpc_stdio_client::GrpcStdioClient;
use lifeboat_plugin_protocol::plugin::{Empty, stdio_data};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::ChildStdout;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::error::PluginError;
use super::handshake;
use super::keeper::Keeper;
use super::log::{Intake, LineCutter, LogSink};
use super::program;
use super::settings::HostSettings;

/// The maximum of concurrent calls, whatever a program declares.
const MOST_CALLS: u32 = 64;
/// The flow control window of a stream.
const WINDOW: u32 = 1024 * 1024;
/// The end of a process is noticed shortly after its connection broke.
const MOMENT: Duration = Duration::from_secs(1);

pub(super) struct Process {
    keeper: Keeper,
    pub(super) channel: Channel,
    /// One permit for each concurrent call that the program supports.
    pub(super) permits: Arc<Semaphore>,
    /// The program supports only one call at a time, and cannot cancel a call.
    pub(super) serial: bool,
    progress: HashSet<String>,
    socket: PathBuf,
    shutdown: Duration,
}

impl Process {
    /// Starts a program and waits until it can be called.
    pub(super) async fn start(
        path: &Path,
        settings: &HostSettings,
        sink: Arc<dyn LogSink>,
    ) -> Result<Self, PluginError> {
        let limit = settings.timeouts.start;
        let late = |_| PluginError::StartTimeout { program: path.to_owned(), after: limit };
        timeout(limit, Self::start_now(path, settings, sink)).await.map_err(late)?
    }

    async fn start_now(
        path: &Path,
        settings: &HostSettings,
        sink: Arc<dyn LogSink>,
    ) -> Result<Self, PluginError> {
        // Checked before the start: the C library would pass a file that is not a program to a shell.
        if let Some(reason) = program::missing(path) {
            return Err(PluginError::CannotStart { program: path.to_owned(), reason });
        }
        let (keeper, pipes) =
            Keeper::start(command(path, settings)).await.map_err(|error| cannot_start(path, &error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let intake = Intake::new(name, sink);
        tokio::spawn(Arc::clone(&intake).drain(pipes.stderr));
        let socket = await_handshake(path, &keeper, pipes.stdout, &intake).await?;
        let channel = connect(&socket).await.map_err(|error| {
            PluginError::no_plugin(path, format!("its socket '{}' cannot be used: {error}", socket.display()))
        })?;
        tokio::spawn(stdio(channel.clone(), intake));
        let (permits, progress) = describe(path, &channel).await?;
        Ok(Self {
            keeper,
            channel,
            permits: Arc::new(Semaphore::new(permits as usize)),
            serial: permits == 1,
            progress,
            socket,
            shutdown: settings.timeouts.shutdown,
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.keeper.is_gone()
    }

    pub(super) async fn exited(&self) -> String {
        self.keeper.exited().await
    }

    /// How the process ended, if a broken connection means that it did.
    pub(super) async fn end_of_connection(&self) -> Option<String> {
        timeout(MOMENT, self.exited()).await.ok()
    }

    pub(super) fn kill(&self) {
        self.keeper.kill();
    }

    /// Whether a snapshotter of this program implements the service Progress.
    pub(super) fn reports_progress(&self, plugin: &str) -> bool {
        self.progress.contains(plugin)
    }

    /// Asks the program to end, and kills it if it does not.
    pub(super) async fn stop(&self) {
        self.permits.close();
        let mut controller = GrpcControllerClient::new(self.channel.clone());
        let polite = async {
            let _ = controller.shutdown(Empty {}).await;
            self.keeper.exited().await
        };
        if timeout(self.shutdown, polite).await.is_err() {
            self.keeper.kill();
            self.keeper.exited().await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.keeper.kill();
        // A killed program leaves its socket behind. The path comes from the program, so only a socket is removed.
        let is_socket =
            |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket(&self.socket) {
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

fn command(path: &Path, settings: &HostSettings) -> Command {
    let mut command = Command::new(path);
    command
        .args(&settings.arguments)
        .env_clear()
        .envs(settings.environment.iter().map(|(name, value)| (name, value)))
        .env(COOKIE_NAME, COOKIE_VALUE)
        .env("PLUGIN_MIN_PORT", "10000")
        .env("PLUGIN_MAX_PORT", "25000")
        .env(VERSIONS_NAME, PROTOCOL_VERSION);
    command
}

fn cannot_start(path: &Path, error: &io::Error) -> PluginError {
    let reason = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}; is its volume mounted without the right to execute?")
        }
        _ => error.to_string(),
    };
    PluginError::CannotStart { program: path.to_owned(), reason }
}

/// Waits for the line with the socket's path; later output is logged.
async fn await_handshake(
    path: &Path,
    keeper: &Keeper,
    stdout: ChildStdout,
    intake: &Arc<Intake>,
) -> Result<PathBuf, PluginError> {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    let read = (&mut reader).take(handshake::LONGEST as u64).read_until(b'\n', &mut line).await;
    if line.is_empty() || read.is_err() {
        let how = keeper.exited().await;
        // The last output may still be in the pipe.
        tokio::task::yield_now().await;
        return Err(PluginError::no_plugin(path, handshake::ended(&how, &intake.last_lines())));
    }
    let socket = handshake::socket(&String::from_utf8_lossy(&line))
        .map_err(|error| PluginError::no_plugin(path, error.to_string()))?;
    tokio::spawn(Arc::clone(intake).drain(reader));
    Ok(socket)
}

async fn connect(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    let path = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
    });
    Endpoint::from_static("http://plugin")
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .connect_with_connector(connector)
        .await
}

/// Reads the output after the handshake. A program without this service writes to its pipes.
async fn stdio(channel: Channel, intake: Arc<Intake>) {
    let Ok(answer) = GrpcStdioClient::new(channel).stream_stdio(()).await else { return };
    let mut stream = answer.into_inner();
    let (mut out, mut err) = (LineCutter::default(), LineCutter::default());
    while let Ok(Some(data)) = stream.message().await {
        let lines = if data.channel() == stdio_data::Channel::Stderr { &mut err } else { &mut out };
        intake.take(lines, &data.data);
    }
    intake.end(&mut out);
    intake.end(&mut err);
}

/// How many concurrent calls the program supports, and which snapshotters report progress. A stock plugin does not
/// implement this service.
async fn describe(path: &Path, channel: &Channel) -> Result<(u32, HashSet<String>), PluginError> {
    match CapabilitiesClient::new(channel.clone()).describe(DescribeRequest {}).await {
        Ok(answer) => {
            let answer = answer.into_inner();
            let permits = answer.concurrent_calls.clamp(1, MOST_CALLS);
            Ok((permits, answer.snapshotters_with_progress.into_iter().collect()))
        }
        Err(status) if status.code() == Code::Unimplemented => Ok((1, HashSet::new())),
        Err(status) => {
            let said = super::error::shortened(status.message());
            Err(PluginError::no_plugin(path, format!("it does not answer on its socket: {said}")))
        }
    }
}
