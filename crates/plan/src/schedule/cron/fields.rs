//! Validates the five fields one by one. The parser behind it accepts more than upstream's (`L`, `W`, `#`); what
//! upstream does not accept is refused here, with a message that names the field and its valid values.

struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    // Sunday is 0 or 7.
    Field { name: "day of week", least: 0, most: 7, names: &DAYS },
];

/// The problem of the first invalid field.
pub(super) fn problem(text: &str) -> Option<String> {
    let wrong = |(field, text): (&Field, &str)| text.split(',').find_map(|part| field.problem(part));
    FIELDS.iter().zip(text.split_whitespace()).find_map(wrong)
}

impl Field {
    fn problem(&self, part: &str) -> Option<String> {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        if let Some(step) = step.filter(|step| !step.parse::<u16>().is_ok_and(|step| step > 0)) {
            return Some(format!("the {} {part:?} has the step {step:?}; write a number above 0", self.name));
        }
        if matches!(range, "*" | "?") {
            return None;
        }
        range.splitn(2, '-').find(|value| !self.holds(value)).map(|value| {
            let named = match self.names {
                [first, .., last] => format!(" or {first} to {last}"),
                _ => String::new(),
            };
            format!(
                "{value:?} is not a valid {}; use {} to {}{named}, or \"*\"",
                self.name, self.least, self.most
            )
        })
    }

    fn holds(&self, value: &str) -> bool {
        let number = value.parse::<u8>().is_ok_and(|number| (self.least..=self.most).contains(&number));
        number || self.names.iter().any(|name| name.eq_ignore_ascii_case(value))
    }
}
