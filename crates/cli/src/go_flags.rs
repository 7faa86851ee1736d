//! Flags as Go's programs take them: `--wait=true` and `--wait=false` for a flag that needs no value. Takes the words of a
//! command line and the command tree; gives the words as clap reads them. Values that may be missing keep theirs.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// Rewrites the flags of the command that the words name.
pub(crate) fn plain(tree: &Command, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut plain: Vec<OsString> = words.next().into_iter().collect();
    // The commands on the way: flags of the outer ones may stand behind the inner ones.
    let mut path = vec![tree];
    let mut is_value = false;
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        if text == "--" {
            plain.push(word);
            plain.extend(words);
            break;
        }
        if std::mem::take(&mut is_value) {
            plain.push(word);
            continue;
        }
        if !text.starts_with('-') {
            let inner = path.last().and_then(|command| command.find_subcommand(&word));
            path.extend(inner);
            plain.push(word);
            continue;
        }
        match text.split_once('=') {
            Some((flag, value)) if find(&path, flag).is_some_and(is_switch) => match go_bool(value) {
                Some(true) => plain.push(flag.into()),
                Some(false) => {}
                // Clap says that the flag takes no such value.
                None => plain.push(word),
            },
            Some(_) => plain.push(word),
            None => {
                is_value = find(&path, text).is_some_and(wants_word);
                plain.push(word);
            }
        }
    }
    plain
}

/// The flag, looked for from the inside out.
fn find<'a>(path: &[&'a Command], word: &str) -> Option<&'a Arg> {
    path.iter().rev().find_map(|command| command.get_arguments().find(|arg| is_called(arg, word)))
}

fn is_called(arg: &Arg, word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        return arg.get_long() == Some(long) || aliases.contains(&long);
    }
    let short = word.strip_prefix('-').unwrap_or_default();
    arg.get_short().is_some_and(|letter| OsStr::new(short) == OsStr::new(letter.encode_utf8(&mut [0; 4])))
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Whether the next word is its value.
fn wants_word(arg: &Arg) -> bool {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    takes && !arg.is_require_equals_set() && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
}

/// What Go's strconv.ParseBool takes.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::yes("backup create b --wait=true", "backup create b --wait")]
    #[case::no("backup create b --wait=false", "backup create b")]
    #[case::short("backup create b -w=true", "backup create b -w")]
    #[case::value_that_may_be_missing(
        "backup create b --snapshot-volumes=false",
        "backup create b --snapshot-volumes=false"
    )]
    #[case::not_a_switch("backup create b --ttl=1", "backup create b --ttl=1")]
    #[case::verb_first("create backup b --wait=1", "create backup b --wait")]
    #[case::value_called_like_a_command("-n backup restore get --show-labels=F", "-n backup restore get")]
    #[case::other_text("backup delete b --confirm=maybe", "backup delete b --confirm=maybe")]
    #[case::behind_two_dashes("backup delete -- --confirm=true", "backup delete -- --confirm=true")]
    fn go_programs_take(#[case] line: &str, #[case] expected: &str) {
        let mut tree = crate::commands::command();
        tree.build();
        let words = std::iter::once("lifeboat").chain(line.split(' ')).map(OsString::from);
        let plain = plain(&tree, words);
        let expected: Vec<_> = std::iter::once("lifeboat").chain(expected.split(' ')).collect();
        assert_eq!(plain, expected);
    }
}
