//! Which program a command runs, and which of several commands gets the arguments. Pure.

/// Programs that start another one, whose name follows.
const WRAPPERS: [&str; 9] = ["exec", "command", "env", "nice", "ionice", "nohup", "sudo", "time", "stdbuf"];
/// Words that stand before a command in a compound one.
const BEFORE: [&str; 9] = ["!", "{", "if", "then", "elif", "else", "while", "until", "do"];

/// The program of a command, without its directory; None if it is not certain.
pub(super) fn program(command: &str) -> Option<&str> {
    let mut is_wrapped = false;
    for word in command.split_ascii_whitespace() {
        let name = word.trim_matches(['"', '\'']);
        let is_option = is_wrapped && name.starts_with('-');
        let is_redirection = word.contains(['<', '>']);
        if is_assignment(word) || is_option || is_redirection || BEFORE.contains(&word) {
            continue;
        }
        let name = name.rsplit('/').next().unwrap_or_default();
        if WRAPPERS.contains(&name) {
            is_wrapped = true;
            continue;
        }
        return (!name.is_empty() && !name.contains(['$', '`', '"', '\'', '\\'])).then_some(name);
    }
    None
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(is_name)
    })
}

/// Whether a command gets the arguments.
pub(super) fn takes_arguments(command: &str) -> bool {
    ["$@", "$*", "${@", "${*"].iter().any(|text| command.contains(text))
}

/// The program that gets the arguments in a line with several commands.
pub(super) fn program_with_arguments(line: &str) -> Option<&str> {
    commands(line).find(|command| takes_arguments(command)).and_then(program)
}

/// All programs that a line with several commands runs.
pub(super) fn programs(line: &str) -> impl Iterator<Item = &str> {
    commands(line).filter_map(program)
}

fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split(['|', '&', ';', '\n', '(', ')'])
}
