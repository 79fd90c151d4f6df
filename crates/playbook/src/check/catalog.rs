//! Checks references to catalog entries, if the entries are known.

use noetl_types::Json;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{LoopSource, Playbook, Task, ToolKind};
use crate::parse::CatalogNames;
use crate::source::Span;
use crate::template::{DynamicKey, DynamicValue};

/// Returns the playbooks and credentials that a playbook names without a template.
pub fn find_references(playbook: &Playbook) -> CatalogNames {
    let references = list_references(playbook);
    let names = |kind: ReferenceKind| {
        let names = references.iter().filter(|reference| reference.kind == kind);
        Some(names.map(|reference| reference.name.to_owned()).collect())
    };
    CatalogNames {
        playbooks: names(ReferenceKind::Playbook),
        credentials: names(ReferenceKind::Credential),
    }
}

pub(super) fn check_references(
    sink: &mut DiagnosticSink<'_>,
    playbook: &Playbook,
    known: &CatalogNames,
) {
    for Reference { kind, name, span } in list_references(playbook) {
        let (code, names) = match kind {
            ReferenceKind::Playbook => (Code::NP706, &known.playbooks),
            ReferenceKind::Credential => (Code::NP605, &known.credentials),
        };
        let Some(names) = names.as_ref().filter(|names| !names.contains(name)) else {
            continue;
        };
        let nearest = nearest_name(name, names.iter().map(String::as_str));
        let message = match kind {
            ReferenceKind::Playbook => format!("playbook '{name}' is not in the catalog"),
            ReferenceKind::Credential => format!("credential '{name}' is not registered"),
        };
        sink.add_with_suggestion(code, span, message, nearest);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceKind {
    Playbook,
    Credential,
}

struct Reference<'p> {
    kind: ReferenceKind,
    name: &'p str,
    span: Span,
}

fn list_references(playbook: &Playbook) -> Vec<Reference<'_>> {
    let mut references = Vec::new();
    for entry in &playbook.keychain {
        add_credentials(&mut references, entry.auth.as_ref(), false, entry.name.span);
    }
    for step in &playbook.workflow {
        if let Some(LoopSource::Cursor(cursor)) =
            step.looping.as_ref().map(|looping| &looping.source)
        {
            add_credentials(&mut references, cursor.auth.as_ref(), false, step.name.span);
        }
    }
    let steps = playbook.workflow.iter().flat_map(|step| step.tool.tasks());
    for task in steps.chain(playbook.workbook.iter().map(|task| &task.tool)) {
        add_task_references(&mut references, task);
    }
    references
}

fn add_task_references<'p>(references: &mut Vec<Reference<'p>>, task: &'p Task) {
    let has_members = task.kind.value == ToolKind::Duckdb;
    add_credentials(references, task.auth.as_ref(), has_members, task.auth_span.span);
    match task.kind.value {
        ToolKind::Transfer => {
            for field in ["source", "target"].iter().filter_map(|side| task.config.get(side)) {
                let aliases = match &field.value {
                    DynamicValue::Const(side) => {
                        side.get("auth").map(|auth| json_aliases(auth, false)).unwrap_or_default()
                    }
                    DynamicValue::Map(entries) => {
                        let auth = entries.iter().find(|(key, _)| is_key(key, &["auth"]));
                        auth.map(|(_, auth)| literal_aliases(auth, false)).unwrap_or_default()
                    }
                    DynamicValue::Text(_) | DynamicValue::List(_) => Vec::new(),
                };
                references.extend(credentials(aliases, field.span()));
            }
        }
        ToolKind::Playbook => {
            if let Some(field) = task.config.get("path")
                && let Some(path) = field.value.as_const().and_then(Json::as_str)
            {
                let name = path.trim_start_matches('/');
                let kind = ReferenceKind::Playbook;
                references.push(Reference { kind, name, span: field.span() });
            }
        }
        _ => {}
    }
}

fn add_credentials<'p>(
    references: &mut Vec<Reference<'p>>,
    auth: Option<&'p DynamicValue>,
    has_members: bool,
    span: Span,
) {
    let aliases = auth.map(|auth| literal_aliases(auth, has_members)).unwrap_or_default();
    references.extend(credentials(aliases, span));
}

fn credentials(aliases: Vec<&str>, span: Span) -> impl Iterator<Item = Reference<'_>> {
    let kind = ReferenceKind::Credential;
    aliases.into_iter().map(move |name| Reference { kind, name, span })
}

/// Returns the names of credentials in an `auth`: its alias, that of a map that names one, or those
/// of the members of a map.
fn literal_aliases(auth: &DynamicValue, has_members: bool) -> Vec<&str> {
    match auth {
        DynamicValue::Const(value) => json_aliases(value, has_members),
        DynamicValue::Map(entries)
            if has_members && !entries.iter().any(|(key, _)| is_key(key, &CREDENTIAL_KEYS)) =>
        {
            entries.iter().flat_map(|(_, value)| literal_aliases(value, false)).collect()
        }
        DynamicValue::Map(_) | DynamicValue::Text(_) | DynamicValue::List(_) => Vec::new(),
    }
}

fn json_aliases(auth: &Json, has_members: bool) -> Vec<&str> {
    let text = |key: &str| auth.get(key).and_then(Json::as_str);
    match (auth, text("source"), text("key")) {
        (Json::Str(alias), _, _) => vec![alias],
        (_, Some("credential"), Some(alias)) => vec![alias],
        (Json::Map(map), _, _)
            if has_members && !CREDENTIAL_KEYS.iter().any(|key| map.contains_key(*key)) =>
        {
            map.values().flat_map(|member| json_aliases(member, false)).collect()
        }
        _ => Vec::new(),
    }
}

/// Keys of a map that is one credential, or names one.
const CREDENTIAL_KEYS: [&str; 2] = ["type", "source"];

fn is_key(key: &DynamicKey, names: &[&str]) -> bool {
    matches!(key, DynamicKey::Name(name) if names.contains(&&**name))
}
