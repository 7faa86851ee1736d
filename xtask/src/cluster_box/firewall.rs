//! The packet filter: the box's own rules, and their removal. Before the first change `up` stores the output of
//! `iptables-save`; `down` compares it with the current rules and removes exactly what the box and kube-proxy added.
use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::layout::{NETWORK, PODS};
use crate::run;

/// Chains with these prefixes were created by the box, kube-proxy or the kubelet.
const OURS: [&str; 2] = ["KUBE-", "LIFEBOAT-BOX"];

/// The output of `iptables-save` and `ip6tables-save` before the box changed anything.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Before {
    v4: String,
    v6: String,
}

pub(super) fn save() -> Result<Before> {
    Ok(Before { v4: saved("iptables")?, v6: saved("ip6tables")? })
}

/// The rules before the box, if their record is lost: everything except what has the box's name. Chains of kube-proxy
/// have no owner's name; they are the box's if they lead to its network (two kube-proxies cannot share a machine).
pub(super) fn guess() -> Result<Before> {
    let now = save()?;
    let proxied = speaks_of_the_box(&now.v4);
    Ok(Before { v4: without_ours(&now.v4, proxied), v6: without_ours(&now.v6, proxied) })
}

fn speaks_of_the_box(saved: &str) -> bool {
    let network = NETWORK.trim_end_matches("0.0/16");
    saved.lines().any(|line| line.starts_with("-A KUBE-") && line.contains(network))
}

fn without_ours(saved: &str, proxied: bool) -> String {
    let is_ours = |line: &&str| line.contains("LIFEBOAT-BOX") || (proxied && line.contains("KUBE-"));
    saved.lines().filter(|line| !is_ours(line)).fold(String::new(), |text, line| text + line + "\n")
}

/// Lets pods reach the outside and be reached, whatever the policy of FORWARD is (Docker sets DROP).
pub(super) fn open() -> Result<()> {
    restore("iptables", &own_rules())
}

fn own_rules() -> String {
    format!(
        "*filter\n:LIFEBOAT-BOX - [0:0]\n\
         -A LIFEBOAT-BOX -s {PODS} -j ACCEPT\n-A LIFEBOAT-BOX -d {PODS} -j ACCEPT\n\
         -I FORWARD 1 -j LIFEBOAT-BOX\nCOMMIT\n\
         *nat\n:LIFEBOAT-BOX - [0:0]\n\
         -A LIFEBOAT-BOX -s {PODS} ! -d {NETWORK} -j MASQUERADE\n\
         -A POSTROUTING -j LIFEBOAT-BOX\nCOMMIT\n"
    )
}

/// Restores both address families to their former rules.
pub(super) fn close(before: &Before) -> Result<()> {
    for (program, before) in [("iptables", &before.v4), ("ip6tables", &before.v6)] {
        let before = Ruleset::parse(before);
        let removal = removal(&before, &Ruleset::parse(&saved(program)?));
        if !removal.is_empty() {
            restore(program, &removal)?;
        }
        drop_new_tables(program, &before)?;
    }
    Ok(())
}

/// iptables on nf_tables keeps tables that it created for a query: removes those that are new and empty.
fn drop_new_tables(program: &str, before: &Ruleset) -> Result<()> {
    let version = run::output(Command::new(program).arg("--version"))?;
    if !version.contains("nf_tables") {
        return Ok(()); // the tables of the older kind belong to the kernel and cannot be removed
    }
    let family = if program == "iptables" { "ip" } else { "ip6" };
    for table in empty_new_tables(before, &Ruleset::parse(&saved(program)?)) {
        run::output(Command::new("nft").args(["delete", "table", family, &table]))?;
    }
    Ok(())
}

/// Tables that did not exist before and have no rules, chains or policies.
fn empty_new_tables(before: &Ruleset, now: &Ruleset) -> Vec<String> {
    let is_empty =
        |table: &Table| table.rules.is_empty() && table.chains.values().all(|policy| policy == "ACCEPT");
    let new = now.0.iter().filter(|(name, table)| !before.0.contains_key(*name) && is_empty(table));
    new.map(|(name, _)| name.clone()).collect()
}

fn saved(program: &str) -> Result<String> {
    run::output(&mut Command::new(format!("{program}-save")))
}

fn restore(program: &str, input: &str) -> Result<()> {
    let mut command = Command::new(format!("{program}-restore"));
    run::with_input(command.args(["--noflush", "-w", "10"]), input)
        .map(drop)
        .with_context(|| format!("these rules were refused:\n{input}"))
}

/// The tables of one `iptables-save`, without counters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ruleset(BTreeMap<String, Table>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    /// Chain and policy; a user-defined chain has the policy `-`.
    chains: BTreeMap<String, String>,
    rules: Vec<String>,
}

impl Ruleset {
    fn parse(text: &str) -> Self {
        let mut tables = BTreeMap::<String, Table>::new();
        let mut current = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut current);
                tables.entry(current.clone()).or_default();
            } else if let Some(chain) = line.strip_prefix(':') {
                let mut parts = chain.split_whitespace();
                if let (Some(name), Some(policy)) = (parts.next(), parts.next()) {
                    tables.entry(current.clone()).or_default().chains.insert(name.into(), policy.into());
                }
            } else if line.starts_with("-A ") {
                tables.entry(current.clone()).or_default().rules.push(line.to_owned());
            }
        }
        Self(tables)
    }
}

/// The input for `iptables-restore --noflush` that removes only the box's chains and the rules that lead to them:
/// chains and rules of other programs stay, even those added after `up`.
fn removal(before: &Ruleset, now: &Ruleset) -> String {
    let mut lines = Vec::new();
    let empty = Table::default();
    for (name, table) in &now.0 {
        let old = before.0.get(name).unwrap_or(&empty);
        let chains: Vec<&String> =
            table.chains.keys().filter(|chain| is_ours(chain) && !old.chains.contains_key(*chain)).collect();
        let rules: Vec<String> = new_rules(old, table)
            .into_iter()
            .filter(|rule| leads_to(rule).is_some_and(is_ours) && !is_ours(chain_of(rule)))
            .map(|rule| rule.replacen("-A ", "-D ", 1))
            .collect();
        if chains.is_empty() && rules.is_empty() {
            continue;
        }
        let declared = chains.iter().map(|chain| format!(":{chain} - [0:0]"));
        let deleted = chains.iter().map(|chain| format!("-X {chain}"));
        lines.push(format!("*{name}"));
        lines.extend(declared.chain(rules).chain(deleted));
        lines.push("COMMIT".into());
    }
    lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

/// Rules that were added since; a rule that existed twice and now exists three times is new once.
fn new_rules<'a>(old: &'a Table, now: &'a Table) -> Vec<&'a String> {
    let mut known: Vec<&String> = old.rules.iter().collect();
    now.rules
        .iter()
        .filter(|rule| match known.iter().position(|each| each == rule) {
            Some(index) => {
                known.swap_remove(index);
                false
            }
            None => true,
        })
        .collect()
}

fn is_ours(chain: &str) -> bool {
    OURS.iter().any(|beginning| chain.starts_with(beginning))
}

fn chain_of(rule: &str) -> &str {
    rule.split_whitespace().nth(1).unwrap_or_default()
}

fn leads_to(rule: &str) -> Option<&str> {
    let mut parts = rule.split_whitespace();
    parts.find(|word| matches!(*word, "-j" | "-g"))?;
    parts.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# Generated\n*filter\n:INPUT ACCEPT [12:34]\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n\
        -A FORWARD -j DOCKER\n-A DOCKER -s 172.17.0.2/32 -j ACCEPT\nCOMMIT\n";

    #[test]
    fn a_guess_takes_chains_of_kube_proxy_for_ours_only_when_they_lead_to_our_network() {
        let ours = ":LIFEBOAT-BOX - [0:0]\n-A FORWARD -j LIFEBOAT-BOX\n";
        let host = "*nat\n:KUBE-SVC - [0:0]\n-A KUBE-SVC -d 10.96.0.1/32 -j KUBE-SEP\n";
        assert!(!speaks_of_the_box(host));
        assert_eq!(without_ours(&format!("{host}{ours}"), false), host);
        let boxed = host.replace("10.96.0.1", "10.217.128.1");
        assert!(speaks_of_the_box(&boxed));
        assert_eq!(without_ours(&format!("{boxed}{ours}"), true), "*nat\n");
    }

    #[test]
    fn nothing_is_removed_when_nothing_was_added() {
        let before = Ruleset::parse(BEFORE);
        let now = Ruleset::parse(&BEFORE.replace("[12:34]", "[999:999]"));
        assert_eq!(removal(&before, &now), "");
    }

    #[test]
    fn our_chains_and_the_rules_that_lead_to_them_go() {
        let now = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n:KUBE-FORWARD - [0:0]\n\
            :LIFEBOAT-BOX - [0:0]\n-A FORWARD -j LIFEBOAT-BOX\n-A FORWARD -m comment --comment \"kubernetes forwarding\" -j KUBE-FORWARD\n\
            -A FORWARD -j DOCKER\n-A DOCKER -s 172.17.0.2/32 -j ACCEPT\n-A KUBE-FORWARD -j KUBE-OTHER\nCOMMIT\n";
        assert_eq!(
            removal(&Ruleset::parse(BEFORE), &Ruleset::parse(now)),
            "*filter\n:KUBE-FORWARD - [0:0]\n:LIFEBOAT-BOX - [0:0]\n-D FORWARD -j LIFEBOAT-BOX\n\
             -D FORWARD -m comment --comment \"kubernetes forwarding\" -j KUBE-FORWARD\n\
             -X KUBE-FORWARD\n-X LIFEBOAT-BOX\nCOMMIT\n"
        );
    }

    #[test]
    fn chains_that_were_there_before_and_rules_of_others_stay() {
        let before = "*nat\n:POSTROUTING ACCEPT [0:0]\n:KUBE-POSTROUTING - [0:0]\n-A POSTROUTING -j KUBE-POSTROUTING\nCOMMIT\n";
        let now = "*nat\n:POSTROUTING ACCEPT [0:0]\n:KUBE-POSTROUTING - [0:0]\n:DOCKER - [0:0]\n-A POSTROUTING -j KUBE-POSTROUTING\n\
            -A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE\nCOMMIT\n";
        assert_eq!(removal(&Ruleset::parse(before), &Ruleset::parse(now)), "");
    }

    #[test]
    fn a_rule_that_stood_once_and_stands_twice_is_removed_once() {
        let before = "*nat\n:KUBE-X - [0:0]\n-A OUTPUT -j KUBE-X\nCOMMIT\n";
        let now = "*nat\n:KUBE-X - [0:0]\n-A OUTPUT -j KUBE-X\n-A OUTPUT -j KUBE-X\nCOMMIT\n";
        assert_eq!(
            removal(&Ruleset::parse(before), &Ruleset::parse(now)),
            "*nat\n-D OUTPUT -j KUBE-X\nCOMMIT\n"
        );
    }

    #[test]
    fn a_table_that_was_not_there_goes_when_it_is_empty() {
        let now = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n*mangle\n:MINE - [0:0]\nCOMMIT\n";
        assert_eq!(empty_new_tables(&Ruleset::parse(BEFORE), &Ruleset::parse(now)), ["nat"]);
    }

    #[test]
    fn rulesets_compare_without_counters() {
        assert_eq!(Ruleset::parse(":X ACCEPT [1:2]\n"), Ruleset::parse(":X ACCEPT [3:4]\n# comment\n"));
    }
}
