//! The reference of the plugin protocol: takes the protocol files and returns one page of Markdown. The files are our
//! own and have a simple form (a comment above each element, a field on one line), so they are parsed line by line.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::run;

const FILES: &str = "crates/plugin-protocol/proto";
const PAGE: &str = "docs/reference/plugin-protocol.md";

/// The files in the order in which a plugin author needs them.
const ORDER: [&str; 13] = [
    "go_plugin",
    "health",
    "plugin_lister",
    "shared",
    "backup_item_action",
    "backup_item_action_v2",
    "restore_item_action",
    "restore_item_action_v2",
    "delete_item_action",
    "item_block_action",
    "object_store",
    "volume_snapshotter",
    "lifeboat",
];

const INTRODUCTION: &str = "# The plugin protocol

The messages between Lifeboat and a plugin program, field by field: HashiCorp's go-plugin over gRPC with Velero's services, and two
optional services of Lifeboat (`lifeboat.plugin.v1`). The SDK implements all of it for programs in Rust ([how](../plugins.md)); this page
is for authors of plugins in other languages. The protocol files are in `crates/plugin-protocol/proto`.
";

/// The page and its path.
pub(super) fn page() -> Result<(PathBuf, String)> {
    let mut text = INTRODUCTION.to_owned();
    for name in ORDER {
        let path = run::checkout().join(FILES).join(format!("{name}.proto"));
        let file = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.push_str(&section(name, &file));
    }
    Ok((PathBuf::from(PAGE), text))
}

/// The element that is being read.
#[derive(PartialEq)]
enum Within {
    Nothing,
    Message,
    Service,
}

fn section(name: &str, file: &str) -> String {
    let (mut text, mut comment, mut within) = (String::new(), String::new(), Within::Nothing);
    // The comment of a type that is declared within a message.
    let mut comment_of: Option<&str> = None;
    for line in file.lines().map(str::trim) {
        if let Some(description) = line.strip_prefix("//") {
            comment.push_str(if comment.is_empty() { "" } else { " " });
            comment.push_str(description.trim());
            continue;
        }
        let description = std::mem::take(&mut comment);
        // Writing to a String cannot fail.
        if line.starts_with("syntax") {
            let _ = write!(text, "\n## {name}.proto\n\n{description}\n");
        } else if let Some(package) = line.strip_prefix("package ") {
            let _ = write!(text, "\nPackage `{}`.\n", package.trim_end_matches(';'));
        } else if let Some((title, rest)) = opened(line, "message ") {
            let _ = write!(text, "\n### {title}\n\n{description}\n");
            within = if rest { Within::Message } else { Within::Nothing };
            if within == Within::Message {
                text.push_str("\n| field | number | type | |\n| --- | --- | --- | --- |\n");
            }
        } else if let Some((title, _)) = opened(line, "service ") {
            let _ = write!(
                text,
                "\n### Service {title}\n\n{description}\n\n| call | takes | gives | |\n| --- | --- | --- | --- |\n"
            );
            within = Within::Service;
        } else if let Some((title, _)) = opened(line, "enum ") {
            comment_of = Some(title);
        } else if line == "}" {
            within = if comment_of.take().is_some() { within } else { Within::Nothing };
        } else if let (Some(title), Some((word, number))) =
            (comment_of, line.trim_end_matches(';').split_once(" = "))
        {
            let _ = writeln!(text, "| | {number} | a `{title}`: `{word}` | {description} |");
        } else if within == Within::Message
            && let Some((kind, field, number)) = field(line)
        {
            let _ = writeln!(text, "| `{field}` | {number} | `{kind}` | {description} |");
        } else if within == Within::Service
            && let Some((call, takes, gives)) = call(line)
        {
            let _ = writeln!(text, "| `{call}` | `{takes}` | `{gives}` | {description} |");
        }
    }
    text
}

/// The name of the element that a line opens, and whether it has content.
fn opened<'a>(line: &'a str, what: &str) -> Option<(&'a str, bool)> {
    let (name, rest) = line.strip_prefix(what)?.split_once(" {")?;
    Some((name, !rest.contains('}')))
}

/// `map<string, string> tags = 3;`
fn field(line: &str) -> Option<(&str, &str, &str)> {
    let (left, number) = line.trim_end_matches(';').rsplit_once(" = ")?;
    let (kind, name) = left.rsplit_once(' ')?;
    Some((kind, name, number))
}

/// `rpc Get(stream Request) returns (Answer);`
fn call(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.strip_prefix("rpc ")?.split_once('(')?;
    let (takes, rest) = rest.split_once(") returns (")?;
    Some((name, takes, rest.split_once(')')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_tables() {
        let file = "// What it is\n// about.\nsyntax = \"proto3\";\npackage one.two;\n\n// Asks.\nmessage Ask {}\n\n// Says.\n\
            message Answer {\n  // How.\n  enum Way {\n    // Far.\n    FAR = 0;\n  }\n  // Tags of it.\n  map<string, string> tags = 3;\n}\n// Serves.\nservice Some {\n  // Asks much.\n  \
            rpc Get(stream Ask) returns (Answer);\n}\n";
        let text = section("some", file);
        for expected in [
            "## some.proto\n\nWhat it is about.\n\nPackage `one.two`.\n",
            "### Ask\n\nAsks.\n\n### Answer\n\nSays.\n\n| field |",
            "| | 0 | a `Way`: `FAR` | Far. |",
            "| `tags` | 3 | `map<string, string>` | Tags of it. |",
            "### Service Some\n\nServes.\n\n| call |",
            "| `Get` | `stream Ask` | `Answer` | Asks much. |",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
        }
    }

    #[test]
    fn every_protocol_file_is_on_the_page() {
        let files = fs::read_dir(run::checkout().join(FILES)).expect("the protocol files");
        let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        for name in names {
            assert!(ORDER.contains(&name.trim_end_matches(".proto")), "{name}");
        }
    }
}
