//! Parses the pieces of a template into nodes, and the tokens of an action into an expression whose kind is known.

use super::lexer::{self, Piece, Token};
use super::summary::Field;
use super::{DEEPEST, Expression, Node, TemplateError};

type Result<T> = std::result::Result<T, TemplateError>;

/// An `if` that is open: the branches that are complete, the condition of the one that is read (None after `else`), and the nodes of
/// what is around the `if`.
struct Open {
    branches: Vec<(Expression, Vec<Node>)>,
    condition: Option<Expression>,
    around: Vec<Node>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Node>> {
    let mut open: Vec<Open> = Vec::new();
    let mut nodes = Vec::new();
    for piece in lexer::pieces(text)? {
        match piece {
            Piece::Text(text) => nodes.push(Node::Text(text.to_owned())),
            Piece::Action(action) => step(action, &mut open, &mut nodes)?,
        }
    }
    if open.is_empty() { Ok(nodes) } else { Err(TemplateError::NoEnd) }
}

fn step(action: &str, open: &mut Vec<Open>, nodes: &mut Vec<Node>) -> Result<()> {
    let tokens = lexer::tokens(action)?;
    let word =
        |token: Option<&Token>, wanted: &str| matches!(token, Some(Token::Word(word)) if word == wanted);
    let [first, second] = [tokens.first(), tokens.get(1)];
    if word(first, "if") {
        if open.len() >= DEEPEST {
            return Err(TemplateError::TooDeep);
        }
        let condition = Some(condition(&tokens[1..])?);
        open.push(Open { branches: Vec::new(), condition, around: std::mem::take(nodes) });
    } else if word(first, "else") {
        let current = open.last_mut().ok_or(TemplateError::NoIf { word: "else" })?;
        // After a plain `else` only `end` may follow.
        let before = current.condition.take().ok_or(TemplateError::NoIf { word: "else" })?;
        current.branches.push((before, std::mem::take(nodes)));
        if word(second, "if") {
            current.condition = Some(condition(&tokens[2..])?);
        } else {
            nothing_left(&tokens[1..])?;
        }
    } else if word(first, "end") {
        nothing_left(&tokens[1..])?;
        let Open { mut branches, condition, around } =
            open.pop().ok_or(TemplateError::NoIf { word: "end" })?;
        let mut last = std::mem::replace(nodes, around);
        if let Some(condition) = condition {
            branches.push((condition, std::mem::take(&mut last)));
        }
        nodes.push(Node::If(branches, last));
    } else {
        let expression = whole(&tokens, || format!("{{{{{action}}}}}"))?;
        nodes.push(Node::Print(plain(expression)?));
    }
    Ok(())
}

fn condition(tokens: &[Token]) -> Result<Expression> {
    plain(whole(tokens, || "if".to_owned())?)
}

/// The expression of all tokens. `place`: how an error names an empty one.
fn whole(tokens: &[Token], place: impl Fn() -> String) -> Result<Expression> {
    if tokens.is_empty() {
        return Err(TemplateError::Empty { what: place() });
    }
    let (expression, rest) = expression(tokens, 0)?;
    nothing_left(rest)?;
    Ok(expression)
}

fn nothing_left(tokens: &[Token]) -> Result<()> {
    match tokens.first() {
        None => Ok(()),
        Some(token) => Err(TemplateError::Surplus { what: shown(token) }),
    }
}

/// A call with its arguments, or one operand; and the tokens after it.
fn expression(tokens: &[Token], depth: usize) -> Result<(Expression, &[Token])> {
    match tokens.first() {
        Some(Token::Word(word)) if word == "eq" => eq(&tokens[1..], depth),
        Some(Token::Word(word)) if word == "toJson" => {
            let (argument, rest) = operand(&tokens[1..], depth)?
                .ok_or(TemplateError::Arguments { what: "toJson", expected: "one value" })?;
            Ok((Expression::ToJson(Box::new(argument)), rest))
        }
        _ => operand(tokens, depth)?.ok_or(TemplateError::Empty { what: "()".to_owned() }),
    }
}

fn eq(tokens: &[Token], depth: usize) -> Result<(Expression, &[Token])> {
    const EXPECTED: TemplateError = TemplateError::Arguments { what: "eq", expected: "two values or more" };
    let (first, mut rest) = operand(tokens, depth)?.ok_or(EXPECTED)?;
    let first = plain(first)?;
    let mut others = Vec::new();
    while let Some((other, after)) = operand(rest, depth)? {
        let other = plain(other)?;
        if kind(&other) != kind(&first) {
            return Err(TemplateError::Mixed);
        }
        others.push(other);
        rest = after;
    }
    if others.is_empty() {
        return Err(EXPECTED);
    }
    Ok((Expression::Eq(Box::new(first), others), rest))
}

/// One value; None at the end of the tokens or of what is in parentheses.
fn operand(tokens: &[Token], depth: usize) -> Result<Option<(Expression, &[Token])>> {
    let Some((token, rest)) = tokens.split_first() else { return Ok(None) };
    let expression = match token {
        Token::Close => return Ok(None),
        Token::Open if depth >= DEEPEST => return Err(TemplateError::TooDeep),
        Token::Open => {
            let (inner, rest) = expression(rest, depth + 1)?;
            return match rest.split_first() {
                Some((Token::Close, rest)) => Ok(Some((inner, rest))),
                Some((token, _)) => Err(TemplateError::Surplus { what: shown(token) }),
                None => Err(TemplateError::Text { text: "(".to_owned() }),
            };
        }
        Token::Field(name) => Expression::Field(
            Field::named(name).ok_or_else(|| TemplateError::UnknownField { field: name.clone() })?,
        ),
        Token::Text(text) => Expression::Text(text.clone()),
        Token::Number(number) => Expression::Number(*number),
        Token::Word(word) if word == "true" => Expression::Truth(true),
        Token::Word(word) if word == "false" => Expression::Truth(false),
        Token::Word(word) => return Err(TemplateError::Unsupported { what: word.clone() }),
    };
    Ok(Some((expression, rest)))
}

/// The kinds of values that can be compared.
#[derive(PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Truth,
    Group,
}

fn kind(expression: &Expression) -> Kind {
    match expression {
        Expression::Field(field) if field.is_group() => Kind::Group,
        Expression::Field(Field::RetryLeft) | Expression::Number(_) => Kind::Number,
        Expression::Field(_) | Expression::Text(_) | Expression::ToJson(_) => Kind::Text,
        Expression::Truth(_) | Expression::Eq(..) => Kind::Truth,
    }
}

/// Refuses a group of fields, which has no text of its own.
fn plain(expression: Expression) -> Result<Expression> {
    match &expression {
        Expression::Field(field) if field.is_group() => {
            Err(TemplateError::Group { field: field.name().to_owned() })
        }
        _ => Ok(expression),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Field(text) | Token::Word(text) | Token::Text(text) => text.clone(),
        Token::Number(number) => number.to_string(),
        Token::Open => "(".to_owned(),
        Token::Close => ")".to_owned(),
    }
}
