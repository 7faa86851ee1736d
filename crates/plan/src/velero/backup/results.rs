//! The messages in a backup's results, in the format that upstream's clients show.

use std::fmt::Write as _;

/// The object that a warning or an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultSubject<'a> {
    /// `pods`, `deployments.apps`.
    pub resource: Option<&'a str>,
    pub name: Option<&'a str>,
}

/// Formats ` resource: /pods name: /db-0 message: /… error: /…`, as upstream builds it from its log.
pub fn result_message(about: &ResultSubject<'_>, message: &str, error: Option<&str>) -> String {
    let mut text = String::new();
    let parts =
        [("resource", about.resource), ("name", about.name), ("message", Some(message)), ("error", error)];
    for (key, value) in parts {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = write!(text, " {key}: /{value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_upstreams() {
        let about = ResultSubject { resource: Some("pods"), name: Some("db-0") };
        assert_eq!(
            result_message(&about, "Error executing hook", Some("timed out")),
            " resource: /pods name: /db-0 message: /Error executing hook error: /timed out"
        );
        assert_eq!(result_message(&ResultSubject::default(), "odd", None), " message: /odd");
    }
}
