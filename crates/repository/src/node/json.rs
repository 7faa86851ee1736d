//! Trees as JSON, byte for byte as Go's encoder writes them (field order, escapes, omitted fields): the hash of a
//! tree is its ID, so any difference would store a directory twice.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Mode, Node, NodeKind, NodeTime, Xattr, quote};
use crate::error::{Error, Result};
use crate::id::BlobId;

/// Collects the nodes of one directory, sorted by name, into the tree's JSON.
#[derive(Debug)]
pub struct TreeBuilder {
    json: String,
    last: Option<Vec<u8>>,
    scratch: String,
}

impl Default for TreeBuilder {
    fn default() -> Self {
        Self { json: String::from("{\"nodes\":["), last: None, scratch: String::new() }
    }
}

impl TreeBuilder {
    /// Adds a node; names must be in ascending order.
    pub fn add(&mut self, node: &Node) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| *last >= node.name) {
            let what = format!("tree with the name '{}'", node.display_name());
            return Err(Error::damaged(what, "its names are not sorted or not unique"));
        }
        if self.last.is_some() {
            self.json.push(',');
        }
        write_node(node, &mut self.json, &mut self.scratch);
        self.last = Some(node.name.clone());
        Ok(())
    }

    /// The JSON so far, for a tree that is written in parts.
    pub(crate) fn written(&self) -> &str {
        &self.json
    }

    /// Forgets the JSON so far, which the caller has written.
    pub(crate) fn forget_written(&mut self) {
        self.json = String::new();
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.json.push_str("]}\n");
        self.json.into_bytes()
    }
}

/// Parses a tree and passes its nodes to `each`, one at a time: a directory may have a million.
pub fn parse_tree(json: &[u8], each: &mut dyn FnMut(Node) -> Result<()>) -> Result<()> {
    let mut problem = None;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let visitor = TreeVisitor { each, problem: &mut problem };
    let result =
        serde::Deserializer::deserialize_map(&mut deserializer, visitor).and_then(|()| deserializer.end());
    match (problem, result) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(Error::damaged("a tree", error)),
        (None, Ok(())) => Ok(()),
    }
}

struct TreeVisitor<'a> {
    each: &'a mut dyn FnMut(Node) -> Result<()>,
    problem: &'a mut Option<Error>,
}

impl<'de> Visitor<'de> for TreeVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a tree")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "nodes" {
                seen = true;
                map.next_value_seed(NodesSeed(&mut self))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if seen { Ok(()) } else { Err(serde::de::Error::missing_field("nodes")) }
    }
}

struct NodesSeed<'a, 'b>(&'a mut TreeVisitor<'b>);

impl<'de> serde::de::DeserializeSeed<'de> for NodesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for NodesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of nodes")
    }

    /// Old versions of restic wrote an empty directory as null.
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<(), A::Error> {
        while let Some(raw) = nodes.next_element::<RawNode<'de>>()? {
            let outcome = raw.into_node().and_then(|node| (self.0.each)(node));
            if let Err(error) = outcome {
                *self.0.problem = Some(error);
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct RawNode<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    mode: u32,
    #[serde(borrow, default)]
    mtime: Cow<'a, str>,
    #[serde(borrow, default)]
    atime: Cow<'a, str>,
    #[serde(borrow, default)]
    ctime: Cow<'a, str>,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
    #[serde(default)]
    user: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    inode: u64,
    #[serde(default)]
    device_id: u64,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    links: u64,
    #[serde(borrow, default)]
    linktarget: Cow<'a, str>,
    #[serde(borrow, default)]
    linktarget_raw: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    extended_attributes: Option<Vec<RawXattr<'a>>>,
    #[serde(borrow, default)]
    generic_attributes: Option<&'a RawValue>,
    #[serde(default)]
    device: u64,
    #[serde(default)]
    content: Option<Vec<BlobId>>,
    #[serde(default)]
    subtree: Option<BlobId>,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct RawXattr<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Option<Cow<'a, str>>,
}

impl RawNode<'_> {
    fn into_node(self) -> Result<Node> {
        let damaged = |detail: &str| Error::damaged(format!("node '{}'", self.name), detail);
        let time = |text: &str| match text {
            "" => Ok(NodeTime::default()),
            text => NodeTime::parse(text).ok_or_else(|| damaged(&format!("'{text}' is not a time"))),
        };
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| damaged("it contains invalid base64"));
        let link_target = match &self.linktarget_raw {
            Some(raw) => bytes(raw)?,
            None => self.linktarget.as_bytes().to_vec(),
        };
        let xattr = |raw: &RawXattr<'_>| {
            let value = bytes(raw.value.as_deref().unwrap_or_default())?;
            Ok(Xattr { name: raw.name.clone().into_owned(), value })
        };
        Ok(Node {
            name: quote::unquote(&self.name).ok_or_else(|| damaged("its name is not quoted correctly"))?,
            kind: kind_of(&self.kind),
            mode: Mode(self.mode),
            mtime: time(&self.mtime)?,
            atime: time(&self.atime)?,
            ctime: time(&self.ctime)?,
            uid: self.uid,
            gid: self.gid,
            user: self.user,
            group: self.group,
            inode: self.inode,
            device_id: self.device_id,
            size: self.size,
            links: self.links,
            link_target,
            xattrs: self.extended_attributes.iter().flatten().map(xattr).collect::<Result<_>>()?,
            generic_attributes: self.generic_attributes.map(|raw| raw.get().to_owned()),
            device: self.device,
            content: self.content,
            subtree: self.subtree,
            error: self.error,
        })
    }
}

fn kind_of(word: &str) -> NodeKind {
    match word {
        "file" => NodeKind::File,
        "dir" => NodeKind::Directory,
        "symlink" => NodeKind::Symlink,
        "dev" => NodeKind::BlockDevice,
        "chardev" => NodeKind::CharDevice,
        "fifo" => NodeKind::Fifo,
        "socket" => NodeKind::Socket,
        "irregular" => NodeKind::Irregular,
        other => NodeKind::Unknown(other.to_owned()),
    }
}

impl NodeKind {
    /// The name in the format.
    pub fn word(&self) -> &str {
        match self {
            Self::File => "file",
            Self::Directory => "dir",
            Self::Symlink => "symlink",
            Self::BlockDevice => "dev",
            Self::CharDevice => "chardev",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Irregular => "irregular",
            Self::Unknown(word) => word,
        }
    }
}

fn write_node(node: &Node, out: &mut String, scratch: &mut String) {
    out.push_str("{\"name\":");
    scratch.clear();
    quote::quote(&node.name, scratch);
    string(scratch, out);
    out.push_str(",\"type\":");
    string(node.kind.word(), out);
    number("mode", u64::from(node.mode.0), out);
    for (name, time) in [("mtime", node.mtime), ("atime", node.atime), ("ctime", node.ctime)] {
        let _ = write!(out, ",\"{name}\":\"");
        time.write(out);
        out.push('"');
    }
    let _ = write!(out, ",\"uid\":{},\"gid\":{}", node.uid, node.gid);
    text("user", &node.user, out);
    text("group", &node.group, out);
    number("inode", node.inode, out);
    number("device_id", node.device_id, out);
    number("size", node.size, out);
    number("links", node.links, out);
    link_target(&node.link_target, out);
    xattrs(&node.xattrs, out);
    if let Some(json) = &node.generic_attributes {
        let _ = write!(out, ",\"generic_attributes\":{json}");
    }
    number("device", node.device, out);
    out.push_str(",\"content\":");
    content(node.content.as_deref(), out);
    if let Some(subtree) = &node.subtree {
        let _ = write!(out, ",\"subtree\":\"{subtree}\"");
    }
    text("error", &node.error, out);
    out.push('}');
}

fn number(name: &str, value: u64, out: &mut String) {
    if value != 0 {
        let _ = write!(out, ",\"{name}\":{value}");
    }
}

fn text(name: &str, value: &str, out: &mut String) {
    if !value.is_empty() {
        let _ = write!(out, ",\"{name}\":");
        string(value, out);
    }
}

fn link_target(target: &[u8], out: &mut String) {
    if let Ok(target) = std::str::from_utf8(target) {
        return text("linktarget", target, out);
    }
    // Go writes an escape for each byte that is not valid UTF-8, and the replacement character unescaped where the
    // text contains it.
    out.push_str(",\"linktarget\":\"");
    for chunk in target.utf8_chunks() {
        escaped(chunk.valid(), out);
        chunk.invalid().iter().for_each(|_| out.push_str("\\ufffd"));
    }
    out.push('"');
    text("linktarget_raw", &STANDARD.encode(target), out);
}

fn xattrs(xattrs: &[Xattr], out: &mut String) {
    for (position, xattr) in xattrs.iter().enumerate() {
        out.push_str(if position == 0 { ",\"extended_attributes\":[" } else { "," });
        out.push_str("{\"name\":");
        string(&xattr.name, out);
        let _ = write!(out, ",\"value\":\"{}\"}}", STANDARD.encode(&xattr.value));
    }
    if !xattrs.is_empty() {
        out.push(']');
    }
}

fn content(blobs: Option<&[BlobId]>, out: &mut String) {
    let Some(blobs) = blobs else {
        out.push_str("null");
        return;
    };
    out.push('[');
    for (position, id) in blobs.iter().enumerate() {
        out.push_str(if position == 0 { "\"" } else { ",\"" });
        out.push_str(std::str::from_utf8(&id.0.hex()).unwrap_or_default());
        out.push('"');
    }
    out.push(']');
}

/// A JSON string with the escapes of Go's encoder.
fn string(value: &str, out: &mut String) {
    out.push('"');
    escaped(value, out);
    out.push('"');
}

fn escaped(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
}
