use proptest::prelude::*;
use rstest::rstest;

use super::render::{Escape, LONGEST as LONGEST_TEXT};
use super::*;

fn summary() -> Summary {
    Summary {
        name: "app-1700000100".into(),
        namespace: "demo".into(),
        invoker: InvokerSummary {
            api_group: "stash.appscode.com".into(),
            kind: "BackupBatch".into(),
            name: "app".into(),
        },
        target: TargetSummary {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "web".into(),
            namespace: "demo".into(),
        },
        status: StatusSummary {
            phase: "Failed".into(),
            duration: "1m5s".into(),
            error: "disk \"data\" is full\n".into(),
        },
        retry_left: 2,
    }
}

fn render(text: &str) -> String {
    Template::parse(text).unwrap().render(&summary())
}

#[rstest]
#[case::plain("no action {here}", "no action {here}")]
#[case::field("{{ .Status.Phase }} of {{.Target.Name}}", "Failed of web")]
#[case::every_field(
    "{{.Name}} {{.Namespace}} {{.Invoker.APIGroup}} {{.Invoker.Kind}} {{.Invoker.Name}} {{.Target.APIVersion}} {{.Target.Namespace}} {{.Status.Duration}} {{.RetryLeft}}",
    "app-1700000100 demo stash.appscode.com BackupBatch app apps/v1 demo 1m5s 2"
)]
#[case::condition("{{ if eq .Status.Phase \"Succeeded\" }}good{{ else }}bad{{ end }}", "bad")]
#[case::else_if("{{if eq .Status.Phase `Succeeded`}}a{{else if eq .RetryLeft 2}}b{{else}}c{{end}}", "b")]
#[case::without_else("[{{ if eq .RetryLeft 0 }}last{{ end }}]", "[]")]
#[case::one_of_several("{{ if eq .Status.Phase \"Failed\" \"Unknown\" }}x{{ end }}", "x")]
#[case::truth_of_a_text("{{ if .Status.Error }}x{{ end }}{{ if .RetryLeft }}y{{ end }}", "xy")]
#[case::nested("{{ if .Name }}{{ if eq .Namespace \"demo\" }}in{{ else }}out{{ end }}!{{ end }}", "in!")]
#[case::parentheses("{{ if (eq .RetryLeft 2) }}x{{ end }}", "x")]
#[case::eq_of_eq("{{ eq (eq .RetryLeft 2) true }}", "true")]
#[case::json_of_a_text(
    "{\"text\": {{ toJson .Status.Error }}}",
    "{\"text\": \"disk \\\"data\\\" is full\\n\"}"
)]
#[case::json_of_a_number("{{ toJson .RetryLeft }}", "2")]
#[case::json_of_a_group(
    "{{ toJson .Invoker }}",
    "{\"apiGroup\":\"stash.appscode.com\",\"kind\":\"BackupBatch\",\"name\":\"app\"}"
)]
#[case::trimmed("a \n {{- .RetryLeft -}} \n b", "a2b")]
#[case::trimmed_one_side("a {{- .RetryLeft }} b", "a2 b")]
#[case::braces_in_a_text("{{ \"}}\" }}", "}}")]
#[case::escapes("{{ \"a\\n\\\"b\\\\\" }}", "a\n\"b\\")]
#[case::negative("{{ if eq .RetryLeft -1 }}x{{ end }}", "")]
fn a_template_is_rendered_as_go_does(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(render(text), expected);
}

#[test]
fn the_whole_summary_is_json_with_upstreams_keys() {
    let value: serde_json::Value = serde_json::from_str(&render("{{ toJson . }}")).unwrap();
    assert_eq!(value["status"]["phase"], "Failed");
    assert_eq!(value["target"]["apiVersion"], "apps/v1");
    assert_eq!(value["retryLeft"], 2);
    assert_eq!(value["invoker"]["apiGroup"], "stash.appscode.com");
}

#[rstest]
#[case::unknown_field("{{ .Status.Size }}", "\".Status.Size\"")]
#[case::lower_case("{{ .status.phase }}", "\".status.phase\"")]
#[case::function("{{ upper .Name }}", "\"upper\"")]
#[case::operator("{{ if and .Name .Namespace }}x{{ end }}", "\"and\"")]
#[case::pipe("{{ .Name | toJson }}", "\"|\"")]
#[case::variable("{{ $x := .Name }}", "\"$x\"")]
#[case::loops("{{ range .Name }}{{ end }}", "\"range\"")]
#[case::comment("{{/* note */}}", "\"/*\"")]
#[case::env("{{ env \"PATH\" }}", "\"env\"")]
#[case::group("{{ .Status }}", ".Status can only be written with toJson")]
#[case::group_in_eq("{{ if eq .Target \"x\" }}{{ end }}", ".Target can only")]
#[case::mixed("{{ if eq .RetryLeft \"2\" }}{{ end }}", "both sides must be alike")]
#[case::one_side("{{ if eq .Name }}{{ end }}", "two values or more")]
#[case::json_of_nothing("{{ toJson }}", "one value")]
#[case::open("{{ .Name", "has no \"}}\"")]
#[case::open_text("{{ \"abc }}", "has no \"}}\"")]
#[case::no_end("{{ if .Name }}x", "no \"end\"")]
#[case::no_if("x{{ end }}", "\"end\"")]
#[case::else_twice("{{ if .Name }}{{ else }}{{ else }}{{ end }}", "\"else\"")]
#[case::else_if_after_else("{{ if .Name }}{{ else }}{{ else if .Name }}{{ end }}", "\"else\"")]
#[case::nothing("{{ }}", "is empty")]
#[case::two_values("{{ .Name .Namespace }}", "\".Namespace\" follows")]
#[case::surplus_in_end("{{ if .Name }}{{ end .Name }}", "follows")]
#[case::escape("{{ \"\\x41\" }}", "\"\\\\x\"")]
#[case::open_parenthesis("{{ (.Name }}", "not closed")]
#[case::number("{{ 1.5 }}", "\"1.5\"")]
fn anything_else_is_an_error_that_names_it(#[case] text: &str, #[case] says: &str) {
    let message = Template::parse(text).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
}

#[test]
fn size_and_depth_are_bounded() {
    let long = "x".repeat(LONGEST + 1);
    assert!(matches!(Template::parse(&long), Err(TemplateError::TooLong { .. })));
    let deep = format!("{}{}", "{{if .Name}}".repeat(17), "{{end}}".repeat(17));
    assert_eq!(Template::parse(&deep), Err(TemplateError::TooDeep));
    let deep = format!("{{{{ {}.Name{} }}}}", "(".repeat(1000), ")".repeat(1000));
    assert_eq!(Template::parse(&deep), Err(TemplateError::TooDeep));
    let many = Template::parse(&"{{toJson .}}".repeat(5_000)).unwrap();
    let error = "ä".repeat(4_000);
    let summary = Summary { status: StatusSummary { error, ..StatusSummary::default() }, ..summary() };
    assert!(many.render(&summary).len() <= LONGEST_TEXT);
}

#[test]
fn values_are_escaped_for_the_place_that_they_go_to() {
    let template = Template::parse("/a?e={{ .Status.Error }}&x=1").unwrap();
    assert_eq!(template.render_as(&summary(), Escape::Url), "/a?e=disk%20%22data%22%20is%20full%0A&x=1");
    let template = Template::parse("e: {{ .Status.Error }}").unwrap();
    assert_eq!(template.render_as(&summary(), Escape::Header), "e: disk \"data\" is full ");
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "(\\{\\{|\\}\\}|if|else|end|eq|toJson|\\.Name|\\.|\"|`|\\(|\\)| |-|1|x|ä|\\\\){0,24}") {
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&summary());
        }
    }

    #[test]
    fn a_text_without_braces_stays_as_it_is(text in "[^{}]{0,64}") {
        prop_assert_eq!(render(&text), text);
    }

    /// A value never becomes part of the template, and its JSON is always one string.
    #[test]
    fn json_of_any_text_is_read_back(error in any::<String>()) {
        let status = StatusSummary { error: error.clone(), ..StatusSummary::default() };
        let summary = Summary { status, ..summary() };
        let text = Template::parse("{{ toJson .Status.Error }}").unwrap().render(&summary);
        prop_assert_eq!(serde_json::from_str::<String>(&text).unwrap(), error);
    }
}
