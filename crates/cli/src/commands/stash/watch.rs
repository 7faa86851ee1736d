//! `lifeboat stash watch`: follows a session that exists to its end. An invoker stands for its newest session.

use kube::ResourceExt;

use super::Tenant;
use super::follow::follow;
use super::names::{self, Kind, ObjectName};
use super::result::ResultArg;
use crate::error::CliError;
use crate::nouns::{BACKUP_SESSION, text};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A BackupSession, or restoresession/NAME, restorebatch/NAME; backupconfiguration/NAME and backupbatch/NAME for the newest session
    #[arg(value_name = "[KIND/]NAME", value_parser = names::session)]
    session: ObjectName,
    #[command(flatten)]
    result: ResultArg,
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let session = session(tenant, &args.session).await?;
    follow(tenant, &session, args.result).await
}

/// The session that is followed.
async fn session(tenant: &Tenant, named: &ObjectName) -> Result<ObjectName, CliError> {
    tenant.find(named.kind.noun(), &named.name).await?;
    if !matches!(named.kind, Kind::BackupConfiguration | Kind::BackupBatch) {
        return Ok(named.clone());
    }
    newest_of(tenant, named).await?.ok_or_else(|| {
        CliError::not_found(format!("{} {:?} has no BackupSession", named.kind.noun().one, named.name)).help(
            format!("start one with `lifeboat stash trigger {} -n {}`", named.argument(), tenant.namespace),
        )
    })
}

/// The newest session of an invoker.
pub(super) async fn newest_of(tenant: &Tenant, invoker: &ObjectName) -> Result<Option<ObjectName>, CliError> {
    let sessions = BACKUP_SESSION.listed(&tenant.api(BACKUP_SESSION), None).await?;
    let of_invoker = sessions.iter().filter(|session| {
        text(session, "/spec/invoker/kind") == invoker.kind.noun().one
            && text(session, "/spec/invoker/name") == invoker.name
    });
    let newest = of_invoker
        .max_by_key(|session| (session.creation_timestamp().map(|time| time.0), session.name_any()));
    Ok(newest.map(|session| ObjectName::new(Kind::BackupSession, &session.name_any())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::World;

    #[tokio::test]
    async fn an_invoker_stands_for_its_newest_session() {
        let world = World::new().await;
        let invoker = |kind: &str| json!({"spec": {"invoker": {"kind": kind, "name": "app"}}});
        world.put("backupconfigurations", "app", json!({"spec": {}}));
        let named = names::session("bc/app").unwrap();
        let error = session(&world.tenant, &named).await.unwrap_err();
        assert_eq!(error.to_string(), "BackupConfiguration \"app\" has no BackupSession");
        for (name, kind) in [
            ("app-1700000100", "BackupConfiguration"),
            ("app-1700000200", "BackupConfiguration"),
            ("app-1700000300-backupbatch", "BackupBatch"),
        ] {
            let mut object = invoker(kind);
            object["metadata"]["creationTimestamp"] = json!("2026-11-18T00:00:00Z");
            world.put("backupsessions", name, object);
        }
        let found = session(&world.tenant, &named).await.unwrap();
        assert_eq!(found, ObjectName::new(Kind::BackupSession, "app-1700000200"));
    }
}
