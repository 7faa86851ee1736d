//! The plugins of one operation (a backup, a restore, a deletion, a check of a location): the actions that run for
//! it, and their processes, which end with it. Made by [`Context::acting`].

use std::sync::Arc;

use lifeboat_archive::{Level, RunLog};
use lifeboat_plan::velero::server_status::{Details, ListedPlugin, ListedProblem};
use lifeboat_plugin::actions::Registry;
use lifeboat_plugin::host::{Kind, LogLevel, LogLine, LogSink, Plugin, ServerLog, Session};

use crate::context::Context;

/// The actions of one operation, built-in ones and those of plugins. Dropping it kills running processes;
/// [`Self::close`] lets them shut down first.
pub(crate) struct Acting {
    pub(crate) actions: Registry,
    pub(crate) session: Session,
}

impl Context {
    /// The actions of one operation; log lines of their plugins go to `sink`.
    pub(crate) fn acting(&self, sink: Arc<dyn LogSink>) -> Acting {
        let session = self.plugins.session(sink);
        Acting { actions: self.actions.with_plugins(&session), session }
    }

    /// The actions of an operation that has no log of its own.
    pub(crate) fn acting_quietly(&self) -> Acting {
        self.acting(Arc::new(ServerLog))
    }
}

impl Context {
    /// All actions and plugins, built-in ones first, and plugins that cannot be used.
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
        let used = self.plugins.plugins().iter().filter(|plugin| !self.is_hidden(plugin));
        plugins.extend(used.map(|plugin| ListedPlugin {
            kind: plugin.kind.to_string(),
            name: plugin.name.clone(),
            program: Some(plugin.program.display().to_string()),
        }));
        let unusable = self.plugins.problems().iter().map(|problem| ListedProblem {
            program: problem.path.display().to_string(),
            message: problem.message.clone(),
        });
        let hidden = self.plugins.plugins().iter().filter(|plugin| self.is_hidden(plugin));
        let hidden = hidden.map(|plugin| ListedProblem {
            program: plugin.program.display().to_string(),
            message: format!(
                "its {} {} is not used: a built-in action has this name",
                plugin.kind, plugin.name
            ),
        });
        let problems = unusable.chain(hidden).collect();
        Details { plugins, problems }
    }

    /// Whether a built-in action has the plugin's name and takes precedence.
    fn is_hidden(&self, plugin: &Plugin) -> bool {
        let (actions, name) = (&self.actions, plugin.name.as_str());
        match plugin.kind {
            Kind::BackupItemAction | Kind::BackupItemActionV2 => {
                actions.backup.iter().any(|action| action.name() == name)
            }
            Kind::RestoreItemAction | Kind::RestoreItemActionV2 => {
                actions.restore.iter().any(|action| action.name() == name)
            }
            Kind::DeleteItemAction => actions.delete.iter().any(|action| action.name() == name),
            Kind::ItemBlockAction => actions.blocks.iter().any(|action| action.name() == name),
            Kind::ObjectStore | Kind::VolumeSnapshotter => false,
        }
    }
}

impl Acting {
    /// Writes into `log` how the plugins were used so far.
    pub(crate) fn log_usage(&self, log: &RunLog) {
        for used in self.session.usage() {
            log.info(&used.to_string(), &[]);
        }
    }

    /// Ends the plugins' processes.
    pub(crate) async fn close(&self) {
        self.session.close().await;
    }
}

/// A restore's log, as the target of its plugins' log lines. As upstream, they do not count in the results.
pub(crate) struct PluginLines(pub(crate) RunLog);

impl LogSink for PluginLines {
    fn line(&self, line: LogLine) {
        write(&line, |level, fields| self.0.write(level, &line.message, fields));
    }
}

/// Writes a plugin's log line with its level and fields.
pub(crate) fn write(line: &LogLine, write: impl FnOnce(Level, &[(&str, &str)])) {
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
    write(level, &fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_plugin_behind_a_built_in_action_is_listed_as_not_used() {
        let context = crate::testing::Cluster::new().await.context;
        let taken = context.actions.restore[0].name().to_owned();
        let plugin = |name: &str| Plugin {
            kind: Kind::RestoreItemActionV2,
            name: name.to_owned(),
            program: "/plugins/p".into(),
        };
        let settings = lifeboat_plugin::host::HostSettings::new("/plugins".into());
        let host =
            lifeboat_plugin::host::PluginHost::of(settings, vec![plugin(&taken), plugin("example.io/own")]);
        let listed = context.with_plugins(host).listed_plugins();
        let of_program: Vec<_> = listed.plugins.iter().filter(|plugin| plugin.program.is_some()).collect();
        assert_eq!(of_program.len(), 1, "{of_program:?}");
        assert_eq!(of_program[0].name, "example.io/own");
        assert!(listed.problems[0].message.contains(&taken), "{:?}", listed.problems);
    }
}
