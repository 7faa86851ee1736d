use super::*;

fn nodes(json: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    parse_tree(json.as_bytes(), &mut |node| {
        nodes.push(node);
        Ok(())
    })
    .unwrap();
    nodes
}

/// Written by restic 0.19.1.
const GENUINE: &str = concat!(
    r#"{"nodes":[{"name":"a\u0026b \\\"q\\\"","type":"file","mode":420,"mtime":"2026-11-15T18:24:22.5Z","#,
    r#""atime":"2026-11-15T18:24:22.5Z","ctime":"2026-11-15T19:24:22.123456789+01:00","uid":0,"gid":0,"#,
    r#""user":"root","group":"root","inode":12,"size":5,"links":1,"#,
    r#""extended_attributes":[{"name":"user.k","value":"dg=="}],"content":["#,
    r#""2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"]},"#,
    r#"{"name":"d","type":"dir","mode":2147484141,"mtime":"2026-11-15T18:24:22Z","#,
    r#""atime":"2026-11-15T18:24:22Z","ctime":"2026-11-15T18:24:22Z","uid":1,"gid":1,"content":null,"#,
    r#""subtree":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},"#,
    r#"{"name":"l","type":"symlink","mode":134218239,"mtime":"2026-11-15T18:24:22Z","#,
    r#""atime":"2026-11-15T18:24:22Z","ctime":"2026-11-15T18:24:22Z","uid":1,"gid":1,"links":1,"#,
    r#""linktarget":"a�\ufffd\ufffd\ufffdz\u003c","linktarget_raw":"Ye+/vf/igno8","content":null}]}"#,
    "\n"
);

#[test]
fn a_tree_is_written_again_byte_for_byte() {
    let nodes = nodes(GENUINE);
    assert_eq!(nodes[0].name, b"a&b \"q\"");
    assert_eq!(nodes[2].link_target, b"a\xef\xbf\xbd\xff\xe2\x82z<");
    let mut builder = TreeBuilder::default();
    for node in &nodes {
        builder.add(node).unwrap();
    }
    assert_eq!(String::from_utf8(builder.finish()).unwrap(), GENUINE);
}

#[test]
fn unknown_fields_and_null_trees_are_read() {
    assert_eq!(nodes(r#"{"nodes":null}"#), []);
    assert_eq!(nodes(r#"{"x":[1],"nodes":[],"y":{}}"#), []);
}

#[rstest::rstest]
#[case("")]
#[case("[]")]
#[case("{}")]
#[case(r#"{"nodes":[{"name":"a"}]}"#)]
#[case(r#"{"nodes":[{"name":"\\q","type":"file"}]}"#)]
#[case(r#"{"nodes":[{"name":"a","type":"file","mtime":"x"}]}"#)]
#[case(r#"{"nodes":[{"name":"a","type":"file","content":["00"]}]}"#)]
#[case(r#"{"nodes":[]} x"#)]
fn broken_trees_are_damage(#[case] json: &str) {
    let outcome = parse_tree(json.as_bytes(), &mut |_| Ok(()));
    assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
}

#[test]
fn names_out_of_order_are_refused() {
    let node = |name: &str| Node { name: name.into(), ..Node::default() };
    let mut builder = TreeBuilder::default();
    builder.add(&node("b")).unwrap();
    assert!(builder.add(&node("a")).is_err());
    assert!(builder.add(&node("b")).is_err());
}
