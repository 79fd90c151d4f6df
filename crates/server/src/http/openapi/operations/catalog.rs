//! Definitions and credentials.

use noetl_api::catalog::{CatalogList, UiSchema};
use noetl_api::paths;
use noetl_types::ErrorCode::{
    AlreadyTerminal, Forbidden, IdConflict, NotFound, TooLarge, Validation, VersionConflict,
    YamlSyntax,
};
use serde_json::json;

use super::queries::{Credential, Credentials, Keychain, Page, PlaybookOf, Sealed, VersionOf};
use super::{Operation, Tag, delete, get, post, put};

const PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: hello, path: examples/hello}\nworkflow:\n  - step: start\n    tool: {kind: noop}\n";

pub(super) fn operations() -> Vec<Operation> {
    let mut all = definitions();
    all.extend(readers());
    all.extend(credentials());
    all
}

fn definitions() -> Vec<Operation> {
    let tag = Tag::Playbooks;
    vec![
        post("register_playbook", paths::CATALOG_REGISTER, tag, "Registers a definition")
            .details("Stores the document under its path as the next version; the same content again is `unchanged`. A document with mistakes is refused with all of them, each with its line and column.")
            .fails(&[YamlSyntax, VersionConflict, TooLarge, Validation])
            .example(json!({ "content": PLAYBOOK })),
        post("register_playbooks", paths::CATALOG_REGISTER_BATCH, tag, "Registers many definitions")
            .details("Each by itself: a mistake in one does not keep the others out."),
        put("put_playbook_content", paths::CATALOG_CONTENT, tag, "Registers a text as the next version of a playbook")
            .query::<PlaybookOf>()
            .needs(&["playbook_id"])
            .fails(&[NotFound, YamlSyntax, VersionConflict])
            .example(json!({ "content": PLAYBOOK })),
        put("put_playbook", paths::CATALOG_PLAYBOOK, tag, "Registers a definition, as classic clients do")
            .fails(&[YamlSyntax, VersionConflict])
            .example(json!({ "content": PLAYBOOK })),
        post("validate_playbook", paths::CATALOG_VALIDATE, tag, "Checks a document and stores nothing")
            .fails(&[YamlSyntax])
            .only_reads()
            .example(json!({ "content": PLAYBOOK })),
        delete("archive_playbook", paths::CATALOG_PLAYBOOK_OF, tag, "Puts a playbook into the archive")
            .at("/api/catalog/playbooks/{playbook_id}")
            .details("By its path or its catalog id; slashes of a path are written as `%2F`. Refused while runs of it go on.")
            .fails(&[AlreadyTerminal, IdConflict]),
        post("restore_playbook", paths::CATALOG_RESTORE, tag, "Takes a definition out of the archive")
            .fails(&[NotFound])
            .example(json!({ "path": "examples/hello" })),
    ]
}

fn readers() -> Vec<Operation> {
    let tag = Tag::Playbooks;
    vec![
        get(
            "playbook_content",
            paths::CATALOG_CONTENT,
            tag,
            "The text of a playbook",
        )
        .query::<PlaybookOf>()
        .needs(&["playbook_id"])
        .fails(&[NotFound]),
        post(
            "list_playbooks",
            paths::CATALOG_LIST,
            tag,
            "The definitions, in the order of their paths",
        )
        .only_reads()
        .example(json!({ "resource_type": "playbook", "include_content": false, "limit": 50 })),
        get(
            "playbook_paths",
            paths::CATALOG_LIST_KIND,
            tag,
            "The paths of the definitions of a kind",
        ),
        post(
            "list_agents",
            paths::CATALOG_AGENTS,
            tag,
            "The definitions of agents",
        )
        .only_reads(),
        post(
            "get_playbook",
            paths::CATALOG_RESOURCE,
            tag,
            "A definition, by path or by id",
        )
        .only_reads()
        .fails(&[NotFound, Forbidden])
        .example(json!({ "path": "examples/hello", "version": "latest" })),
        get(
            "playbook_versions",
            paths::CATALOG_OF,
            tag,
            "The versions of a definition, newest first",
        )
        .at("/api/catalog/{path}/versions")
        .details("Slashes of the path may stand as they are, or as `%2F`.")
        .query::<Page>()
        .answers::<CatalogList>(),
        get(
            "playbook_form",
            paths::CATALOG_OF,
            tag,
            "What a form for the input of a playbook needs to know",
        )
        .at("/api/catalog/{path}/ui_schema")
        .details("Slashes of the path may stand as they are, or as `%2F`.")
        .query::<VersionOf>()
        .fails(&[Validation])
        .answers::<UiSchema>(),
    ]
}

fn credentials() -> Vec<Operation> {
    let tag = Tag::Credentials;
    vec![
        get("list_credentials", paths::CREDENTIALS, tag, "The credentials, without their secrets")
            .query::<Credentials>(),
        post("put_credential", paths::CREDENTIALS, tag, "Keeps a credential; one of the same name is replaced")
            .details("The secret is sealed and in no answer. Leaves a trail.")
            .example(json!({ "name": "warehouse", "type": "bearer", "data": { "token": "t" } })),
        get("get_credential", paths::CREDENTIAL, tag, "A credential, by its id or its name")
            .query::<Credential>()
            .details("With its secret for who has `cred:admin`, and for a worker with a live lease in a run that names it. Leaves a trail."),
        get("get_sealed_credential", paths::CREDENTIAL_SEALED, tag, "A credential with its secret, sealed for a worker")
            .query::<Sealed>()
            .needs(&["worker_id"])
            .details("For who would be shown it too. The worker has registered its `public_key`, in `runtime` or in `capabilities`. Leaves a trail."),
        delete("delete_credential", paths::CREDENTIAL, tag, "Forgets a credential")
            .details("Leaves a trail."),
        post("rotate_credentials", paths::ROTATE_KEYS, tag, "Wraps secrets under the current key")
            .details("Leaves a trail."),
        get("get_keychain", paths::KEYCHAIN, tag, "What workers resolved for an entry of a keychain")
            .query::<Keychain>()
            .details("With its data for who has `cred:admin`, and for a worker that holds a command of a run of the definition. What is bound to the run comes before what the root of its tree shares, and that before what is bound to no run. Leaves a trail."),
        post("put_keychain", paths::KEYCHAIN, tag, "Keeps what was resolved for a while; what was there is replaced")
            .details("It is sealed, and in no answer to others. For a worker that holds a command of a run of the definition, and for who has `cred:admin`. Leaves a trail.")
            .example(json!({ "data": { "token": "t" }, "scope_type": "global", "expires_in": 600 })),
        delete("delete_keychain", paths::KEYCHAIN, tag, "Forgets what was resolved")
            .query::<Keychain>()
            .details("For a worker that holds a command of a run of the definition, and for who has `cred:admin`. Leaves a trail."),
        get("list_keychain", paths::KEYCHAIN_OF, tag, "All that is kept for a definition, without its data")
            .query::<Page>(),
    ]
}
