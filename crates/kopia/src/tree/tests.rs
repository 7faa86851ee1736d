use super::*;

fn parsed(entries: &str) -> Result<Vec<Entry>> {
    let entries = parse(format!(r#"{{"stream":"kopia:directory","entries":{entries}}}"#).as_bytes())?;
    check_names(&entries)?;
    Ok(distinct(entries))
}

fn names(entries: &str) -> Vec<String> {
    parsed(entries).unwrap().iter().map(|entry| entry.node.display_name().into_owned()).collect()
}

#[rstest::rstest]
#[case("040000755", 0o4755)]
#[case("020000770", 0o2770)]
#[case("04000777", 0o1777)]
#[case("0600", 0o600)]
#[case("020000000755", 0o755)]
fn modes_are_go_modes(#[case] mode: &str, #[case] expected: u32) {
    let entries = parsed(&format!(r#"[{{"name":"a","type":"f","mode":"{mode}","obj":"aa"}}]"#)).unwrap();
    assert_eq!(entries[0].node.mode.permissions(), expected);
}

#[test]
fn values_that_are_left_out_are_zero_and_an_empty_directory_has_null() {
    let entries =
        parsed(r#"[{"name":"a","type":"f","mtime":"1965-01-02T03:04:05.123456789Z","obj":"aa"}]"#).unwrap();
    let node = &entries[0].node;
    assert_eq!((node.mode.permissions(), node.size, node.uid, node.gid), (0, 0, 0, 0));
    assert_eq!((node.mtime.seconds, node.mtime.nanoseconds), (-157_668_955, 123_456_789));
    assert!(parsed("null").unwrap().is_empty());
}

#[rstest::rstest]
#[case::empty("")]
#[case::here(".")]
#[case::parent("..")]
#[case::slash("a/b")]
#[case::absolute("/etc")]
#[case::nul("a\\u0000b")]
fn names_that_no_file_can_have_are_refused(#[case] name: &str) {
    assert!(parsed(&format!(r#"[{{"name":"{name}","type":"f","obj":"aa"}}]"#)).is_err());
}

#[rstest::rstest]
#[case(r#"[{"name":"a","type":"b","obj":"aa"}]"#, "a kind of entry")]
#[case(r#"[{"name":"a","type":"f","mode":"rw","obj":"aa"}]"#, "its mode")]
#[case(r#"[{"name":"a","type":"f","mtime":"now","obj":"aa"}]"#, "its time")]
#[case(r#"[{"name":"a","type":"f","obj":"../aa"}]"#, "an object ID")]
#[case(r#"[{"name":"a","type":"f","size":-1,"obj":"aa"}]"#, "its JSON")]
fn unknown_values_are_refused_by_name(#[case] entries: &str, #[case] expected: &str) {
    let error = parsed(entries).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn another_stream_is_refused_by_name() {
    let error = parse(br#"{"stream":"kopia:disk","entries":[]}"#).unwrap_err().to_string();
    assert!(error.contains("'kopia:disk'"), "{error}");
}

#[test]
fn equal_names_become_different_ones() {
    let entry = |name: &str| format!(r#"{{"name":"{name}","type":"f","obj":"aa"}}"#);
    let list = [entry("a"), entry("a"), entry("a~2"), entry("b"), entry("a")].join(",");
    assert_eq!(names(&format!("[{list}]")), ["a", "a~3", "a~2", "b", "a~4"]);
}

proptest::proptest! {
    #[test]
    fn random_entries_never_panic(text in r#"\{"stream":"kopia:directory","entries":\[[{}",:a-z0-9./T-]{0,80}\]\}"#) {
        let _ = parse(text.as_bytes());
    }
}
