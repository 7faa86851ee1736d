//! Variables of Tasks and Functions: `${NAME}` and `${NAME:=default}` in all strings of an object. Takes the object and the
//! variables; gives the object with their values, or an error that names the variable, the field and the Function.
//!
//! - [`Variables::new`]: the variables of one step, with upstream's precedence.
//! - [`system`]: upstream's own variables, from the invoker, its repository and its target.
//!
//! `$${` stands for `${`, for scripts with variables of their own. A `$` before anything else stays as it is.

mod repository;
mod system;

pub use system::{AppVariables, RepositoryVariables, SystemVariables, TargetVariables, system};

use std::collections::BTreeMap;

use lifeboat_api::stash::Param;
use serde_json::Value;

/// The longest string after replacement, in bytes.
const LONGEST: usize = 256 * 1024;

/// The values of the variables of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

/// Why the variables of a Function or Task cannot be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {problem}")]
pub struct VariableError {
    /// The Function or Task, for example `Function mysql-backup`.
    pub object: String,
    /// The field, for example `args[2]`.
    pub field: String,
    pub problem: VariableProblem,
}

/// What is wrong with one string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableProblem {
    #[error(
        "variable {name:?} has no value; add it to task.params of the invoker, or write ${{{name}:=default}}"
    )]
    NoValue { name: String },
    #[error("{text:?} is not closed with \"}}\"")]
    Unclosed { text: String },
    #[error(
        "{text:?} is not supported; there are ${{NAME}} and ${{NAME:=default}}, and $${{ for a plain ${{"
    )]
    Unsupported { text: String },
    #[error("the text would have more than {LONGEST} bytes")]
    TooLong,
}

impl Variables {
    /// The variables of a step: its own params, over them those of the system, over them the params of the invoker's task.
    pub fn new(step: &[Param], system: &BTreeMap<String, String>, task: &[Param]) -> Self {
        let pairs = |params: &[Param]| -> Vec<_> {
            params.iter().map(|param| (param.name.clone(), param.value.clone())).collect()
        };
        let mut values = BTreeMap::new();
        values.extend(pairs(step));
        values.extend(system.clone());
        values.extend(pairs(task));
        Self(values)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces the variables in all strings of an object; keys stay as they are. `object`: how errors name it.
    pub fn replace(&self, object: &str, value: &Value) -> Result<Value, VariableError> {
        self.replace_at(value, &mut Vec::new()).map_err(|(field, problem)| VariableError {
            object: object.to_owned(),
            field,
            problem,
        })
    }

    fn replace_at(&self, value: &Value, path: &mut Vec<Step>) -> Result<Value, (String, VariableProblem)> {
        match value {
            Value::String(text) => {
                self.replace_text(text).map(Value::String).map_err(|problem| (shown(path), problem))
            }
            Value::Array(list) => {
                let item = |(index, item): (usize, &Value)| self.below(Step::Index(index), item, path);
                list.iter().enumerate().map(item).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(fields) => {
                let mut replaced = serde_json::Map::new();
                for (name, field) in fields {
                    replaced.insert(name.clone(), self.below(Step::Field(name.clone()), field, path)?);
                }
                Ok(Value::Object(replaced))
            }
            other => Ok(other.clone()),
        }
    }

    fn below(
        &self,
        step: Step,
        value: &Value,
        path: &mut Vec<Step>,
    ) -> Result<Value, (String, VariableProblem)> {
        path.push(step);
        let replaced = self.replace_at(value, path);
        path.pop();
        replaced
    }

    /// Replaces the variables in one text. Values are taken as they are: a `${` in them is not replaced again.
    pub fn replace_text(&self, text: &str) -> Result<String, VariableProblem> {
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                push(&mut replaced, &rest[..start - 1])?;
                push(&mut replaced, "${")?;
                rest = &rest[start + 2..];
                continue;
            }
            push(&mut replaced, &rest[..start])?;
            let after = &rest[start + 2..];
            let Some(length) = after.find('}') else {
                return Err(VariableProblem::Unclosed { text: rest[start..].to_owned() });
            };
            push(&mut replaced, self.value(&after[..length])?)?;
            rest = &after[length + 1..];
        }
        push(&mut replaced, rest)?;
        Ok(replaced)
    }

    /// The value of what is between the braces. As in a shell, `:=` also stands in for an empty value.
    fn value<'a>(&'a self, inner: &'a str) -> Result<&'a str, VariableProblem> {
        let (name, default) = match inner.split_once(":=") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let is_name = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_name || default.is_some_and(|default| default.contains("${")) {
            return Err(VariableProblem::Unsupported { text: format!("${{{inner}}}") });
        }
        match (self.get(name), default) {
            (Some(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default),
            (Some(value), None) => Ok(value),
            (None, None) => Err(VariableProblem::NoValue { name: name.to_owned() }),
        }
    }
}

fn push(text: &mut String, more: &str) -> Result<(), VariableProblem> {
    if text.len() + more.len() > LONGEST {
        return Err(VariableProblem::TooLong);
    }
    text.push_str(more);
    Ok(())
}

/// One step of the path to a field.
enum Step {
    Field(String),
    Index(usize),
}

fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text = format!("{text}.{name}"),
            Step::Index(index) => text = format!("{text}[{index}]"),
        }
    }
    text
}

#[cfg(test)]
mod tests;
