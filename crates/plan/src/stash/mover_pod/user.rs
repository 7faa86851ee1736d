//! The user and groups of the pod whose data is moved, from its spec or from what the kubelet reports, and those that
//! runtimeSettings set.

use lifeboat_api::stash::RuntimeSettings;
use serde_json::Value;

use crate::json::text;
use crate::transfer::directory::claim_of;
use crate::transfer::movers::{MoverPlace, TargetPod};

/// The first container of a pod that mounts, or is attached to, one of the claims that a mover has.
pub(super) fn of_claims<'a>(pod: &'a Value, place: &MoverPlace) -> Option<&'a str> {
    let MoverPlace::Volumes { volumes: wanted, .. } = place else { return None };
    let list = |value: &'a Value| value.as_array().into_iter().flatten();
    let name = text(pod, "/metadata/name");
    let is_wanted = |volume: &&Value| {
        claim_of(name, volume).is_some_and(|claim| wanted.iter().any(|wanted| wanted.claim == claim))
    };
    let names: Vec<&Value> =
        list(&pod["spec"]["volumes"]).filter(is_wanted).map(|volume| &volume["name"]).collect();
    let mut containers = list(&pod["spec"]["containers"]);
    let found = containers.find(|container| {
        let mut uses = list(&container["volumeMounts"]).chain(list(&container["volumeDevices"]));
        uses.any(|used| names.contains(&&used["name"]))
    });
    found?["name"].as_str()
}

/// The container of this name; without a name the first.
pub(super) fn container<'a>(pod: &'a Value, name: Option<&str>) -> &'a Value {
    named(&pod["spec"]["containers"], name)
}

/// The entry of a container in a list; null if there is none.
fn named<'a>(list: &'a Value, name: Option<&str>) -> &'a Value {
    let mut entries = list.as_array().into_iter().flatten();
    let found = entries.find(|entry| name.is_none_or(|name| entry["name"] == name));
    found.unwrap_or(&Value::Null)
}

/// The user and groups of a pod's container. The kubelet reports them from Kubernetes 1.33 on, also where the image sets
/// them.
pub(super) fn user_of(pod: Option<&Value>, name: Option<&str>) -> TargetPod {
    let Some(pod) = pod else { return TargetPod::default() };
    let container = container(pod, name);
    let (of_pod, of_container) = (&pod["spec"]["securityContext"], &container["securityContext"]);
    let name = container["name"].as_str();
    let reported = &named(&pod["status"]["containerStatuses"], name)["user"]["linux"];
    let number = |field: &str, report: &str| {
        let set = of_container[field].as_i64().or_else(|| of_pod[field].as_i64());
        set.or_else(|| reported[report].as_i64())
    };
    let group = number("runAsGroup", "gid");
    let lists = [&of_pod["supplementalGroups"], &reported["supplementalGroups"]];
    let listed = lists.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_i64);
    let mut groups: Vec<i64> = of_pod["fsGroup"].as_i64().into_iter().chain(listed).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|listed| Some(*listed) != group);
    TargetPod { user: number("runAsUser", "uid"), group, groups }
}

/// The user that runtimeSettings set, with the target pod's groups where they set none.
pub(super) fn explicit_user(runtime: Option<&RuntimeSettings>, target: &TargetPod) -> Option<TargetPod> {
    let runtime = runtime?;
    let of_pod = runtime.pod.as_ref().and_then(|pod| pod.security_context.as_ref());
    let of_container = runtime.container.as_ref().and_then(|container| container.security_context.as_ref());
    let user = of_container.and_then(|context| context.run_as_user);
    let user = user.or_else(|| of_pod.and_then(|context| context.run_as_user))?;
    let group = of_container.and_then(|context| context.run_as_group);
    let group = group.or_else(|| of_pod.and_then(|context| context.run_as_group));
    let groups = of_pod.and_then(|context| context.supplemental_groups.clone());
    Some(TargetPod {
        user: Some(user),
        group: group.or(target.group),
        groups: groups.unwrap_or_else(|| target.groups.clone()),
    })
}
