//! Compares two builds of Lifeboat that were measured in turns: takes the figures of every turn, returns the medians as a
//! table and a message for each figure of the new build that exceeds the old build's by too much. No effects. Called by
//! `bench cluster` and `bench volumes` if they run with `--baseline`.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

/// How often each build is measured by default (`--rounds`). The median of five does not change if two turns are disturbed.
pub(super) const ROUNDS: u16 = 5;
/// The largest allowed ratio of the new build's figure to the old build's.
const LIMIT: f64 = 1.10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// The build that `--baseline` names.
    Old,
    New,
}

impl Build {
    /// The name of the product in rows.
    pub(super) fn product(self) -> &'static str {
        match self {
            Self::Old => "baseline",
            Self::New => "lifeboat",
        }
    }
}

/// The order of work: old, new, old, new, so that a slow period of the machine affects both builds.
pub(super) fn turns<T: Clone>(both: &[T; 2], rounds: u16) -> Vec<T> {
    (0..rounds).flat_map(|_| both.clone()).collect()
}

/// One figure of one turn; less is better.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) build: Build,
    /// What was measured, such as `time of the first backup`.
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) value: f64,
}

/// The medians of one figure. A build has none if the figure was never measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    name: String,
    unit: &'static str,
    old: Option<f64>,
    new: Option<f64>,
}

impl Compared {
    fn ratio(&self) -> Option<f64> {
        let (old, new) = self.old.zip(self.new)?;
        (old > 0.0).then(|| new / old)
    }

    /// Why the figure fails the comparison; None if it does not.
    fn objection(&self) -> Option<String> {
        let Self { name, unit, .. } = self;
        let (Some(old), Some(new)) = (self.old, self.new) else {
            let build = if self.old.is_some() { "old" } else { "new" };
            return Some(format!("{name} was seen with the {build} build only, so it cannot be compared"));
        };
        let Some(ratio) = self.ratio() else {
            return Some(format!("{name} of the old build is {old:.2} {unit}, which gives no ratio"));
        };
        (ratio > LIMIT).then(|| {
            format!(
                "{name} is {new:.2} {unit}, {ratio:.3} times the {old:.2} {unit} of the old build; the limit is {LIMIT:.2} times"
            )
        })
    }
}

/// One entry for each figure, in the order in which they were first measured.
pub(super) fn compare(figures: &[Figure]) -> Vec<Compared> {
    let mut compared: Vec<Compared> = Vec::new();
    for Figure { name, unit, .. } in figures {
        if compared.iter().any(|each| each.name == *name) {
            continue;
        }
        let of = |build| {
            let same = figures.iter().filter(|each| each.name == *name && each.build == build);
            median(same.map(|each| each.value).collect())
        };
        compared.push(Compared { name: name.clone(), unit, old: of(Build::Old), new: of(Build::New) });
    }
    compared
}

/// The median: the middle value, or the mean of the middle two; None if there are no values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = values.get(values.len() / 2 - 1)?;
    Some(f64::midpoint(*lower, upper))
}

/// The table in Markdown.
pub(super) fn table(compared: &[Compared]) -> String {
    let mut text = "| figure | old | new | ratio |\n| --- | --- | --- | --- |\n".to_owned();
    for each in compared {
        let shown = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.2}"));
        let Compared { name, unit, old, new } = each;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {name}, {unit} | {} | {} | {} |",
            shown(*old),
            shown(*new),
            shown(each.ratio())
        );
    }
    text
}

/// Fails with a message for each figure that is over the limit or cannot be compared.
pub(super) fn judge(compared: &[Compared]) -> Result<()> {
    ensure!(!compared.is_empty(), "not one figure was measured");
    let objections: Vec<String> = compared.iter().filter_map(Compared::objection).collect();
    ensure!(objections.is_empty(), "{}", objections.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(build: Build, name: &str, values: &[f64]) -> Vec<Figure> {
        values.iter().map(|value| Figure { build, name: name.into(), unit: "s", value: *value }).collect()
    }

    fn both(old: &[f64], new: &[f64]) -> Vec<Compared> {
        compare(&[figures(Build::Old, "time", old), figures(Build::New, "time", new)].concat())
    }

    #[test]
    fn builds_take_turns() {
        let both = [Build::Old, Build::New];
        assert_eq!(turns(&both, 2), [Build::Old, Build::New, Build::Old, Build::New]);
    }

    #[test]
    fn the_median_is_not_moved_by_turns_that_were_disturbed() {
        assert_eq!(median(vec![9.0, 1.0, 2.0, 90.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![7.0]), Some(7.0));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn figures_are_compared_by_name_and_keep_their_order() {
        let seen = [
            figures(Build::Old, "time", &[2.0]),
            figures(Build::Old, "memory", &[50.0]),
            figures(Build::New, "memory", &[60.0]),
            figures(Build::New, "time", &[2.1]),
        ];
        let text = table(&compare(&seen.concat()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "| figure | old | new | ratio |",
                "| --- | --- | --- | --- |",
                "| time, s | 2.00 | 2.10 | 1.05 |",
                "| memory, s | 50.00 | 60.00 | 1.20 |",
            ]
        );
    }

    #[test]
    fn a_tenth_more_is_accepted_and_what_is_over_is_named() {
        assert!(judge(&both(&[10.0], &[11.0])).is_ok());
        assert!(judge(&both(&[10.0], &[2.0])).is_ok(), "faster is no objection");
        let error = judge(&both(&[10.0], &[11.01])).expect_err("over the limit").to_string();
        assert_eq!(
            error,
            "time is 11.01 s, 1.101 times the 10.00 s of the old build; the limit is 1.10 times"
        );
    }

    #[test]
    fn what_cannot_be_compared_is_an_objection() {
        let error = judge(&both(&[10.0], &[])).expect_err("seen once").to_string();
        assert!(error.contains("time was seen with the old build only"), "{error}");
        let error = judge(&both(&[0.0], &[1.0])).expect_err("no ratio").to_string();
        assert!(error.contains("gives no ratio"), "{error}");
        assert!(judge(&[]).is_err());
        assert!(table(&both(&[10.0], &[])).contains("| time, s | 10.00 |  |  |"));
    }
}
