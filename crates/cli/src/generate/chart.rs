//! The Helm chart, generated from the same objects that `lifeboat install` applies: the objects are made with marks in
//! place of values, written as YAML, and the marks are replaced by Helm expressions. Chart and command therefore cannot
//! differ.

use std::collections::BTreeMap;

use lifeboat_api::crds;
use lifeboat_plan::install::{self, InstallOptions, MoverOptions, Rights, Spool, StashOptions};
use lifeboat_plan::plugin_images;
use lifeboat_plan::transfer::gateway;
use serde_json::{Value, json};

/// Each mark, which stands for a value of any type, and the expression that replaces it.
const MARKS: [(&str, &str); 24] = [
    // Marks that contain other marks come first.
    ("--mover-image=MARK-image", "- {{ printf \"--mover-image=%s\" .Values.image | quote }}"),
    (
        "--mover-namespace=MARK-namespace-movers",
        "- {{ printf \"--mover-namespace=%s-movers\" .Release.Namespace | quote }}",
    ),
    ("MARK-namespace-movers", "{{ printf \"%s-movers\" .Release.Namespace | quote }}"),
    (
        "MARK-node-access",
        "{{- if .Values.nodeAccess }}
        - --node-access
        {{- end }}",
    ),
    ("MARK-mover-level", "{{ if .Values.nodeAccess }}privileged{{ else }}baseline{{ end }}"),
    (
        "--kubelet-root=MARK-kubelet-root",
        "{{- with .Values.kubeletRootDir }}
        - {{ printf \"--kubelet-root=%s\" . | quote }}
        {{- end }}",
    ),
    (
        "MARK-egress",
        "{{- with .Values.moverEgress }}
  - Egress
  egress:
  - to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
  - ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
  {{- end }}",
    ),
    ("--stash=MARK-stash", "- --stash={{ .Values.stash.enabled }}"),
    (
        "--tenant-namespaces=MARK-served",
        "{{- if .Values.stash.enabled }}
        {{- with (default .Values.rbac.namespaces .Values.stash.tenantNamespaces) }}
        - {{ printf \"--tenant-namespaces=%s\" (join \",\" .) | quote }}
        {{- end }}
        {{- end }}",
    ),
    // Inside another name, the namespace cannot be quoted.
    (":MARK-namespace", ":{{ .Release.Namespace }}"),
    (".MARK-namespace.", ".{{ .Release.Namespace }}."),
    ("MARK-namespace", "{{ .Release.Namespace | quote }}"),
    ("MARK-image", "{{ .Values.image | quote }}"),
    ("MARK-replicas", "{{ .Values.replicas }}"),
    ("MARK-resources", "{{- toYaml .Values.resources | nindent 12 }}"),
    ("MARK-sa-annotations", "{{- toYaml .Values.serviceAccount.annotations | nindent 4 }}"),
    ("MARK-env", "{{- with .Values.env }}{{- toYaml . | nindent 8 }}{{- end }}"),
    (
        "--download-url=MARK-download-url",
        "{{- with .Values.downloadUrl }}
        - {{ printf \"--download-url=%s\" . | quote }}
        {{- end }}",
    ),
    (
        "MARK-download-port",
        "{{- if .Values.downloadUrl }}
        - containerPort: 8086
          name: downloads
        {{- end }}",
    ),
    ("MARK-spool-limit", "{{ printf \"%dMi\" (int64 .Values.spoolSizeMiB) | quote }}"),
    ("MARK-spool-archive", "{{ div (mul .Values.spoolSizeMiB 3) 4 }}"),
    (
        "MARK-arg",
        "{{- range .Values.serverArgs }}
        - {{ . | quote }}
        {{- end }}",
    ),
    (TARGET, "{{ $namespace | quote }}"),
    (TENANT, "{{ $namespace | quote }}"),
];

/// The text that Helm prints after an installation.
const NOTES: &str = "\
Lifeboat is installed in namespace {{ .Release.Namespace }}.

1. Let only pods of the strictest Pod Security level run beside it:
     kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted
2. Say where backups go:
     lifeboat -n {{ .Release.Namespace }} backup-location create default --default --provider aws --bucket BUCKET \
--config region=REGION --credential SECRET=KEY
3. Keep the repository password outside the cluster; volume data cannot be restored without it:
     lifeboat -n {{ .Release.Namespace }} repository-password export --file FILE
{{- if and .Values.stash.enabled (not (.Capabilities.APIVersions.Has \"stash.appscode.com/v1beta1/BackupBatch\")) }}

Helm installs no custom resource definitions of Stash's API; it is served as soon as they are there:
     lifeboat crds | kubectl apply --server-side -f -
{{- end }}
{{- if not .Values.rbac.namespaces }}

It can back up and restore anything in the cluster; that is cluster-admin in effect. Set rbac.namespaces to limit it.
{{- end }}
";

pub(super) fn files() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for crd in crds::installed(install::STASH_BY_DEFAULT) {
        files.insert(
            format!("charts/lifeboat/crds/{}.yaml", crd.name()),
            format!("---\n{}", yaml(&json!(crd.definition()))),
        );
    }
    files.insert("charts/lifeboat/values.yaml".to_owned(), values());
    let full = objects(Rights::Full);
    let limited = objects(Rights::Namespaces(vec![TARGET.to_owned()]));
    files.insert("charts/lifeboat/templates/NOTES.txt".to_owned(), NOTES.to_owned());
    let (movers, full): (Vec<_>, Vec<_>) = full.into_iter().partition(is_for_movers);
    files.insert(template("movers"), render(&movers));
    files.insert(template("serviceaccount"), render(&of_kinds(&full, &["ServiceAccount"])));
    files.insert(template("deployment"), render(&of_kinds(&full, &["Deployment"])));
    let (of_stash, full): (Vec<_>, Vec<_>) = full.into_iter().partition(is_for_stash);
    files.insert(template("stash"), guarded(".Values.stash.enabled", &render(&of_stash)));
    let downloads = of_kinds(&full, &["Service"]);
    files.insert(template("service"), guarded(".Values.downloadUrl", &render(&downloads)));
    files.insert(template("rbac-full"), guarded("not .Values.rbac.namespaces", &render(&rbac(&full))));
    // What users get for Stash's API is the same for both profiles.
    let limited = rbac(&limited).into_iter().filter(|object| !of_stash.contains(object));
    let (of_stash, limited): (Vec<_>, Vec<_>) = limited.partition(is_for_stash);
    let text = limited_rights(limited, ".Values.rbac.namespaces", TARGET);
    let stash =
        guarded(".Values.stash.enabled", &limited_rights(of_stash, ".Values.stash.tenantNamespaces", TENANT));
    files.insert(template("rbac-limited"), guarded(".Values.rbac.namespaces", &format!("{text}{stash}")));
    files
}

/// The marks of namespaces of users, which templates repeat for each namespace.
const TARGET: &str = "MARK-target-namespace";
const TENANT: &str = "MARK-tenant-namespace";

/// Permissions of a server with limited rights: those in namespaces of users are repeated for each of them.
fn limited_rights(objects: Vec<Value>, namespaces: &str, mark: &str) -> String {
    let (inside, elsewhere): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object["metadata"]["namespace"] == mark);
    format!(
        "{}{{{{- range $namespace := {namespaces} }}}}\n{}{{{{- end }}}}\n",
        render(&elsewhere),
        render(&inside).replace("{{ .Release", "{{ $.Release")
    )
}

/// The values as they are written by hand, with the default of Stash's API as the program has it.
fn values() -> String {
    let text = include_str!("../../../../charts/lifeboat/values.yaml");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let of_stash = lines.iter().position(|line| line == "stash:").unwrap_or(lines.len());
    if let Some(line) = lines.iter_mut().skip(of_stash).find(|line| line.starts_with("  enabled: ")) {
        *line = format!("  enabled: {}", install::STASH_BY_DEFAULT);
    }
    lines.join("\n") + "\n"
}

fn template(name: &str) -> String {
    format!("charts/lifeboat/templates/{name}.yaml")
}

/// The objects of an installation, with marks. Helm itself creates the Namespace (`--create-namespace`).
fn objects(rights: Rights) -> Vec<Value> {
    let options = InstallOptions {
        rights,
        server_args: vec!["MARK-arg".to_owned()],
        service_account_annotations: json!("MARK-sa-annotations"),
        env: vec![json!("MARK-env")],
        resources: json!("MARK-resources"),
        spool: Spool { limit: "MARK-spool-limit".to_owned(), archive: "MARK-spool-archive".to_owned() },
        download_url: Some("MARK-download-url".to_owned()),
        movers: MoverOptions {
            node_access: true,
            kubelet_root: Some("MARK-kubelet-root".to_owned()),
            ..MoverOptions::new("MARK-namespace")
        },
        stash: StashOptions { is_served: true, tenant_namespaces: vec![TENANT.to_owned()], restics: false },
        ..InstallOptions::new("MARK-namespace", "MARK-image")
    };
    let mut objects = install::objects(&options);
    for object in &mut objects {
        if object["kind"] == "Namespace" && is_for_movers(object) {
            for (label, level) in object["metadata"]["labels"].as_object_mut().into_iter().flatten() {
                if label.starts_with("pod-security.kubernetes.io/") {
                    *level = json!("MARK-mover-level");
                }
            }
        }
        if object["kind"] == "NetworkPolicy" {
            object["spec"]["policyTypes"] = json!(["Ingress", "MARK-egress"]);
        }
        if object["kind"] == "Deployment" {
            object["spec"]["replicas"] = json!("MARK-replicas");
            let args = &mut object["spec"]["template"]["spec"]["containers"][0]["args"];
            for arg in args.as_array_mut().into_iter().flatten() {
                let mark = match arg.as_str() {
                    Some("--node-access") => "MARK-node-access",
                    Some("--stash=true") => "--stash=MARK-stash",
                    Some(arg) if arg.starts_with("--tenant-namespaces=") => "--tenant-namespaces=MARK-served",
                    _ => continue,
                };
                *arg = json!(mark);
            }
            // Without downloads the container has no port for them.
            let ports = &mut object["spec"]["template"]["spec"]["containers"][0]["ports"];
            for port in ports.as_array_mut().into_iter().flatten().filter(|port| port["name"] == "downloads")
            {
                *port = json!("MARK-download-port");
            }
            object["spec"]["template"]["spec"]["initContainers"] = json!("MARK-plugins");
            let metadata = &mut object["spec"]["template"]["metadata"];
            metadata["annotations"] = json!("MARK-pod-annotations");
            metadata["labels"] = json!("MARK-pod-labels");
        }
    }
    objects
}

/// Whether the object is the movers' namespace or in it.
fn is_for_movers(object: &Value) -> bool {
    let name = install::mover_namespace("MARK-namespace");
    object["metadata"]["namespace"] == name || object["metadata"]["name"] == name
}

/// Whether the object serves Stash's API only.
fn is_for_stash(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    name.contains(":stash:") || name == gateway::SERVICE || install::policies::is_policy(object)
}

/// A map of text in the syntax of a Helm expression.
fn dict(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs: Vec<_> = pairs.map(|(key, value)| format!("\"{key}\" {value}")).collect();
    format!("(dict {})", pairs.join(" "))
}

fn rbac(objects: &[Value]) -> Vec<Value> {
    of_kinds(objects, &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"])
}

fn of_kinds(objects: &[Value], kinds: &[&str]) -> Vec<Value> {
    objects.iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)).cloned().collect()
}

fn guarded(condition: &str, text: &str) -> String {
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

fn render(objects: &[Value]) -> String {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&yaml(object));
    }
    text = with_plugins(&with_pod_metadata(&text));
    for (mark, expression) in MARKS {
        // A mark for a list item or a block is replaced together with its line, any other mark alone.
        text = text.replace(&format!("- {mark}\n"), &format!("{expression}\n")).replace(mark, expression);
    }
    text
}

/// If the user sets a key that Lifeboat sets too, the result is the same as with `install`: the user's annotations win,
/// and Lifeboat's labels win, because the Deployment selects its pods by them.
fn with_pod_metadata(text: &str) -> String {
    let objects = install::objects(&InstallOptions::new("lifeboat", "lifeboat"));
    let deployment = of_kinds(&objects, &["Deployment"]).pop().unwrap_or_default();
    let own = |field: &str| dict(&deployment["spec"]["template"]["metadata"][field]);
    let annotations = format!("mergeOverwrite {} .Values.podAnnotations", own("annotations"));
    let labels = format!("mergeOverwrite (deepCopy .Values.podLabels) {}", own("labels"));
    let block = |expression: &str| format!("{{{{- toYaml ({expression}) | nindent 8 }}}}");
    text.replace("MARK-pod-annotations", &block(&annotations)).replace("MARK-pod-labels", &block(&labels))
}

/// An init container for each image in `plugins`, named as `install` names it.
fn with_plugins(text: &str) -> String {
    let mut container = plugin_images::container("MARK-plugin-image", "IfNotPresent", &[]);
    container["name"] = json!("MARK-plugin-name");
    let block = yaml(&json!([container])).replace("MARK-plugin-image", "{{ . | quote }}").replace(
        "MARK-plugin-name",
        "{{ regexReplaceAll \"[^a-z0-9]\" (lower $name) \"-\" | trunc 63 | trimSuffix \"-\" | quote }}",
    );
    let lines: Vec<String> = block.lines().map(|line| format!("\n      {line}")).collect();
    let lines = lines.concat();
    let expression = format!(
        "      {{{{- with .Values.plugins }}}}
      initContainers:
      {{{{- range . }}}}
      {{{{- $path := regexReplaceAll \"(:[^/:@]*)?(@.*)?$\" . \"\" }}}}
      {{{{- $name := regexReplaceAll \"^[^/]+/([^/]+/.+)$\" $path \"${{1}}\" }}}}{lines}
      {{{{- end }}}}
      {{{{- end }}}}"
    );
    text.replace("      initContainers: MARK-plugins", &expression)
}

fn yaml(value: &Value) -> String {
    // The values are plain data, which always serialize to YAML.
    serde_saphyr::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mark_is_left_in_a_template() {
        for (path, text) in files() {
            assert!(!text.contains("MARK-"), "{path}:\n{text}");
            assert!(!text.is_empty(), "{path} is empty");
        }
    }
}
