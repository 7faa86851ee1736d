//! What one operation (a backup, a restore, a deletion, a look at a location) uses of the installed plugins: the actions
//! that run for it, and the processes behind them, which end with it. Made by [`Context::acting`].

use std::sync::Arc;

use lifeboat_archive::{Level, RunLog};
use lifeboat_plan::server_status::{Details, ListedPlugin, ListedProblem};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::{Kind, LogLevel, LogLine, LogSink, ServerLog, Session};

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

impl Context {
    /// All actions and plugins, built-in ones first, and what cannot be used.
    pub(crate) fn listed_plugins(&self) -> Details {
        let actions = &self.actions;
        let built_in = |kind: Kind, name: &str| ListedPlugin {
            kind: kind.to_string(),
            name: name.to_owned(),
            program: None,
        };
        let mut plugins: Vec<ListedPlugin> = Vec::new();
        plugins.extend(actions.backup.iter().map(|action| built_in(Kind::BackupItemAction, action.name())));
        plugins.extend(actions.restore.iter().map(|action| built_in(Kind::RestoreItemAction, action.name())));
        plugins.extend(actions.delete.iter().map(|action| built_in(Kind::DeleteItemAction, action.name())));
        plugins.extend(actions.blocks.iter().map(|action| built_in(Kind::ItemBlockAction, action.name())));
        plugins.extend(self.plugins.plugins().iter().map(|plugin| ListedPlugin {
            kind: plugin.kind.to_string(),
            name: plugin.name.clone(),
            program: Some(plugin.program.display().to_string()),
        }));
        let problems = self.plugins.problems().iter().map(|problem| ListedProblem {
            program: problem.path.display().to_string(),
            message: problem.message.clone(),
        });
        Details { plugins, problems: problems.collect() }
    }
}

impl Acting {
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
