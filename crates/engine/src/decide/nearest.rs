//! What an author may have meant by a name that led nowhere.

use std::sync::Arc;

use noetl_playbook::template::{Dynamic, Place, Scope, Template};
use noetl_types::Json;

use crate::plan::expression;

/// Names that are told at most, and characters of each.
const MOST_NAMES: usize = 8;
const LONGEST_NAME: usize = 40;

/// The nearest thing on the way to a value that was null, and what it has:
/// `list has body, data, …`. The ask costs a render, so it belongs where the step fails anyway.
pub(super) fn nearest(source: &Dynamic, scope: &dyn Scope) -> Option<String> {
    let mut reads = source.reads();
    let (Some(read), None) = (reads.next(), reads.next()) else {
        return None;
    };
    (1..read.path.len())
        .rev()
        .find_map(|len| members(&read.path[..len], scope))
}

fn members(path: &[Arc<str>], scope: &dyn Scope) -> Option<String> {
    let expression = expression(path)?;
    let template = Template::parse(&format!("{{{{ {expression} }}}}"), Place::Run).ok()?;
    let rendered = template.render(scope).ok()?;
    let Json::Map(map) = &rendered.value else {
        return None;
    };
    if map.is_empty() || rendered.is_secret() {
        return None;
    }
    let short = |name: &Arc<str>| name.chars().take(LONGEST_NAME).collect::<String>();
    let mut names: Vec<_> = map.keys().take(MOST_NAMES).map(short).collect();
    if map.len() > MOST_NAMES {
        names.push("…".to_owned());
    }
    Some(format!("{} has {}", path.join("."), names.join(", ")))
}
