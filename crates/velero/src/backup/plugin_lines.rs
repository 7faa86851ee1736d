//! The lines that plugins log during a backup: written into its log, and counted in its results as upstream does.
//! Used by `attempt`.

use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_plugin::host::{LogLevel, LogLine, LogSink};

use super::Report;
use crate::plugins::write;

/// How many lines of plugins a backup's results have; the log has all of them.
const MOST_COUNTED: usize = 100;

/// The log and results of a backup, as the target of its plugins' log lines. As upstream, warnings and errors that
/// plugins log count as warnings and errors of the backup.
pub(super) struct CountedLines {
    report: Report,
    counted: AtomicUsize,
}

impl CountedLines {
    pub(super) fn new(report: Report) -> Self {
        Self { report, counted: AtomicUsize::new(0) }
    }
}

impl LogSink for CountedLines {
    fn line(&self, line: LogLine) {
        let counts = matches!(line.level, LogLevel::Warning | LogLevel::Error)
            && self.counted.fetch_add(1, Ordering::Relaxed) < MOST_COUNTED;
        write(&line, |level, fields| self.report.line(level, &line.message, fields, counts));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lifeboat_archive::{Level, RunLog};
    use serde_json::json;

    use super::*;

    fn line(level: LogLevel, message: &str) -> LogLine {
        let fields = BTreeMap::from([
            ("namespace".to_owned(), json!("shop")),
            ("name".to_owned(), json!("web")),
            ("error".to_owned(), json!("full")),
        ]);
        LogLine { program: "example".into(), level, message: message.into(), fields }
    }

    #[test]
    fn what_plugins_log_as_errors_counts_in_a_backup_as_upstream_and_no_flood_of_it_does() {
        let report = Report::new(RunLog::create(&std::env::temp_dir(), &[], Level::Info).unwrap());
        let lines = CountedLines::new(report.clone());
        lines.line(line(LogLevel::Info, "fine"));
        lines.line(line(LogLevel::Warning, "odd"));
        lines.line(line(LogLevel::Error, "bad"));
        let results = report.results();
        assert_eq!(results.errors.namespaces["shop"], [" name: /web message: /bad error: /full"]);
        assert_eq!(results.warnings.count(), 1);
        for _ in 0..1000 {
            lines.line(line(LogLevel::Error, "bad"));
        }
        assert_eq!(report.results().errors.count(), 99);
        assert_eq!(report.log().counts().errors, 1001, "the log has all of them");
    }
}
