//! Renders a template for a summary.

use serde_json::Value;

use super::{Expression, Node, Summary, Template};

/// Where the rendered text is used, which determines how values are escaped. The template's own text is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stash::hooks) enum Escape {
    /// A body or a field of a form.
    None,
    /// A path or query of a URL: percent signs for all but letters, digits and `-._~`.
    Url,
    /// The value of a header: blanks for control characters.
    Header,
}

/// The longest rendered text, in bytes; what is beyond is left out.
pub(super) const LONGEST: usize = 1024 * 1024;

impl Template {
    /// The text for a summary, at most [`LONGEST`] bytes.
    pub fn render(&self, summary: &Summary) -> String {
        self.render_as(summary, Escape::None)
    }

    pub(in crate::stash::hooks) fn render_as(&self, summary: &Summary, escape: Escape) -> String {
        let mut text = String::new();
        nodes(&self.nodes, summary, escape, &mut text);
        text
    }
}

fn nodes(list: &[Node], summary: &Summary, escape: Escape, text: &mut String) {
    for node in list {
        match node {
            Node::Text(plain) => push(text, plain),
            Node::Print(expression) => push(text, &escaped(&printed(&value(expression, summary)), escape)),
            Node::If(branches, otherwise) => {
                let holds = |(condition, _): &&(Expression, Vec<Node>)| is_true(&value(condition, summary));
                let chosen = branches.iter().find(holds).map_or(otherwise, |(_, nodes)| nodes);
                nodes(chosen, summary, escape, text);
            }
        }
    }
}

fn push(text: &mut String, more: &str) {
    let room = LONGEST.saturating_sub(text.len()).min(more.len());
    let end = (0..=room).rev().find(|at| more.is_char_boundary(*at)).unwrap_or(0);
    text.push_str(&more[..end]);
}

fn value(expression: &Expression, summary: &Summary) -> Value {
    match expression {
        Expression::Field(field) => field.of(summary),
        Expression::Text(text) => Value::String(text.clone()),
        Expression::Number(number) => Value::from(*number),
        Expression::Truth(truth) => Value::Bool(*truth),
        Expression::Eq(first, others) => {
            let first = value(first, summary);
            Value::Bool(others.iter().any(|other| value(other, summary) == first))
        }
        Expression::ToJson(inner) => Value::String(value(inner, summary).to_string()),
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// As Go has it: empty texts, zero and false are not true.
fn is_true(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Bool(truth) => *truth,
        _ => false,
    }
}

fn escaped(text: &str, escape: Escape) -> String {
    match escape {
        Escape::None => text.to_owned(),
        Escape::Header => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        Escape::Url => text.bytes().fold(String::new(), |mut all, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                all.push(char::from(byte));
                all
            } else {
                format!("{all}%{byte:02X}")
            }
        }),
    }
}
