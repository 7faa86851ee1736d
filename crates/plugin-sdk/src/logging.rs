//! Sends what the plugin logs with `tracing` to the host, which reads hclog's JSON from standard error.

use std::io::Write;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// If the program has set a subscriber already, that one stays.
pub(crate) fn begin() {
    let level = level(std::env::args());
    let _ = tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(Lines.with_filter(level)),
    );
}

/// The level from `--log-level=debug` or `--log-level debug`, which the host passes.
fn level(arguments: impl Iterator<Item = String>) -> LevelFilter {
    let mut follows = false;
    for argument in arguments {
        let value = if follows { Some(argument.as_str()) } else { argument.strip_prefix("--log-level=") };
        match value {
            Some("trace" | "debug") => return LevelFilter::DEBUG,
            Some("warning" | "warn") => return LevelFilter::WARN,
            Some("error" | "fatal" | "panic") => return LevelFilter::ERROR,
            Some(_) => return LevelFilter::INFO,
            None => follows = argument == "--log-level",
        }
    }
    LevelFilter::INFO
}

struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        // Log lines of the gRPC libraries only help to debug them.
        if event.metadata().target().starts_with("h2") || event.metadata().target().starts_with("hyper") {
            return;
        }
        let mut fields = Fields(Map::new());
        fields.0.insert("@level".to_owned(), Value::from(word(*event.metadata().level())));
        event.record(&mut fields);
        let mut line = Value::Object(fields.0).to_string();
        line.push('\n');
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::TRACE => "trace",
        Level::DEBUG => "debug",
        Level::INFO => "info",
        Level::WARN => "warn",
        Level::ERROR => "error",
    }
}

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = if field.name() == "message" { "@message" } else { field.name() };
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::joined(&["p", "--log-level=debug"], LevelFilter::DEBUG)]
    #[case::apart(&["p", "--log-level", "error", "--features="], LevelFilter::ERROR)]
    #[case::none(&["p", "--features=EnableCSI"], LevelFilter::INFO)]
    fn the_host_says_how_much_is_logged(#[case] arguments: &[&str], #[case] expected: LevelFilter) {
        assert_eq!(level(arguments.iter().map(|&text| text.to_owned())), expected);
    }
}
