//! A description as a tree, printed as text or JSON. Labels and values are added in the order in which they are
//! printed.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_plan::items::waits::{Wait, Waits};
use serde_json::{Map, Value, json};

/// A value of a description.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Text(String),
    /// A text, and its value in JSON.
    Said(String, Value),
    List(Vec<String>),
    /// Lines of text, each with its value in JSON.
    Items(Vec<(String, Value)>),
    /// A list whose order matters.
    Ordered(Vec<String>),
    Page(Page),
}

/// Labels with values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Page {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    label: String,
    /// The key in JSON.
    key: String,
    node: Node,
}

impl Page {
    /// Adds a label; in JSON `Storage location` becomes `storageLocation`.
    pub(crate) fn put(&mut self, label: &str, node: Node) {
        self.entries.push(Entry { label: label.to_owned(), key: camel(label), node });
    }

    pub(crate) fn text(&mut self, label: &str, text: impl Into<String>) {
        self.put(label, Node::Text(text.into()));
    }

    /// Adds a text, if there is one.
    pub(crate) fn text_if(&mut self, label: &str, text: Option<impl Into<String>>) {
        if let Some(text) = text {
            self.text(label, text);
        }
    }

    /// Adds a text, with another value in JSON.
    pub(crate) fn say(&mut self, label: &str, text: impl Into<String>, value: impl Into<Value>) {
        self.put(label, Node::Said(text.into(), value.into()));
    }

    pub(crate) fn list_if(&mut self, label: &str, list: Option<&[String]>) {
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            self.say(label, list.join(", "), list.to_vec());
        }
    }

    /// Adds a list; an empty list or "*" is printed as `all`.
    pub(crate) fn list_or(&mut self, label: &str, list: Option<&[String]>, all: &str) {
        match list.unwrap_or_default() {
            [] => self.say(label, all, vec!["*".to_owned()]),
            [star] if star == "*" => self.say(label, all, vec!["*".to_owned()]),
            list => self.say(label, list.join(", "), list.to_vec()),
        }
    }

    pub(crate) fn flag_if(&mut self, label: &str, flag: Option<bool>) {
        if let Some(flag) = flag {
            self.say(label, if flag { "yes" } else { "no" }, flag);
        }
    }

    /// Adds the number of items done and in total.
    pub(crate) fn items(&mut self, done: i64, total: i64, ended: bool) {
        let text = if ended && done == total { done.to_string() } else { format!("{done} of {total}") };
        self.say("Items", text, json!({"done": done, "total": total}));
    }

    /// Adds what the object waits for, from its annotation.
    pub(crate) fn waits(&mut self, annotation: Option<&String>, now: Timestamp) {
        let waits = Waits::read(annotation.map(String::as_str));
        let line = |wait: &Wait| format!("{wait}, for {} now", span(now.duration_since(wait.since)));
        let mut lines: Vec<String> = waits.waits.iter().map(line).collect();
        if waits.more > 0 {
            lines.push(format!("and {} more", waits.more));
        }
        if !lines.is_empty() {
            self.put("Waiting", Node::List(lines));
        }
    }

    /// Adds a block with a heading that differs from its JSON key.
    pub(crate) fn block(&mut self, label: &str, key: &str, items: Vec<(String, Value)>) {
        if !items.is_empty() {
            self.entries.push(Entry {
                label: label.to_owned(),
                key: key.to_owned(),
                node: Node::Items(items),
            });
        }
    }

    /// Adds a label that is data (the name of a namespace, type or label) and is also the JSON key.
    pub(crate) fn named(&mut self, name: &str, node: Node) {
        self.entries.push(Entry { label: name.to_owned(), key: name.to_owned(), node });
    }

    /// Adds an inner page, unless it is empty.
    pub(crate) fn page(&mut self, label: &str, page: Page) {
        if !page.entries.is_empty() {
            self.put(label, Node::Page(page));
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let entries = self.entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json()));
        Value::Object(entries.collect::<Map<_, _>>())
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(0, &mut text);
        text
    }

    fn write(&self, depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        let lines = self.entries.iter().filter(|entry| entry.node.is_line());
        let width = lines.map(|entry| entry.label.chars().count()).max().unwrap_or_default() + 1;
        let mut after_block = false;
        for entry in &self.entries {
            // On the outermost level, blocks are set apart by an empty line.
            if depth == 0 && !text.is_empty() && (after_block || !entry.node.is_line()) {
                text.push('\n');
            }
            after_block = !entry.node.is_line();
            let label = format!("{}:", entry.label);
            match &entry.node {
                Node::Page(page) => {
                    text.extend([indent.as_str(), &label, "\n"]);
                    page.write(depth + 1, text);
                }
                node => match node.lines() {
                    Some(lines) => {
                        text.extend([indent.as_str(), &label, "\n"]);
                        for line in lines {
                            let line = line.replace('\n', &format!("\n{indent}    "));
                            text.extend([indent.as_str(), "  ", &line, "\n"]);
                        }
                    }
                    None => {
                        text.extend([indent.as_str(), &format!("{label:width$}"), "  ", &node.word(), "\n"]);
                    }
                },
            }
        }
    }
}

impl Node {
    fn is_line(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Said(..))
    }

    fn word(&self) -> String {
        match self {
            Self::Text(text) | Self::Said(text, _) => text.clone(),
            _ => String::new(),
        }
    }

    fn lines(&self) -> Option<Vec<String>> {
        match self {
            Self::List(items) => Some(items.clone()),
            Self::Items(items) => Some(items.iter().map(|(line, _)| line.clone()).collect()),
            Self::Ordered(items) => {
                Some(items.iter().enumerate().map(|(at, item)| format!("{}. {item}", at + 1)).collect())
            }
            _ => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Said(_, value) => value.clone(),
            Self::Items(items) => items.iter().map(|(_, value)| value.clone()).collect(),
            Self::List(items) | Self::Ordered(items) => json!(items),
            Self::Page(page) => page.to_json(),
        }
    }
}

fn camel(label: &str) -> String {
    let parts = label.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut key = String::new();
    for word in parts {
        if key.is_empty() {
            key.push_str(&word.to_lowercase());
            continue;
        }
        let mut letters = word.chars();
        key.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        key.extend(letters);
    }
    key
}

/// `2026-11-16 01:00:00 UTC`.
pub(crate) fn moment(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A time in JSON.
pub(crate) fn instant(time: Timestamp) -> Value {
    json!(lifeboat_api::common::time::seconds(time))
}

/// A duration in its largest unit: `5s`, `12m`, `3h`, `9d`.
pub(crate) fn span(length: SignedDuration) -> String {
    let seconds = length.abs().as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long ago, or in how long.
pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    let length = time.duration_since(now);
    if length.is_negative() || length.is_zero() {
        format!("{} ago", span(length))
    } else {
        format!("in {}", span(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tree_gives_text_and_json() {
        let mut inner = Page::default();
        inner.named("shop", Node::List(vec!["pod web-0: no answer\nfrom its hook".into()]));
        let mut page = Page::default();
        page.text("Name", "nightly");
        page.put("Storage location", Node::Text("default".into()));
        page.page("Errors", inner);
        page.page("Nothing", Page::default());
        page.put("Order", Node::Ordered(vec!["shop/a".into(), "shop/b".into()]));
        page.items(3, 3, true);
        insta::assert_snapshot!(page.to_text(), @r"
        Name:              nightly
        Storage location:  default

        Errors:
          shop:
            pod web-0: no answer
              from its hook

        Order:
          1. shop/a
          2. shop/b

        Items:             3
        ");
        assert_eq!(
            page.to_json(),
            json!({"name": "nightly", "storageLocation": "default",
                "errors": {"shop": ["pod web-0: no answer\nfrom its hook"]}, "order": ["shop/a", "shop/b"],
                "items": {"done": 3, "total": 3}})
        );
    }

    #[test]
    fn times_are_shown_in_the_largest_unit() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |offset: i64| relative(Timestamp::from_second(1_000_000 + offset).unwrap(), now);
        assert_eq!(
            [at(-5), at(0), at(600), at(-8000), at(864_000)],
            ["5s ago", "0s ago", "in 10m", "2h ago", "in 10d"]
        );
    }
}
