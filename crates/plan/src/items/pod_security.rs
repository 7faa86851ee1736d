//! Whether a pod would pass Pod Security level `baseline`, as Kubernetes defines it: the controls in the order of
//! <https://kubernetes.io/docs/concepts/security/pod-security-standards/>. Takes the object of a pod or of a workload
//! with a pod template; gives the fields that the level forbids. The API server checks the same only in namespaces
//! that enforce the level, and a namespace that a restore creates enforces none.

use lifeboat_api::catalogue::GroupResource;
use serde_json::Value;

/// Capabilities that may be added.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// SELinux types that may be set.
const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Kernel parameters of a pod that affect nothing outside of it.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Annotations with which a pod chooses profiles, one for each container.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: [&str; 2] =
    ["seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/"];

/// The pod, or the pod template, of an object; None if its type has none.
pub fn pod_of<'a>(resource: &GroupResource, object: &'a Value) -> Option<&'a Value> {
    let pointer = match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => "",
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets")
        | ("batch", "jobs") => "/spec/template",
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template",
        _ => return None,
    };
    object.pointer(pointer)
}

/// The fields of a pod that level `baseline` forbids.
pub fn beyond_baseline(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &pod["spec"];
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        not_set(&spec[field], field, &mut found);
    }
    for volume in list(&spec["volumes"]) {
        if !volume["hostPath"].is_null() {
            found.push(format!("hostPath of volume {}", name(volume)));
        }
    }
    for sysctl in list(&spec["securityContext"]["sysctls"]) {
        if !SYSCTLS.contains(&name(sysctl)) {
            found.push(format!("sysctl {}", name(sysctl)));
        }
    }
    context(&spec["securityContext"], "", &mut found);
    annotations(&pod["metadata"]["annotations"], &mut found);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for one in list(&spec[kind]) {
            container(one, &mut found);
        }
    }
    found
}

/// The parts of a security context that a pod and a container both have.
fn context(context: &Value, of: &str, found: &mut Vec<String>) {
    not_set(&context["windowsOptions"]["hostProcess"], &format!("hostProcess{of}"), found);
    let labels = &context["seLinuxOptions"];
    if !text_in(&labels["type"], &SELINUX_TYPES) {
        found.push(format!("seLinuxOptions.type{of}"));
    }
    for field in ["user", "role"] {
        if !text_in(&labels[field], &[""]) {
            found.push(format!("seLinuxOptions.{field}{of}"));
        }
    }
    for field in ["seccompProfile", "appArmorProfile"] {
        if !text_in(&context[field]["type"], &["RuntimeDefault", "Localhost"]) {
            found.push(format!("{field} {}{of}", shown(&context[field]["type"])));
        }
    }
}

fn container(container: &Value, found: &mut Vec<String>) {
    let of = format!(" of container {}", name(container));
    let own = &container["securityContext"];
    context(own, &of, found);
    not_set(&own["privileged"], &format!("privileged{of}"), found);
    for capability in list(&own["capabilities"]["add"]) {
        if !capability.as_str().is_some_and(|text| CAPABILITIES.contains(&text)) {
            found.push(format!("capability {}{of}", shown(capability)));
        }
    }
    if !text_in(&own["procMount"], &["Default"]) {
        found.push(format!("procMount {}{of}", shown(&own["procMount"])));
    }
    for port in list(&container["ports"]) {
        if !(port["hostPort"].is_null() || port["hostPort"] == 0) {
            found.push(format!("hostPort {}{of}", port["hostPort"]));
        }
    }
    let lifecycle = &container["lifecycle"];
    for (field, probe) in [
        ("livenessProbe", &container["livenessProbe"]),
        ("readinessProbe", &container["readinessProbe"]),
        ("startupProbe", &container["startupProbe"]),
        ("lifecycle.postStart", &lifecycle["postStart"]),
        ("lifecycle.preStop", &lifecycle["preStop"]),
    ] {
        for request in ["httpGet", "tcpSocket"] {
            if !text_in(&probe[request]["host"], &[""]) {
                found.push(format!("host in {field}.{request}{of}"));
            }
        }
    }
}

fn annotations(annotations: &Value, found: &mut Vec<String>) {
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let is_profile = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
        if key.starts_with(APPARMOR) && !is_profile {
            found.push(format!("annotation {key}"));
        }
        if SECCOMP.iter().any(|prefix| key.starts_with(prefix)) && value == "unconfined" {
            found.push(format!("annotation {key}"));
        }
    }
}

/// Anything but false counts as set: the API server would refuse it, or read it as true.
fn not_set(value: &Value, field: &str, found: &mut Vec<String>) {
    if !(value.is_null() || *value == Value::Bool(false)) {
        found.push(field.to_owned());
    }
}

fn text_in(value: &Value, allowed: &[&str]) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| allowed.contains(&text))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn name(object: &Value) -> &str {
    object["name"].as_str().unwrap_or_default()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::items::modifiers::merge;

    /// A pod with these fields of its spec, and with these annotations.
    fn pod(spec: &Value, annotations: &Value) -> Value {
        let mut pod =
            json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}]}});
        merge(&mut pod["spec"], spec);
        pod
    }

    /// Each control of level `baseline`: a value that it forbids, and one that it allows.
    #[rstest]
    #[case::host_process(json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}), json!({"securityContext": {"windowsOptions": {"hostProcess": false}}}), "hostProcess")]
    #[case::host_network(json!({"hostNetwork": true}), json!({"hostNetwork": false}), "hostNetwork")]
    #[case::host_pid(json!({"hostPID": true}), json!({"hostPID": false}), "hostPID")]
    #[case::host_ipc(json!({"hostIPC": true}), json!({"hostIPC": null}), "hostIPC")]
    #[case::host_path(json!({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}), json!({"volumes": [{"name": "v", "emptyDir": {}}]}), "hostPath of volume root")]
    #[case::sysctls(json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}), json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}}), "sysctl kernel.msgmax")]
    #[case::selinux_type(json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}), json!({"securityContext": {"seLinuxOptions": {"type": "container_t", "level": "s0"}}}), "seLinuxOptions.type")]
    #[case::selinux_user(json!({"securityContext": {"seLinuxOptions": {"user": "system_u"}}}), json!({"securityContext": {"seLinuxOptions": {"user": ""}}}), "seLinuxOptions.user")]
    #[case::selinux_role(json!({"securityContext": {"seLinuxOptions": {"role": "sysadm_r"}}}), json!({}), "seLinuxOptions.role")]
    #[case::seccomp(json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}}), "seccompProfile Unconfined")]
    #[case::apparmor(json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}), json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}), "appArmorProfile Unconfined")]
    #[allow(clippy::needless_pass_by_value, reason = "tables give JSON literals")]
    fn a_control_of_the_pod(#[case] forbidden: Value, #[case] allowed: Value, #[case] named: &str) {
        assert_eq!(beyond_baseline(&pod(&forbidden, &json!({}))), [named]);
        assert_eq!(beyond_baseline(&pod(&allowed, &json!({}))), Vec::<String>::new());
    }

    #[rstest]
    #[case::host_process(json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}), json!({}), "hostProcess")]
    #[case::privileged(json!({"securityContext": {"privileged": true}}), json!({"securityContext": {"privileged": false}}), "privileged")]
    #[case::a_value_that_is_none(json!({"securityContext": {"privileged": "true"}}), json!({"securityContext": {"privileged": null}}), "privileged")]
    #[case::a_capability(json!({"securityContext": {"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}}), json!({"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}}), "capability SYS_ADMIN")]
    #[case::all_capabilities(json!({"securityContext": {"capabilities": {"add": ["ALL"]}}}), json!({"securityContext": {"capabilities": {"drop": ["ALL"]}}}), "capability ALL")]
    #[case::reading_all_files(json!({"securityContext": {"capabilities": {"add": ["DAC_READ_SEARCH"]}}}), json!({"securityContext": {"capabilities": {"add": ["DAC_OVERRIDE"]}}}), "capability DAC_READ_SEARCH")]
    #[case::host_port(json!({"ports": [{"containerPort": 80, "hostPort": 80}]}), json!({"ports": [{"containerPort": 80, "hostPort": 0}]}), "hostPort 80")]
    #[case::probe(json!({"livenessProbe": {"httpGet": {"host": "10.0.0.1", "port": 80}}}), json!({"livenessProbe": {"httpGet": {"port": 80}}}), "host in livenessProbe.httpGet")]
    #[case::socket(json!({"startupProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}}), json!({"startupProbe": {"tcpSocket": {"host": "", "port": 80}}}), "host in startupProbe.tcpSocket")]
    #[case::lifecycle(json!({"lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}}), json!({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}), "host in lifecycle.preStop.httpGet")]
    #[case::selinux(json!({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}), json!({"securityContext": {"seLinuxOptions": {"type": "container_init_t"}}}), "seLinuxOptions.type")]
    #[case::proc_mount(json!({"securityContext": {"procMount": "Unmasked"}}), json!({"securityContext": {"procMount": "Default"}}), "procMount Unmasked")]
    #[case::seccomp(json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}), "seccompProfile Unconfined")]
    #[case::apparmor(json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}), json!({"securityContext": {"appArmorProfile": {"type": "Localhost"}}}), "appArmorProfile Unconfined")]
    #[allow(clippy::needless_pass_by_value, reason = "tables give JSON literals")]
    fn a_control_of_each_container(#[case] forbidden: Value, #[case] allowed: Value, #[case] named: &str) {
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            let with = |fields: &Value| {
                let mut one = json!({"name": "c"});
                merge(&mut one, fields);
                json!({"spec": {kind: [one]}})
            };
            assert_eq!(beyond_baseline(&with(&forbidden)), [format!("{named} of container c")], "{kind}");
            assert_eq!(beyond_baseline(&with(&allowed)), Vec::<String>::new(), "{kind}");
        }
    }

    #[rstest]
    #[case("container.apparmor.security.beta.kubernetes.io/main", "unconfined", true)]
    #[case("container.apparmor.security.beta.kubernetes.io/main", "runtime/default", false)]
    #[case("container.apparmor.security.beta.kubernetes.io/main", "localhost/p", false)]
    #[case("seccomp.security.alpha.kubernetes.io/pod", "unconfined", true)]
    #[case("container.seccomp.security.alpha.kubernetes.io/main", "unconfined", true)]
    #[case("seccomp.security.alpha.kubernetes.io/pod", "runtime/default", false)]
    #[case("example.com/any", "unconfined", false)]
    fn a_control_by_annotation(#[case] key: &str, #[case] value: &str, #[case] forbidden: bool) {
        let found = beyond_baseline(&pod(&json!({}), &json!({key: value})));
        assert_eq!(found, if forbidden { vec![format!("annotation {key}")] } else { Vec::new() });
    }

    #[rstest]
    #[case("pods", json!({"spec": {"hostPID": true}}))]
    #[case("replicationcontrollers", json!({"spec": {"template": {"spec": {"hostPID": true}}}}))]
    #[case("deployments.apps", json!({"spec": {"template": {"spec": {"hostPID": true}}}}))]
    #[case("statefulsets.apps", json!({"spec": {"template": {"spec": {"hostPID": true}}}}))]
    #[case("daemonsets.apps", json!({"spec": {"template": {"spec": {"hostPID": true}}}}))]
    #[case("replicasets.apps", json!({"spec": {"template": {"spec": {"hostPID": true}}}}))]
    #[case("jobs.batch", json!({"spec": {"template": {"spec": {"hostPID": true}}}}))]
    #[case("cronjobs.batch", json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"hostPID": true}}}}}}))]
    #[allow(clippy::needless_pass_by_value, reason = "tables give JSON literals")]
    fn a_workload_is_judged_by_its_template(#[case] resource: &str, #[case] object: Value) {
        let pod = pod_of(&GroupResource::parse(resource), &object).unwrap();
        assert_eq!(beyond_baseline(pod), ["hostPID"]);
    }
}
