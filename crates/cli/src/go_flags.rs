//! Boolean flags in the form of Go programs: `--wait=true` and `--wait=false`. Takes the arguments of the process and
//! the command tree, and returns the arguments as clap parses them. Flags with an optional value are left unchanged.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// Rewrites the flags of the command that the arguments name.
pub(crate) fn plain(tree: &Command, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut plain: Vec<OsString> = arguments.next().into_iter().collect();
    // The path of commands: flags of outer commands are also accepted after inner ones.
    let mut path = vec![tree];
    let mut is_value = false;
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            plain.push(argument);
            plain.extend(arguments);
            break;
        }
        if std::mem::take(&mut is_value) {
            plain.push(argument);
            continue;
        }
        if !text.starts_with('-') {
            let inner = path.last().and_then(|command| command.find_subcommand(&argument));
            path.extend(inner);
            plain.push(argument);
            continue;
        }
        match text.split_once('=') {
            Some((flag, value)) if find(&path, flag).is_some_and(is_switch) => match go_bool(value) {
                Some(true) => plain.push(flag.into()),
                Some(false) => {}
                // Left unchanged, so that clap reports the wrong value.
                None => plain.push(argument),
            },
            Some(_) => plain.push(argument),
            None => {
                is_value = find(&path, text).is_some_and(takes_value);
                plain.push(argument);
            }
        }
    }
    plain
}

/// Finds the flag, searching from the innermost command outwards.
fn find<'a>(path: &[&'a Command], argument: &str) -> Option<&'a Arg> {
    path.iter().rev().find_map(|command| command.get_arguments().find(|arg| is_called(arg, argument)))
}

fn is_called(arg: &Arg, argument: &str) -> bool {
    if let Some(long) = argument.strip_prefix("--") {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        return arg.get_long() == Some(long) || aliases.contains(&long);
    }
    let short = argument.strip_prefix('-').unwrap_or_default();
    arg.get_short().is_some_and(|letter| OsStr::new(short) == OsStr::new(letter.encode_utf8(&mut [0; 4])))
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Whether the next argument is the flag's value.
fn takes_value(arg: &Arg) -> bool {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    takes && !arg.is_require_equals_set() && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
}

/// The values that Go's strconv.ParseBool accepts.
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
        let arguments = std::iter::once("lifeboat").chain(line.split(' ')).map(OsString::from);
        let plain = plain(&tree, arguments);
        let expected: Vec<_> = std::iter::once("lifeboat").chain(expected.split(' ')).collect();
        assert_eq!(plain, expected);
    }
}
