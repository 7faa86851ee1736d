//! Known exceptions of a lint, which may only become fewer. A lint counts its findings in a crate and compares them
//! with the number in its table: a higher count fails, and so does a number that is too high.

use std::cmp::Ordering;

/// Compares the findings in `package` with the known number; returns the error, if any. `what` names the findings,
/// `table` the constant and its file.
pub(crate) fn compare(
    package: &str,
    what: &str,
    found: &[String],
    known: usize,
    table: &str,
) -> Option<String> {
    let count = found.len();
    match count.cmp(&known) {
        Ordering::Equal => None,
        Ordering::Greater => {
            let list = found.join("\n    ");
            Some(format!(
                "{package}: {what}: {count}, and at most {known} known ones are allowed:\n    {list}"
            ))
        }
        Ordering::Less => {
            let next = if count == 0 { "remove the number".to_owned() } else { format!("write {count}") };
            Some(format!("{package}: {what}: {known} known ones, but only {count} left; {next} in {table}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("finding {number}")).collect()
    }

    #[test]
    fn the_known_number_passes() {
        assert_eq!(compare("p", "things", &found(2), 2, "T"), None);
    }

    #[test]
    fn one_more_is_refused_and_all_are_listed() {
        let text = compare("p", "things", &found(2), 1, "T").unwrap();
        assert!(
            text.contains("at most 1") && text.contains("finding 0") && text.contains("finding 1"),
            "{text}"
        );
    }

    #[test]
    fn a_number_that_is_too_high_is_refused() {
        let text = compare("p", "things", &found(1), 2, "T").unwrap();
        assert!(text.ends_with("write 1 in T"), "{text}");
        let text = compare("p", "things", &[], 2, "T").unwrap();
        assert!(text.ends_with("remove the number in T"), "{text}");
    }
}
