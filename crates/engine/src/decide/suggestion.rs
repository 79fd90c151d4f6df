//! Suggestions for names that resolve to nothing.

use std::sync::Arc;

use noetl_playbook::template::{DynamicValue, Template, TemplateEnvironment, TemplatePlace};
use noetl_types::Json;

use crate::plan::path_expression;

/// Maximum number of suggested names, and of characters of each.
const MAX_SUGGESTED_NAMES: usize = 8;
const MAX_NAME_CHARS: usize = 40;

/// Describes the innermost defined value on the path to a null value and its members: `list has
/// body, data, …`. This renders a template, so it is used only if the step fails anyway.
pub(super) fn suggest_members(
    source: &DynamicValue,
    environment: &dyn TemplateEnvironment,
) -> Option<String> {
    let mut reads = source.reads();
    let (Some(read), None) = (reads.next(), reads.next()) else {
        return None;
    };
    (1..read.path.len()).rev().find_map(|len| describe_members(&read.path[..len], environment))
}

fn describe_members(path: &[Arc<str>], environment: &dyn TemplateEnvironment) -> Option<String> {
    let expression = path_expression(path)?;
    let template = Template::parse(&format!("{{{{ {expression} }}}}"), TemplatePlace::Run).ok()?;
    let rendered = template.render(environment).ok()?;
    let Json::Map(map) = &rendered.value else {
        return None;
    };
    if map.is_empty() || rendered.is_secret() {
        return None;
    }
    let short = |name: &Arc<str>| name.chars().take(MAX_NAME_CHARS).collect::<String>();
    let mut names: Vec<_> = map.keys().take(MAX_SUGGESTED_NAMES).map(short).collect();
    if map.len() > MAX_SUGGESTED_NAMES {
        names.push("…".to_owned());
    }
    Some(format!("{} has {}", path.join("."), names.join(", ")))
}
