//! What came out of a run, as data.

use std::fmt::Write as _;

use clap::ValueEnum;
use noetl_types::{Json, JsonMap};

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
    /// A text as it is; anything else as JSON in one line.
    Text,
}

/// Writes out a result. Unless a form is asked for, a text is shown as it is and nothing is shown
/// of nothing.
pub(crate) fn render(result: &Json, form: Option<Form>) -> Option<String> {
    Some(match form {
        Some(Form::Json) => indented(result),
        Some(Form::Yaml) => yaml(result),
        Some(Form::Text) => bare(result),
        None => match result {
            Json::Null => return None,
            Json::Str(_) => bare(result),
            Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::List(_)
            | Json::Map(_) => indented(result),
        },
    })
}

fn indented(value: &Json) -> String {
    // Every value of ours can be written; where that should fail, its short form says the same.
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    text + "\n"
}

fn bare(value: &Json) -> String {
    let mut text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn yaml(value: &Json) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

/// Writes a value that begins on a line of its own.
fn block(text: &mut String, value: &Json, indent: usize) {
    if !is_block(value) {
        let _ = writeln!(text, "{:indent$}{}", "", scalar(value));
    } else if let Json::Map(map) = value {
        entries(text, map, indent, true);
    } else if let Json::List(items) = value {
        for item in items.iter() {
            let _ = write!(text, "{:indent$}-", "");
            match item {
                // The first entry stands behind the dash, the others below it.
                Json::Map(map) if !map.is_empty() => {
                    text.push(' ');
                    entries(text, map, indent + 2, false);
                }
                other => behind(text, other, indent + 2),
            }
        }
    }
}

/// Whether a value takes lines of its own.
fn is_block(value: &Json) -> bool {
    match value {
        Json::Map(map) => !map.is_empty(),
        Json::List(items) => !items.is_empty(),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => false,
    }
}

fn entries(text: &mut String, map: &JsonMap, indent: usize, mut is_padded: bool) {
    for (key, value) in map {
        let pad = if is_padded { indent } else { 0 };
        let _ = write!(text, "{:pad$}{}:", "", quoted(key));
        behind(text, value, indent + 2);
        is_padded = true;
    }
}

fn behind(text: &mut String, value: &Json, indent: usize) {
    if is_block(value) {
        text.push('\n');
        block(text, value, indent);
    } else {
        let _ = writeln!(text, " {}", scalar(value));
    }
}

fn scalar(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

/// A text that reads back as itself: bare where nothing else could be meant.
fn quoted(text: &str) -> String {
    let is_plain = text
        .chars()
        .all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '/' | '.' | ' '))
        && text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && noetl_playbook::to_json(text)
            .as_ref()
            .and_then(Json::as_str)
            == Some(text)
        && !is_old_word(text);
    if is_plain {
        text.to_owned()
    } else {
        Json::from(text).to_string()
    }
}

/// Words that older readers of YAML take for something else.
fn is_old_word(text: &str) -> bool {
    matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Json {
        let inner = Json::object([
            ("b", Json::list([Json::from(1_i64), Json::Null])),
            ("a", Json::from("x y")),
        ]);
        Json::object([
            (
                "list",
                Json::list([inner.clone(), Json::list([inner]), Json::list([])]),
            ),
            ("word", Json::from("no")),
            ("text", Json::from("two\nlines")),
            ("empty", Json::empty_map()),
        ])
    }

    #[test]
    fn the_forms() {
        insta::assert_snapshot!(render(&sample(), Some(Form::Yaml)).unwrap(), @r#"
        empty: {}
        list:
          - a: x y
            b:
              - 1
              - null
          -
            - a: x y
              b:
                - 1
                - null
          - []
        text: "two\nlines"
        word: "no"
        "#);
        let text = Json::from("hello");
        assert_eq!(render(&text, None).unwrap(), "hello\n");
        assert_eq!(render(&text, Some(Form::Json)).unwrap(), "\"hello\"\n");
        assert_eq!(render(&Json::Null, None), None);
        assert_eq!(render(&Json::Null, Some(Form::Json)).unwrap(), "null\n");
        assert_eq!(
            render(&Json::list([Json::from(1_i64)]), Some(Form::Text)).unwrap(),
            "[1]\n"
        );
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            "\\PC{0,8}|yes|1e3|~|- a|a: b|[0-9._-]{0,5}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map("[a-z1-9 :]{1,4}", inner, 0..4).prop_map(Json::object),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_reads_back(value in any_json()) {
            let text = render(&value, Some(Form::Yaml)).unwrap();
            prop_assert_eq!(noetl_playbook::to_json(&text), Some(value), "{}", text);
        }
    }
}
