//! A listed node with the fields of restic's JSON.

use serde::Serialize;

use crate::node::{Mode, Node, NodeTime};

/// One line of `ls --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LsNode {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub path: String,
    pub uid: u32,
    pub gid: u32,
    /// Only for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "is_zero_mode")]
    pub mode: u32,
    pub permissions: String,
    pub mtime: String,
    pub atime: String,
    pub ctime: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub inode: u64,
    pub message_type: &'static str,
    pub struct_type: &'static str,
}

impl LsNode {
    pub fn new(path: &[u8], node: &Node) -> Self {
        Self {
            name: node.display_name().into_owned(),
            kind: node.kind.word().to_owned(),
            path: String::from_utf8_lossy(path).into_owned(),
            uid: node.uid,
            gid: node.gid,
            size: node.is_file().then_some(node.size),
            mode: node.mode.0,
            permissions: mode_text(node.mode),
            mtime: time_text(node.mtime),
            atime: time_text(node.atime),
            ctime: time_text(node.ctime),
            inode: node.inode,
            message_type: "node",
            struct_type: "node",
        }
    }
}

pub(crate) fn time_text(time: NodeTime) -> String {
    let mut text = String::new();
    time.write(&mut text);
    text
}

/// A mode as Go's `FileMode.String` writes it: a letter for each special bit (`d`, `L`, `D`, `u` …) instead of the
/// one that `ls -l` shows.
pub fn mode_text(mode: Mode) -> String {
    let special = (0..).zip("dalTLDpSugct?".chars());
    let mut text: String =
        special.filter(|(at, _)| mode.0 & (1 << (31 - at)) != 0).map(|(_, letter)| letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    let permissions = (0..).zip("rwxrwxrwx".chars());
    text.extend(permissions.map(|(at, letter)| if mode.0 & (1 << (8 - at)) == 0 { '-' } else { letter }));
    text
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero_mode(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(0o100_644, "-rw-r--r--")]
    #[case(0o040_755, "drwxr-xr-x")]
    #[case(0o120_777, "Lrwxrwxrwx")]
    #[case(0o104_755, "urwxr-xr-x")]
    #[case(0o041_777, "dtrwxrwxrwx")]
    #[case(0o020_620, "Dcrw--w----")]
    #[case(0o010_600, "prw-------")]
    fn modes_are_written_as_go_writes_them(#[case] unix: u32, #[case] expected: &str) {
        assert_eq!(mode_text(Mode::from_unix(unix)), expected);
    }
}
