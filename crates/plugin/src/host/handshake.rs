//! Parses the line that a plugin prints when it is ready, and explains the output of programs that are not plugins.
//! Pure.

use std::path::PathBuf;

use lifeboat_plugin_protocol::handshake::{CORE_VERSION, PROTOCOL_VERSION};

use super::error::shortened;

/// The maximum length of a handshake.
pub(super) const LONGEST: usize = 4096;

/// Why a line is not the handshake of a plugin that this host can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("it printed {0:?} where a plugin prints its address")]
    NoAddress(String),
    #[error("it speaks version {0} of go-plugin's protocol, this host speaks {CORE_VERSION}")]
    CoreVersion(String),
    #[error(
        "it speaks version {0} of Velero's plugin protocol, this host speaks {PROTOCOL_VERSION}; use a build of the \
         plugin for Velero 1.1 or newer"
    )]
    ProtocolVersion(String),
    #[error("it speaks net/rpc and not gRPC")]
    NetRpc,
    #[error("it listens on {0:?} and not on a unix socket")]
    Network(String),
    #[error("it requires TLS, which this host does not use")]
    Tls,
    #[error("its socket {0:?} is not an absolute path")]
    RelativeSocket(String),
}

/// Parses `1|2|unix|/tmp/plugin123|grpc|` and returns the socket.
pub(super) fn socket(line: &str) -> Result<PathBuf, HandshakeError> {
    let parts: Vec<&str> = line.trim().split('|').collect();
    let [core, protocol, network, address, ..] = parts[..] else {
        return Err(HandshakeError::NoAddress(beginning(line)));
    };
    if core.parse::<u32>().is_err() {
        return Err(HandshakeError::NoAddress(beginning(line)));
    }
    if core != CORE_VERSION {
        return Err(HandshakeError::CoreVersion(core.to_owned()));
    }
    if protocol != PROTOCOL_VERSION {
        return Err(HandshakeError::ProtocolVersion(protocol.to_owned()));
    }
    if parts.get(4).is_none_or(|kind| *kind != "grpc") {
        return Err(HandshakeError::NetRpc);
    }
    if network != "unix" {
        return Err(HandshakeError::Network(network.to_owned()));
    }
    if parts.get(5).is_some_and(|certificate| !certificate.is_empty()) {
        return Err(HandshakeError::Tls);
    }
    if !address.starts_with('/') {
        return Err(HandshakeError::RelativeSocket(address.to_owned()));
    }
    Ok(PathBuf::from(address))
}

/// Why a program ended without a handshake. `said` is the end of its output.
pub(super) fn ended(how: &str, said: &[String]) -> String {
    if said
        .iter()
        .any(|line| line.contains("not meant to be executed directly") || line.contains("magic cookie"))
    {
        return "it is a plugin for another host: it did not accept the cookie VELERO_PLUGIN".to_owned();
    }
    match said.last() {
        Some(_) => format!("it ended at once ({how}) and printed: {}", shortened(&said.join("\n"))),
        None => format!("it ended at once ({how}) without output"),
    }
}

fn beginning(line: &str) -> String {
    line.trim().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_go_plugin_is_understood_with_and_without_its_last_field() {
        let expected = Ok(PathBuf::from("/tmp/plugin1"));
        assert_eq!(socket("1|2|unix|/tmp/plugin1|grpc|\n"), expected);
        assert_eq!(socket("1|2|unix|/tmp/plugin1|grpc||true"), expected);
        assert_eq!(socket("1|2|unix|/tmp/plugin1|grpc"), expected);
    }

    #[rstest]
    #[case::garbage("hello world", "it printed \"hello world\"")]
    #[case::nothing("", "it printed \"\"")]
    #[case::pipes("a|b|c|d|e", "it printed")]
    #[case::core("2|2|unix|/tmp/a|grpc|", "version 2 of go-plugin's")]
    #[case::protocol("1|1|unix|/tmp/a|grpc|", "version 1 of Velero's")]
    #[case::net_rpc("1|2|unix|/tmp/a|netrpc|", "net/rpc")]
    #[case::old("1|2|unix|/tmp/a", "net/rpc")]
    #[case::tcp("1|2|tcp|127.0.0.1:1|grpc|", "\"tcp\"")]
    #[case::tls("1|2|unix|/tmp/a|grpc|MIIB", "TLS")]
    #[case::relative("1|2|unix|a|grpc|", "absolute")]
    fn other_lines_are_refused_with_the_reason(#[case] line: &str, #[case] reason: &str) {
        let error = socket(line).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn the_end_of_a_program_is_reported_with_its_last_output() {
        assert!(ended("exit status: 1", &["usage: x".into()]).ends_with("printed: usage: x"));
        let foreign = "This binary is a plugin. These are not meant to be executed directly.".to_owned();
        assert!(ended("exit status: 1", &[foreign]).contains("another host"));
    }
}
