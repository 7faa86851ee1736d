//! Which lines are one plain pipeline, and where it is cut.

use std::process::Command;

use proptest::prelude::*;
use rstest::rstest;

use crate::stash::agents::line::{LineError, Shape, is_for_a_shell, shape};

#[rstest]
#[case::one("dump", &["dump"])]
#[case::two("dump | restic backup", &["dump", "restic backup"])]
#[case::without_blanks("a|b|c", &["a", "b", "c"])]
#[case::in_quotes("echo 'a|b' \"c|d\" | x", &["echo 'a|b' \"c|d\"", "x"])]
#[case::escaped(r"echo a\|b | x", &[r"echo a\|b", "x"])]
#[case::escaped_in_quotes(r#"echo "a\"|b" | x"#, &[r#"echo "a\"|b""#, "x"])]
#[case::backslash_in_single_quotes(r"echo 'a\' | x", &[r"echo 'a\'", "x"])]
#[case::substitution("echo $(a | b; c) | x", &["echo $(a | b; c)", "x"])]
#[case::substitution_in_quotes("echo \"$(a \"|\" b)\" | x", &["echo \"$(a \"|\" b)\"", "x"])]
#[case::backticks("echo `a | b` | x", &["echo `a | b`", "x"])]
#[case::expansion("echo ${a:-x|y} | x", &["echo ${a:-x|y}", "x"])]
#[case::apostrophe_in_quotes("echo \"it's\" | x", &["echo \"it's\"", "x"])]
#[case::redirections("a 2>&1 >|f <g | b 2>>h", &["a 2>&1 >|f <g", "b 2>>h"])]
#[case::over_two_lines("dump |\n  restic backup\n", &["dump", "restic backup"])]
#[case::continued("dump \\\n --all | x", &["dump \\\n --all", "x"])]
#[case::sign_in_a_word("echo a#b {} | x", &["echo a#b {}", "x"])]
fn a_plain_pipeline_is_cut(#[case] line: &str, #[case] expected: &[&str]) {
    assert_eq!(shape(line), Ok(Shape::Pipeline(expected.to_vec())));
}

#[rstest]
#[case::list("a; b | c")]
#[case::and("a && b | c")]
#[case::or("a || b")]
#[case::background("a | b &")]
#[case::two_lines("a\nb | c")]
#[case::subshell("(a; b) | c")]
#[case::group("{ a; } | c")]
#[case::group_on_the_right("a | { b }")]
#[case::negation("! a | b")]
#[case::condition("if a | b")]
#[case::loop_on_the_right("a | while read x")]
#[case::document("cat <<X | b")]
#[case::string("cat <<<x | b")]
#[case::both_streams("a |& b")]
#[case::process_substitution("a <(b) | c")]
#[case::comment("a | b # c | d")]
#[case::quote_of_some_shells(r"echo $'a\'|b' | c")]
#[case::document_in_a_substitution("echo $(cat <<X) | b")]
fn any_other_line_is_run_whole(#[case] line: &str) {
    assert_eq!(shape(line), Ok(Shape::Whole));
}

#[rstest]
#[case("echo 'a | b", LineError::Unclosed("'"))]
#[case("echo \"a | b", LineError::Unclosed("\""))]
#[case("echo `a | b", LineError::Unclosed("`"))]
#[case("echo $(a | b", LineError::Unclosed("$("))]
#[case("echo ${a | b", LineError::Unclosed("${"))]
#[case("a |", LineError::EmptySide)]
#[case("| a", LineError::EmptySide)]
#[case("a | | b", LineError::EmptySide)]
fn a_line_that_no_shell_accepts_is_refused(#[case] line: &str, #[case] expected: LineError) {
    assert_eq!(shape(line), Err(expected));
}

#[rstest]
#[case("pg_dumpall", false)]
#[case("/opt/tools/dump-all.sh", false)]
#[case("a b", true)]
#[case("a|b", true)]
#[case("$TOOL", true)]
fn a_word_with_blanks_or_signs_is_for_a_shell(#[case] word: &str, #[case] expected: bool) {
    assert_eq!(is_for_a_shell(word), expected);
}

/// The exit code and the output of a script in a shell.
fn output(script: &str) -> (Option<i32>, Vec<u8>) {
    let mut command = Command::new("sh");
    let output = command.args(["-c", script, "sh", "first", "second"]).env("VALUE", "v|w").output().unwrap();
    (output.status.code(), output.stdout)
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", " ", "|", " | cat", "'", "\"", "\\", "`", "$(", ")", "${VALUE}", "$VALUE", "\"$@\"", "'a|b'",
        "\"c|d\"", "\\|", "2>&1", "#", "\n", " echo b", "{", "}", ";",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// However a line is quoted: if it is cut, each side is a complete command, and their pipeline does what the line does.
    #[test]
    fn a_cut_line_is_the_same_pipeline(pieces in prop::collection::vec(piece(), 0..12)) {
        let line = format!("printf '%s,' {}", pieces.concat());
        if let Ok(Shape::Pipeline(sides)) = shape(&line) {
            let (code, expected) = output(&line);
            prop_assume!(code == Some(0));
            for side in &sides {
                let checked = Command::new("sh").args(["-n", "-c", side]).output().unwrap();
                prop_assert!(checked.status.success(), "{:?} of {:?}", side, line);
            }
            let quoted: Vec<_> = sides
                .iter()
                .map(|side| format!("sh -c '{}' sh \"$@\"", side.replace('\'', r"'\''")))
                .collect();
            prop_assert_eq!(output(&quoted.join(" | ")).1, expected, "{:?}", line);
        }
    }
}
