//! The settings in force, each with its source.

use std::collections::BTreeMap;

use maud::{Markup, html};
use model::{ConfigShown, SettingShown};
use serde_json::Value;

use crate::app::{App, Page, Place};
use crate::form::Fields;
use crate::layout::{command, nothing, scrolled};
use crate::text::{encoded, quoted};
use crate::trouble::Trouble;
use crate::{say, text};

type Settings = BTreeMap<String, SettingShown>;

/// Draws the page of the settings: of what somebody has set, or of all.
pub(crate) async fn page(app: &App, fields: &Fields) -> Result<Page, Trouble> {
    let config = app.source.config().await?;
    let all = fields.get("show") == Some("all");
    let every = || std::iter::once(&config.settings).chain(&config.pools).flatten();
    let counts = [every().filter(|(_, setting)| setting.is_set()).count(), every().count()];
    let main = html! {
        h1 { "Config" }
        p.lead {
            "The settings in force"
            @if let Some(file) = &config.file { ", of " (text::short(file)) " and of flags and variables" } @else { ", of flags and variables" }
            ". What may be a secret is hidden."
        }
        nav.states aria-label="Which settings" {
            a href=(app.link("/config")) aria-current=[(!all).then_some("true")] { (say::count(counts[0] as u64)) " set" }
            a href=(app.link("/config?show=all")) aria-current=[all.then_some("true")] { "all " (say::count(counts[1] as u64)) }
        }
        (part("config-whole", html! { "Supervisor" }, "the supervisor", &config.settings, all))
        @for pool in &config.pools {
            @let name = pool.get("name").and_then(|name| name.value.as_str()).unwrap_or_default();
            (part(&format!("config-{}", encoded(name)), html! { "Pool " a href={ (app.of("pool", name)) } { (text::short(name)) } }, name, pool, all))
        }
        (command(app, &line(app, &config)))
    };
    Ok(Page::new("Config", Place::Config, "orders", main))
}

/// The command that shows the same. Flags of `start` are the reader's to add.
fn line(app: &App, config: &ConfigShown) -> String {
    // The page may have been started with a file already.
    let named = config.file.as_ref().filter(|_| !app.options.contains("-c "));
    let file = named.map(|file| format!(" -c {}", quoted(file)));
    format!("taskvisor config show{}", file.unwrap_or_default())
}

fn part(key: &str, title: Markup, name: &str, settings: &Settings, all: bool) -> Markup {
    let shown: Vec<_> = settings.iter().filter(|(_, setting)| all || setting.is_set()).collect();
    html! {
        section data-key=(key) aria-labelledby=(key) {
            h2 id=(key) { (title) }
            @if shown.is_empty() { (nothing("Each setting has its default.")) } @else {
                (scrolled(&format!("Settings of {name}"), html! {
                    table {
                        thead { tr { th { "Setting" } th { "Value" } th { "From" } } }
                        tbody { @for (name, setting) in shown { (row(name, setting)) } }
                    }
                }))
            }
        }
    }
}

fn row(name: &str, setting: &SettingShown) -> Markup {
    html! {
        tr data-key=(name) {
            th scope="row" { (text::short(name)) }
            td.what { @if setting.hidden { span.mark { "hidden" } } @else { (value(&setting.value)) } }
            td.what { @if setting.is_set() { (text::short(&setting.from)) } @else { span.dim { "default" } } }
        }
    }
}

/// A value in a line, a list without its brackets.
fn value(value: &Value) -> Markup {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Null => html! { span.dim { "none" } },
        Value::Array(all) if all.is_empty() => html! { span.dim { "none" } },
        Value::Object(all) if all.is_empty() => html! { span.dim { "none" } },
        Value::Array(all) => text::short(&all.iter().map(plain).collect::<Vec<_>>().join(", ")),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => text::short(&plain(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_at_a_glance_and_stay_text() {
        for (json, shown) in [
            ("null", "<span class=\"dim\">none</span>"),
            ("\"30s\"", "<bdi>30s</bdi>"),
            ("4", "<bdi>4</bdi>"),
            (r#"["a", "<b>", 3]"#, "<bdi>a, &lt;b&gt;, 3</bdi>"),
        ] {
            assert_eq!(value(&serde_json::from_str(json).unwrap()).into_string(), shown);
        }
    }

    #[test]
    fn secret_is_told_from_a_setting_without_a_value() {
        let hidden = SettingShown { hidden: true, from: "t.yaml:1:1".into(), ..SettingShown::default() };
        assert!(row("run", &hidden).into_string().contains(">hidden<"));
    }
}
