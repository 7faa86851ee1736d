//! What one operation (a backup, a restore, a deletion, a look at a location) uses of the installed plugins: the actions
//! that run for it, and the processes behind them, which end with it. Made by [`Context::acting`].

use std::sync::Arc;

use lifeboat_archive::{Level, RunLog};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::{LogLevel, LogLine, LogSink, ServerLog, Session};

use crate::context::Context;

/// The actions of one operation, built-in ones and plugins'. Dropping it kills what still runs; [`Self::close`] asks first.
pub(crate) struct Acting {
    pub(crate) actions: Registry,
    pub(crate) session: Session,
}

impl Context {
    /// The actions of one operation; their plugins' log lines go to `sink`.
    pub(crate) fn acting(&self, sink: Arc<dyn LogSink>) -> Acting {
        let session = self.plugins.session(sink);
        Acting { actions: self.actions.with_plugins(&session), session }
    }

    /// The same for an operation that has no log of its own.
    pub(crate) fn acting_quietly(&self) -> Acting {
        self.acting(Arc::new(ServerLog))
    }
}

impl Acting {
    /// Ends the plugins' processes, and says in `log` how they were used.
    pub(crate) async fn close_telling(&self, log: &RunLog) {
        for used in self.session.usage() {
            log.info(&used.to_string(), &[]);
        }
        self.close().await;
    }

    /// Ends the plugins' processes.
    pub(crate) async fn close(&self) {
        self.session.close().await;
    }
}

/// A backup's or restore's log, for the lines of its plugins.
pub(crate) struct PluginLines(pub(crate) RunLog);

impl LogSink for PluginLines {
    fn line(&self, line: LogLine) {
        let level = match line.level {
            LogLevel::Debug => Level::Debug,
            LogLevel::Info => Level::Info,
            LogLevel::Warning => Level::Warning,
            LogLevel::Error => Level::Error,
        };
        let texts: Vec<(&String, String)> = line
            .fields
            .iter()
            .map(|(key, value)| (key, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        let mut fields: Vec<(&str, &str)> =
            texts.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        fields.push(("pluginName", &line.program));
        self.0.write(level, &line.message, &fields);
    }
}
