//! The words of a command line, in the forms in which playbooks give them.

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, printed, wrong};

/// The words that a key holds.
///
/// A list holds them one by one. A text is split at its blanks, with quotes and backslashes as in a
/// shell, but nothing else of one: no variables, no pipes. A map gives options: `{name: value}` is
/// `--name value`, `true` is the bare option, `false` and null are none, a list repeats it.
pub(crate) fn words(config: Config<'_>, key: &str) -> Result<Vec<String>, TaskError> {
    let Some(value) = config.get(key) else {
        return Ok(Vec::new());
    };
    match value {
        Json::Str(text) => split(text).ok_or_else(|| {
            let message = format!("'{key}' holds a quote that does not end");
            TaskError::new(TaskErrorKind::Parse, message)
        }),
        Json::List(items) => items.iter().map(|item| word(key, item)).collect(),
        Json::Map(options) => from_options(key, options),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
            Err(wrong(key, "a list, a text or a map", value))
        }
    }
}

fn word(key: &str, value: &Json) -> Result<String, TaskError> {
    printed(value)
        .filter(|word| !word.contains('\0'))
        .ok_or_else(|| wrong(key, "a list of texts and numbers", value))
}

fn from_options(key: &str, options: &JsonMap) -> Result<Vec<String>, TaskError> {
    let mut words = Vec::new();
    for (name, value) in options {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        for value in values {
            match value {
                Json::Null | Json::Bool(false) => {}
                Json::Bool(true) => words.push(format!("--{name}")),
                value => {
                    words.extend([format!("--{name}"), word(&format!("{key}.{name}"), value)?]);
                }
            }
        }
    }
    Ok(words)
}

/// The words of a text; `None` where a quote does not end.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            char if char.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        char => word.push(char),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            char @ ('"' | '\\') => word.push(char),
                            char => word.extend(['\\', char]),
                        },
                        char => word.push(char),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn read(value: &str) -> Result<Vec<String>, String> {
        let config = JsonMap::from([("args".into(), parse(value.as_bytes()).unwrap())]);
        words(Config(&config), "args").map_err(|error| error.message.to_string())
    }

    #[test]
    fn the_three_forms() {
        for (value, expected) in [
            ("null", &[][..]),
            (r#"["a b", 1, true, 1.5]"#, &["a b", "1", "true", "1.5"]),
            (r#""""#, &[]),
            (
                r#""echo  'a b' \"c \\\" d\" e\\ f ''""#,
                &["echo", "a b", "c \" d", "e f", ""],
            ),
            (r#""a && b | $c""#, &["a", "&&", "b", "|", "$c"]),
            (
                r#"{"v": true, "q": false, "n": null, "k": [1, "x"], "a": "b c"}"#,
                &["--a", "b c", "--k", "1", "--k", "x", "--v"],
            ),
        ] {
            assert_eq!(read(value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn what_is_not_words() {
        for (value, message) in [
            ("5", "'args' must be a list, a text or a map, not number"),
            (
                r#"["a", [1]]"#,
                "'args' must be a list of texts and numbers, not list",
            ),
            (
                r#"{"a": {"b": 1}}"#,
                "'args.a' must be a list of texts and numbers, not map",
            ),
            (r#""a 'b""#, "'args' holds a quote that does not end"),
        ] {
            assert_eq!(read(value).unwrap_err(), message);
        }
    }
}
