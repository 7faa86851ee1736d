//! Templates of hooks: the subset of Go's templates that notifications need. It has the fields of the [`Summary`],
//! `if`, `else`, `end`, `eq` and `toJson`; anything else is an error that names it. A template is checked completely
//! when it is parsed, so a parsed template always renders.

mod lexer;
mod parser;
mod render;
mod summary;

pub(super) use render::Escape;
pub use summary::{InvokerSummary, StatusSummary, Summary, TargetSummary};

use summary::Field;

/// The longest template, in bytes.
const LONGEST: usize = 64 * 1024;
/// The deepest nesting of `if` and of parentheses.
const DEEPEST: usize = 16;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    nodes: Vec<Node>,
}

/// Why a text is not a supported template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the template has {bytes} bytes; the most are {LONGEST}")]
    TooLong { bytes: usize },
    #[error("the template is nested deeper than {DEEPEST} levels")]
    TooDeep,
    #[error("\"{{{{\" after byte {at} has no \"}}}}\"")]
    Unclosed { at: usize },
    #[error(
        "{what:?} is not supported; there are fields such as .Status.Phase, if, else, end, eq and toJson"
    )]
    Unsupported { what: String },
    #[error("there is no field {field:?}; there are {known}", known = Field::names())]
    UnknownField { field: String },
    #[error("a text is not closed: {text:?}")]
    Text { text: String },
    #[error("{what:?} is empty")]
    Empty { what: String },
    #[error("{word:?} stands where no \"if\" is open")]
    NoIf { word: &'static str },
    #[error("an \"if\" has no \"end\"")]
    NoEnd,
    #[error("{what:?} needs {expected}")]
    Arguments { what: &'static str, expected: &'static str },
    #[error("{what:?} follows a complete expression")]
    Surplus { what: String },
    #[error("a group of fields such as {field} can only be written with toJson")]
    Group { field: String },
    #[error("eq compares a text with a number or a truth value; both sides must be alike")]
    Mixed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Text(String),
    Print(Expression),
    /// The branches in their order, then the content that is used if no condition is true.
    If(Vec<(Expression, Vec<Node>)>, Vec<Node>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    Field(Field),
    Text(String),
    Number(i64),
    Truth(bool),
    /// Whether the first equals one of the others.
    Eq(Box<Expression>, Vec<Expression>),
    ToJson(Box<Expression>),
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.len() > LONGEST {
            return Err(TemplateError::TooLong { bytes: text.len() });
        }
        Ok(Self { nodes: parser::parse(text)? })
    }
}

#[cfg(test)]
mod tests;
