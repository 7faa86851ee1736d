//! The validation rules that several kinds share, as CEL for their schema.
//!
//! Each function returns one rule for a field's value; `#[x_kube(validation = …)]` on the field puts it into the CRD.
//! Rules of a single kind are defined with that kind. Every list or string that a rule iterates over has a bound,
//! because the API server refuses rules that could become expensive.

use kube::core::{Reason, Rule};

/// A Go duration without sign: "90s", "1h30m".
const DURATION: &str = "(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+";

/// A duration that Go's parser accepts, zero or longer.
pub(super) fn duration() -> Rule {
    Rule::new(format!("self == '0' || (self.matches(r'^{DURATION}$') && duration(self) >= duration('0s'))"))
        .message("must be a duration such as \"90s\", \"30m\" or \"1h30m\"")
}

/// A schedule: five cron fields, `@daily` and the like, or `@every 1h30m`.
pub(super) fn schedule() -> Rule {
    Rule::new(format!("self.matches(r'{}')", schedule_pattern())).message(SCHEDULE_MESSAGE)
}

/// [`schedule`] for blueprints, which may contain a `${VARIABLE}` until the target is known.
pub(super) fn schedule_template() -> Rule {
    Rule::new(format!("self.contains('${{') || self.matches(r'{}')", schedule_pattern()))
        .message(SCHEDULE_MESSAGE)
}

/// A field that is required because of other fields: refused, with the field's path, unless `rule` holds.
pub(super) fn required(rule: &str, field: &str, message: &str) -> Rule {
    Rule::new(rule).field_path(field).message(message).reason(Reason::FieldValueRequired)
}

/// A field that is not allowed together with other fields.
pub(super) fn forbidden(rule: &str, field: &str, message: &str) -> Rule {
    Rule::new(rule).field_path(field).message(message).reason(Reason::FieldValueForbidden)
}

/// Exactly one of these optional fields is set.
pub(super) fn exactly_one_of(fields: &[&str], message: &str) -> Rule {
    let set: Vec<String> = fields.iter().map(|field| format!("has(self.{field})")).collect();
    Rule::new(format!("[{}].filter(set, set).size() == 1", set.join(", "))).message(message)
}

/// A spec of a kind with two forms has fields of only one of them.
pub(super) fn one_form(form: &[&str], earlier: &[&str]) -> Rule {
    let message = format!(
        "spec has fields of two forms: use either {}, or those of the earlier form: {}",
        form.join(", "),
        earlier.join(", ")
    );
    let rule = format!("!(({}) && ({}))", any_of(form), any_of(earlier));
    forbidden(&rule, &format!(".{}", earlier[0]), &message)
}

/// A field that one form of a kind requires: refused unless it is set, or the spec has a field of the other form.
/// A spec without a field of any form is refused, too.
pub(super) fn required_in_form(other: &[&str], field: &str) -> Rule {
    let message = format!("{field} is required in this form of the kind");
    required(&format!("has(self.{field}) || {}", any_of(other)), &format!(".{field}"), &message)
}

/// Whether any of these fields is set.
fn any_of(fields: &[&str]) -> String {
    let set: Vec<String> = fields.iter().map(|field| format!("has(self.{field})")).collect();
    set.join(" || ")
}

/// The spec must stay as it was when the object was created.
pub(super) fn immutable() -> Rule {
    Rule::new("self == oldSelf").message("spec cannot be changed; create a new object instead")
}

const SCHEDULE_MESSAGE: &str = "must be a cron expression of five fields such as \"0 3 * * *\", one of @hourly, \
    @daily, @midnight, @weekly, @monthly, @yearly, @annually, or \"@every\" and a duration such as \"@every 1h\"";

/// The syntax of the Kubernetes CronJob, with an optional time zone in front.
fn schedule_pattern() -> String {
    let minute = cron_field("[0-5]?[0-9]");
    let hour = cron_field("([01]?[0-9]|2[0-3])");
    let day = cron_field("(0?[1-9]|[12][0-9]|3[01])");
    let month = cron_field("(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))");
    let weekday = cron_field("([0-7]|(?i:sun|mon|tue|wed|thu|fri|sat))");
    let named = "@(hourly|daily|midnight|weekly|monthly|yearly|annually)";
    format!(
        r"^\s*((CRON_)?TZ=[A-Za-z0-9_+/-]+\s+)?({minute}\s+{hour}\s+{day}\s+{month}\s+{weekday}|{named}|@every\s+{DURATION})\s*$"
    )
}

/// A list of values, ranges and steps.
fn cron_field(value: &str) -> String {
    let item = format!(r"(\*|\?|{value}(-{value})?)(/[1-9][0-9]*)?");
    format!("{item}(,{item})*")
}
