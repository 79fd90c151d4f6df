//! Command-line arguments, in all forms that playbooks may use.

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, scalar_text, wrong_type};

/// Reads the arguments of a key.
///
/// A list holds one argument per item. A text is split at whitespace, with quotes and backslashes
/// as in a shell, but without other shell syntax: no variables, no pipes. A map holds options:
/// `{name: value}` becomes `--name value`, `true` becomes the bare option, `false` and null are
/// omitted, and a list repeats the option.
pub(crate) fn read_args(config: Config<'_>, key: &str) -> Result<Vec<String>, TaskError> {
    let Some(value) = config.get(key) else {
        return Ok(Vec::new());
    };
    match value {
        Json::Str(text) => split_args(text).ok_or_else(|| {
            TaskError::new(TaskErrorKind::Parse, format!("'{key}' contains an unclosed quote"))
        }),
        Json::List(items) => items.iter().map(|item| read_arg(key, item)).collect(),
        Json::Map(options) => args_from_options(key, options),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
            Err(wrong_type(key, "a list, a text or a map", value))
        }
    }
}

fn read_arg(key: &str, value: &Json) -> Result<String, TaskError> {
    scalar_text(value)
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| wrong_type(key, "a list of texts and numbers", value))
}

fn args_from_options(key: &str, options: &JsonMap) -> Result<Vec<String>, TaskError> {
    let mut args = Vec::new();
    for (name, value) in options {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value));
        for value in values {
            match value {
                Json::Null | Json::Bool(false) => {}
                Json::Bool(true) => args.push(format!("--{name}")),
                value => {
                    args.extend([format!("--{name}"), read_arg(&format!("{key}.{name}"), value)?]);
                }
            }
        }
    }
    Ok(args)
}

/// Splits a text into arguments. Returns `None` if a quote is not closed.
fn split_args(text: &str) -> Option<Vec<String>> {
    let mut args = Vec::new();
    let mut arg: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if quote.is_none() && char.is_whitespace() {
            args.extend(arg.take());
            continue;
        }
        let arg = arg.get_or_insert_default();
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some(opening), _) if char == opening => quote = None,
            (None, '\\') => arg.extend(chars.next()),
            (Some('"'), '\\') => match chars.next()? {
                char @ ('"' | '\\') => arg.push(char),
                char => arg.extend(['\\', char]),
            },
            (_, char) => arg.push(char),
        }
    }
    args.extend(arg);
    quote.is_none().then_some(args)
}

#[cfg(test)]
mod tests;
