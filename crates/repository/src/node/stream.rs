//! Reads the nodes of a tree one at a time, so that a directory of a million entries need not be in memory: cuts the
//! JSON into its nodes and passes each to the parser of whole trees. A tree that does not start as restic and Lifeboat
//! write it is read as a whole.

use std::io::Read;

use super::{Node, parse_tree};
use crate::error::{Error, Result};

const START: &[u8] = b"{\"nodes\":[";
const END: &[u8] = b"]}";
/// How much is read at a time.
const WINDOW: usize = 128 * 1024;
/// The most that is in memory at a time: one node, or a tree that is read as a whole. A file of many terabytes has some
/// hundred MiB.
const MOST_AT_ONCE: usize = 1 << 30;
/// The most that may follow the nodes.
const MOST_AFTER: usize = 64 * 1024;

/// The nodes of a tree.
#[derive(Debug)]
pub(crate) struct NodeStream<R> {
    source: R,
    /// What was read and not used yet, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// The most bytes in `buffer`.
    most: usize,
    state: State,
    /// One node as a tree, for the parser.
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Start,
    /// In the list, before its first node.
    First,
    /// After a node.
    Next,
    /// Parsed as a whole.
    Whole(std::vec::IntoIter<Node>),
    End,
}

impl<R: Read> NodeStream<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            at: 0,
            most: MOST_AT_ONCE,
            state: State::Start,
            scratch: Vec::new(),
        }
    }

    /// The next node; after an error, there are no more.
    pub(crate) fn next(&mut self) -> Result<Option<Node>> {
        let next = self.advance();
        if !matches!(next, Ok(Some(_))) {
            self.state = State::End;
        }
        next
    }

    fn advance(&mut self) -> Result<Option<Node>> {
        if matches!(self.state, State::Start) {
            self.start()?;
        }
        match &mut self.state {
            State::End => return Ok(None),
            State::Whole(nodes) => return Ok(nodes.next()),
            State::Start | State::First | State::Next => {}
        }
        let is_first = matches!(self.state, State::First);
        let mut token = self.token()?;
        if token == Some(b']') {
            return self.finish();
        }
        if !is_first {
            if token != Some(b',') {
                return Err(damaged("a comma is missing between its nodes"));
            }
            self.at += 1;
            token = self.token()?;
        }
        if token != Some(b'{') {
            return Err(damaged("a node is not an object"));
        }
        self.state = State::Next;
        self.node().map(Some)
    }

    fn start(&mut self) -> Result<()> {
        while self.buffer.len() < START.len() && self.fill()? {}
        if self.buffer.starts_with(START) {
            self.at = START.len();
            self.state = State::First;
            return Ok(());
        }
        while self.fill()? {}
        let mut nodes = Vec::new();
        parse_tree(&self.buffer, &mut |node| {
            nodes.push(node);
            Ok(())
        })?;
        self.buffer = Vec::new();
        self.state = State::Whole(nodes.into_iter());
        Ok(())
    }

    /// The next byte that is not blank, which stays.
    fn token(&mut self) -> Result<Option<u8>> {
        loop {
            match self.buffer.get(self.at).copied() {
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(byte) => return Ok(Some(byte)),
                None if self.fill()? => {}
                None => return Ok(None),
            }
        }
    }

    /// Parses the object that starts at `at`.
    fn node(&mut self) -> Result<Node> {
        let (mut depth, mut in_string, mut is_escaped) = (0_u32, false, false);
        // Relative to `at`, which moves when more is read.
        let mut length = 0;
        loop {
            let Some(byte) = self.buffer.get(self.at + length).copied() else {
                if self.fill()? {
                    continue;
                }
                return Err(damaged("it ends within a node"));
            };
            length += 1;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                b'{' if !in_string => depth += 1,
                b'}' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        self.scratch.clear();
        for part in [START, &self.buffer[self.at..self.at + length], END] {
            self.scratch.extend_from_slice(part);
        }
        self.at += length;
        let mut found = None;
        parse_tree(&self.scratch, &mut |node| {
            found = Some(node);
            Ok(())
        })?;
        found.ok_or_else(|| damaged("a node is empty"))
    }

    /// Reads to the end, which checks the source, too.
    fn finish(&mut self) -> Result<Option<Node>> {
        while self.fill()? {
            if self.buffer.len() - self.at > MOST_AFTER + WINDOW {
                return Err(damaged("too much follows its nodes"));
            }
        }
        let rest = [START, &self.buffer[self.at..]].concat();
        parse_tree(&rest, &mut |_| Ok(()))?;
        Ok(None)
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> Result<bool> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        if before > self.most {
            return Err(damaged("one of its nodes is larger than 1 GiB"));
        }
        self.buffer.resize(before + WINDOW, 0);
        let read = self.source.read(&mut self.buffer[before..]);
        let count = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(before + count);
        read.map(|count| count > 0).map_err(|error| Error::damaged("a tree", error))
    }
}

fn damaged(detail: &str) -> Error {
    Error::damaged("a tree", detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::node::{NodeTime, TreeBuilder};

    /// Returns a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(room.len());
            let (now, rest) = self.0.split_at(count);
            room[..count].copy_from_slice(now);
            self.0 = rest;
            Ok(count)
        }
    }

    fn streamed(json: &[u8], at_once: usize) -> Option<Vec<Node>> {
        let mut stream = NodeStream::new(Trickle(json, at_once));
        let mut nodes = Vec::new();
        while let Some(node) = stream.next().ok()? {
            nodes.push(node);
        }
        assert!(stream.next().unwrap().is_none());
        Some(nodes)
    }

    fn parsed(json: &[u8]) -> Option<Vec<Node>> {
        let mut nodes = Vec::new();
        parse_tree(json, &mut |node| {
            nodes.push(node);
            Ok(())
        })
        .ok()?;
        Some(nodes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_tree_has_the_same_nodes_in_a_stream_as_as_a_whole(
            names in prop::collection::btree_set(prop::collection::vec(1_u8..=255, 1..20), 0..20),
            at_once in 1_usize..100,
            cut in any::<prop::sample::Index>(),
        ) {
            let mut builder = TreeBuilder::default();
            for name in names {
                let xattrs = vec![crate::node::Xattr { name: "user.{\"a}".to_owned(), value: name.clone() }];
                let mtime = NodeTime::new(5, 6);
                builder.add(&Node { name, mtime, xattrs, ..Node::default() }).unwrap();
            }
            let json = builder.finish();
            prop_assert_eq!(streamed(&json, at_once), parsed(&json));
            let cut = &json[..cut.index(json.len())];
            prop_assert_eq!(streamed(cut, at_once), parsed(cut));
        }
    }

    #[rstest::rstest]
    #[case("", false)]
    #[case(" ", false)]
    #[case("", true)]
    fn no_more_than_the_largest_node_is_in_memory(#[case] before: &str, #[case] is_one_node: bool) {
        let mut builder = TreeBuilder::default();
        for number in 0..2000 {
            let name = format!("{number:04}").into_bytes();
            let link_target = vec![b'x'; if is_one_node { 1_000_000 } else { 500 }];
            builder.add(&Node { name, link_target, ..Node::default() }).unwrap();
            if is_one_node {
                break;
            }
        }
        let json = [before.as_bytes(), &builder.finish()].concat();
        let mut stream = NodeStream::new(json.as_slice());
        stream.most = 2 * WINDOW;
        let mut count = 0;
        let end = loop {
            match stream.next() {
                Ok(Some(_)) => count += 1,
                end => break end,
            }
            assert!(stream.buffer.len() <= 2 * WINDOW);
        };
        // Only a tree that is read node by node, and no large one, fits.
        let fits = before.is_empty() && !is_one_node;
        assert_eq!((end.is_ok(), count), (fits, if fits { 2000 } else { 0 }));
    }

    #[rstest::rstest]
    #[case(r#"{"nodes":[]}"#)]
    #[case(r#"{"nodes":null}"#)]
    #[case(r#" { "nodes" : [ {"name":"a","type":"file"} ] } "#)]
    #[case(r#"{"nodes":[ {"name":"a","type":"file"} , {"name":"b","type":"dir"} ] , "more": {"x":[1]}}"#)]
    #[case(r#"{"nodes":[{"name":"a","type":"file"} {"name":"b","type":"dir"}]}"#)]
    #[case(r#"{"nodes":[{"name":"a","type":"file"},]}"#)]
    #[case(r#"{"nodes":[{"name":"a","type":"file"}],"nodes":7}"#)]
    #[case(r#"{"nodes":[{"name":"a","type":"file"}]} x"#)]
    #[case(r#"{"nodes":[{"name":"a","type":"file"}]"#)]
    #[case(r#"{"nodes":[7]}"#)]
    #[case(r#"{"nodes":[{}]}"#)]
    #[case("")]
    fn odd_and_broken_trees_are_taken_as_by_the_parser(#[case] json: &str) {
        for at_once in [1, 3, 1000] {
            assert_eq!(streamed(json.as_bytes(), at_once), parsed(json.as_bytes()), "{json}");
        }
    }
}
