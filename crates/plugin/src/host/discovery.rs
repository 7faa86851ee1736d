//! Finds plugins: walks the plugin directory, runs each program once and asks what it serves. Called when a host is
//! created. Programs that cannot be used become problems and do not affect the others.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt;
use lifeboat_plugin_protocol::generated::plugin_lister_client::PluginListerClient;
use lifeboat_plugin_protocol::generated::{Empty, ListPluginsResponse};
use tokio::time::timeout;

use super::error::PluginError;
use super::kind::{Kind, name_error};
use super::log::ServerLog;
use super::process::Process;
use super::settings::HostSettings;
use super::{Plugin, Problem};

/// How many programs are asked at the same time.
const AT_ONCE: usize = 4;
/// Limits for programs, directory depth and list lengths; anything beyond is taken for a mistake.
const MOST_PROGRAMS: usize = 256;
const DEEPEST: usize = 8;
const MOST_PLUGINS: usize = 1024;
const LONGEST_LIST: usize = 1024 * 1024;

pub(super) async fn discover(settings: &HostSettings) -> (Vec<Plugin>, Vec<Problem>) {
    let (programs, mut problems) = programs(&settings.directory);
    let answers: Vec<_> = futures::stream::iter(programs)
        .map(|program| async move {
            let answer = list(&program, settings).await;
            (program, answer)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut plugins = Vec::new();
    for (program, answer) in answers {
        match answer {
            Ok(list) => read(&program, list, &mut plugins, &mut problems),
            Err(error) => problems.push(Problem { path: program, message: error.to_string() }),
        }
    }
    without_duplicates(plugins, problems)
}

/// All executables below a directory, sorted by name; none if it does not exist.
fn programs(directory: &Path) -> (Vec<PathBuf>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    if directory.exists() {
        walk(directory, 0, &mut found, &mut problems);
    }
    if found.len() > MOST_PROGRAMS {
        let message = format!("has more than {MOST_PROGRAMS} executables; the others are ignored");
        problems.push(Problem { path: directory.to_owned(), message });
        found.truncate(MOST_PROGRAMS);
    }
    (found, problems)
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>, problems: &mut Vec<Problem>) {
    let mut problem = |message: String| problems.push(Problem { path: directory.to_owned(), message });
    if depth > DEEPEST {
        return problem(format!("is deeper than {DEEPEST} directories; the rest is ignored"));
    }
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return problem(format!("cannot be read: {error}")),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(kind) = fs::symlink_metadata(&path) else { continue };
        if kind.is_dir() {
            walk(&path, depth + 1, found, problems);
        } else if fs::metadata(&path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        {
            found.push(path);
        }
    }
}

async fn list(program: &Path, settings: &HostSettings) -> Result<ListPluginsResponse, PluginError> {
    let process = Process::start(program, settings, Arc::new(ServerLog)).await?;
    let limit = settings.timeouts.start;
    let mut client = PluginListerClient::new(process.channel.clone()).max_decoding_message_size(LONGEST_LIST);
    let answer = timeout(limit, client.list_plugins(Empty {})).await;
    process.stop().await;
    match answer {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            let said = super::error::shortened(status.message());
            Err(PluginError::no_plugin(program, format!("it did not list its plugins: {said}")))
        }
        Err(_) => {
            Err(PluginError::no_plugin(program, format!("it did not list its plugins within {limit:?}")))
        }
    }
}

fn read(program: &Path, list: ListPluginsResponse, plugins: &mut Vec<Plugin>, problems: &mut Vec<Problem>) {
    let mut problem = |message: String| problems.push(Problem { path: program.to_owned(), message });
    if list.plugins.is_empty() {
        problem("it serves no plugin".to_owned());
    }
    if list.plugins.len() > MOST_PLUGINS {
        return problem(format!("it lists more than {MOST_PLUGINS} plugins"));
    }
    for listed in list.plugins {
        match (Kind::parse(&listed.kind), name_error(&listed.name)) {
            (Some(kind), None) => {
                plugins.push(Plugin { kind, name: listed.name, program: program.to_owned() });
            }
            (None, _) => problem(format!(
                "its plugin {:?} is of kind {:?}, which this version does not know",
                listed.name, listed.kind
            )),
            (_, Some(wrong)) => problem(wrong),
        }
    }
}

/// Of two plugins with the same kind and name neither is used, because it would be unclear which one runs.
fn without_duplicates(plugins: Vec<Plugin>, mut problems: Vec<Problem>) -> (Vec<Plugin>, Vec<Problem>) {
    let mut owners: BTreeMap<(Kind, String), Vec<PathBuf>> = BTreeMap::new();
    for plugin in &plugins {
        owners.entry((plugin.kind, plugin.name.clone())).or_default().push(plugin.program.clone());
    }
    for ((kind, name), programs) in owners.iter().filter(|(_, programs)| programs.len() > 1) {
        let list: Vec<String> = programs.iter().map(|path| format!("'{}'", path.display())).collect();
        let message =
            format!("two {kind} plugins are named '{name}': {}; remove one of them", list.join(" and "));
        problems.extend(programs.iter().map(|path| Problem { path: path.clone(), message: message.clone() }));
    }
    let alone = |plugin: &Plugin| owners[&(plugin.kind, plugin.name.clone())].len() == 1;
    problems.dedup();
    (plugins.into_iter().filter(alone).collect(), problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_below_and_in_order_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        file("b", 0o755);
        file("a/z", 0o100);
        file("README", 0o644);
        std::os::unix::fs::symlink(dir.path().join("b"), dir.path().join("c")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
        let (found, problems) = programs(dir.path());
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a/z", "b", "c"]);
        assert!(problems.is_empty());
        assert_eq!(programs(&dir.path().join("none")), (vec![], vec![]));
    }

    #[test]
    fn two_plugins_of_one_name_are_both_left_out_and_others_stay() {
        let plugin =
            |kind, name: &str, program: &str| Plugin { kind, name: name.into(), program: program.into() };
        let all = vec![
            plugin(Kind::ObjectStore, "a.io/x", "/p/1"),
            plugin(Kind::ObjectStore, "a.io/x", "/p/2"),
            plugin(Kind::VolumeSnapshotter, "a.io/x", "/p/2"),
        ];
        let (left, problems) = without_duplicates(all, vec![]);
        assert_eq!(left, [plugin(Kind::VolumeSnapshotter, "a.io/x", "/p/2")]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].message.contains("'/p/1' and '/p/2'"), "{}", problems[0].message);
    }
}
