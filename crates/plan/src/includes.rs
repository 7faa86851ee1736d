//! Include and exclude lists with wildcards, for namespaces and resource types. An empty include list, or one with
//! `*`, includes everything; an exclude wins over an include.

use crate::glob::{Glob, GlobError};

/// A validated pair of lists. The default includes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Includes {
    /// Empty means everything.
    included: Vec<Glob>,
    excluded: Vec<Glob>,
}

impl Includes {
    /// Compiles the lists. Does not look for the contradictions that [`Includes::problems`] finds.
    pub fn new(included: &[String], excluded: &[String]) -> Result<Self, GlobError> {
        let everything = included.iter().any(|name| name == "*");
        Ok(Self {
            included: if everything { Vec::new() } else { globs(included)? },
            excluded: globs(excluded)?,
        })
    }

    /// Contradictions between the two lists, with upstream's messages.
    pub fn problems(included: &[String], excluded: &[String]) -> Vec<String> {
        let mut problems = Vec::new();
        if included.len() > 1 && included.iter().any(|name| name == "*") {
            problems
                .push("includes list must either contain '*' only, or a non-empty list of items".to_owned());
        }
        if excluded.iter().any(|name| name == "*") {
            problems.push("excludes list cannot contain '*'".to_owned());
        }
        for name in excluded.iter().filter(|name| *name != "*" && included.contains(name)) {
            problems.push(format!("excludes list cannot contain an item in the includes list: {name}"));
        }
        problems
    }

    pub fn takes(&self, name: &str) -> bool {
        !self.excludes(name) && self.includes(name)
    }

    /// Whether `name` is among the includes, or everything is.
    pub fn includes(&self, name: &str) -> bool {
        self.included.is_empty() || self.included.iter().any(|glob| glob.matches(name))
    }

    pub fn excludes(&self, name: &str) -> bool {
        self.excluded.iter().any(|glob| glob.matches(name))
    }

    /// Whether the include list does not restrict anything. The exclude list still may.
    pub fn includes_everything(&self) -> bool {
        self.included.is_empty()
    }

    /// Whether nothing is excluded.
    pub fn is_everything(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }
}

fn globs(names: &[String]) -> Result<Vec<Glob>, GlobError> {
    names.iter().map(|name| Glob::new(name)).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[rstest]
    #[case::nothing_said(&[], &[], true)]
    #[case::star(&["*"], &[], true)]
    #[case::named(&["shop"], &[], true)]
    #[case::not_named(&["other"], &[], false)]
    #[case::pattern(&["sh*"], &[], true)]
    #[case::excluded(&[], &["shop"], false)]
    #[case::an_exclude_wins(&["sh*"], &["s?op"], false)]
    fn lists_take(#[case] included: &[&str], #[case] excluded: &[&str], #[case] expected: bool) {
        assert_eq!(Includes::new(&list(included), &list(excluded)).unwrap().takes("shop"), expected);
    }

    #[test]
    fn contradictions_are_named() {
        let found = Includes::problems(&list(&["*", "a"]), &list(&["*", "a"]));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[2].ends_with(": a"));
    }
}
