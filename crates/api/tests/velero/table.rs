//! The names, short names and `kubectl get` columns of the kinds.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use lifeboat_api::velero;

#[test]
fn kinds_short_names_and_columns() {
    let mut table = String::new();
    for crd in velero::crds() {
        let names = &crd.definition().spec.names;
        let version = &crd.versions()[0];
        let short = names.short_names.clone().unwrap_or_default().join(",");
        let columns = version.additional_printer_columns.iter().flatten();
        let (wide, narrow): (Vec<_>, Vec<_>) = columns.partition(|column| column.priority.unwrap_or(0) > 0);
        writeln!(table, "{} {} {} ({short})", crd.kind(), version.name, crd.name()).expect("text");
        writeln!(table, "  {}", names_of(&narrow)).expect("text");
        if !wide.is_empty() {
            writeln!(table, "  -o wide: {}", names_of(&wide)).expect("text");
        }
    }
    insta::assert_snapshot!(table);
}

fn names_of(columns: &[&CustomResourceColumnDefinition]) -> String {
    columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}
