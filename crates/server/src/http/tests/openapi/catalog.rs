//! Operations on definitions and credentials.

use noetl_api::catalog::{CatalogList, UiSchema};
use noetl_api::paths;
use noetl_types::ErrorCode::{
    AlreadyTerminal, Forbidden, IdConflict, NotFound, TooLarge, Validation, VersionConflict,
    YamlSyntax,
};
use serde_json::json;

use super::operations::{
    OperationSpec, OperationTag, delete_operation, get_operation, post_operation, put_operation,
};
use super::queries::{
    CredentialListParams, CredentialParams, KeychainParams, PageParams, PlaybookParams,
    SealedCredentialParams, VersionParams,
};

const EXAMPLE_PLAYBOOK: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: hello, path: examples/hello}\nworkflow:\n  - step: start\n    tool: {kind: noop}\n";

pub(super) fn catalog_operations() -> Vec<OperationSpec> {
    let mut all = definition_operations();
    all.extend(read_operations());
    all.extend(credential_operations());
    all
}

fn definition_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Playbooks;
    vec![
        post_operation("register_playbook", paths::CATALOG_REGISTER, tag, "Register a definition")
            .details("Stores the document as the next version of its path. Identical content is `unchanged`. An invalid document is rejected with all of its errors, each with line and column.")
            .error_codes(&[YamlSyntax, VersionConflict, TooLarge, Validation])
            .example(json!({ "content": EXAMPLE_PLAYBOOK })),
        post_operation("register_playbooks", paths::CATALOG_REGISTER_BATCH, tag, "Register several definitions")
            .details("Definitions are processed independently: an error in one does not affect the others."),
        put_operation("put_playbook_content", paths::CATALOG_CONTENT, tag, "Register new content of a playbook as its next version")
            .query::<PlaybookParams>()
            .required_params(&["playbook_id"])
            .error_codes(&[NotFound, YamlSyntax, VersionConflict])
            .example(json!({ "content": EXAMPLE_PLAYBOOK })),
        put_operation("put_playbook", paths::CATALOG_PLAYBOOK, tag, "Register a definition (classic clients)")
            .error_codes(&[YamlSyntax, VersionConflict])
            .example(json!({ "content": EXAMPLE_PLAYBOOK })),
        post_operation("validate_playbook", paths::CATALOG_VALIDATE, tag, "Validate a document without storing it")
            .error_codes(&[YamlSyntax])
            .read_only()
            .example(json!({ "content": EXAMPLE_PLAYBOOK })),
        delete_operation("archive_playbook", paths::CATALOG_PLAYBOOK_BY_ID, tag, "Archive a playbook")
            .with_path("/api/catalog/playbooks/{playbook_id}")
            .details("Identify the playbook by path, with slashes as `%2F`, or by catalog id. Fails while executions of the playbook are running.")
            .error_codes(&[AlreadyTerminal, IdConflict]),
        post_operation("restore_playbook", paths::CATALOG_RESTORE, tag, "Restore an archived definition")
            .error_codes(&[NotFound])
            .example(json!({ "path": "examples/hello" })),
    ]
}

fn read_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Playbooks;
    vec![
        get_operation(
            "playbook_content",
            paths::CATALOG_CONTENT,
            tag,
            "Get the source text of a playbook",
        )
        .query::<PlaybookParams>()
        .required_params(&["playbook_id"])
        .error_codes(&[NotFound]),
        post_operation(
            "list_playbooks",
            paths::CATALOG_LIST,
            tag,
            "List definitions, ordered by path",
        )
        .read_only()
        .example(json!({ "resource_type": "playbook", "include_content": false, "limit": 50 })),
        get_operation(
            "playbook_paths",
            paths::CATALOG_LIST_KIND,
            tag,
            "List the paths of the definitions of a kind",
        ),
        post_operation("list_agents", paths::CATALOG_AGENTS, tag, "List definitions of agents")
            .read_only(),
        post_operation(
            "get_playbook",
            paths::CATALOG_RESOURCE,
            tag,
            "Get a definition by path or catalog id",
        )
        .read_only()
        .error_codes(&[NotFound, Forbidden])
        .example(json!({ "path": "examples/hello", "version": "latest" })),
        get_operation(
            "playbook_versions",
            paths::CATALOG_DETAIL,
            tag,
            "List the versions of a definition, newest first",
        )
        .with_path("/api/catalog/{path}/versions")
        .details("Slashes in the path may be written as `/` or `%2F`.")
        .query::<PageParams>()
        .with_response::<CatalogList>(),
        get_operation(
            "playbook_ui_schema",
            paths::CATALOG_DETAIL,
            tag,
            "Get the UI schema for an input form of a playbook",
        )
        .with_path("/api/catalog/{path}/ui_schema")
        .details("Slashes in the path may be written as `/` or `%2F`.")
        .query::<VersionParams>()
        .error_codes(&[Validation])
        .with_response::<UiSchema>(),
    ]
}

fn credential_operations() -> Vec<OperationSpec> {
    let tag = OperationTag::Credentials;
    vec![
        get_operation("list_credentials", paths::CREDENTIALS, tag, "List credentials without their secrets")
            .query::<CredentialListParams>(),
        post_operation("put_credential", paths::CREDENTIALS, tag, "Create a credential, or replace the one with the same name")
            .details("The secret is stored encrypted and is not part of the response.")
            .example(json!({ "name": "warehouse", "type": "bearer", "data": { "token": "t" } })),
        get_operation("get_credential", paths::CREDENTIAL, tag, "Get a credential by id or name")
            .query::<CredentialParams>()
            .details("Includes the secret for callers with `cred:admin`, and for a worker with an active lease in an execution that uses the credential."),
        get_operation("get_sealed_credential", paths::CREDENTIAL_SEALED, tag, "Get a credential with its secret, encrypted for a worker")
            .query::<SealedCredentialParams>()
            .required_params(&["worker_id"])
            .details("Requires the same rights as reading the secret. The worker must have registered its `public_key` in `runtime` or `capabilities`."),
        delete_operation("delete_credential", paths::CREDENTIAL, tag, "Delete a credential"),
        post_operation("rotate_credentials", paths::ROTATE_KEYS, tag, "Encrypt the secrets of the tenant with the current key"),
        get_operation("get_keychain", paths::KEYCHAIN, tag, "Get a resolved keychain entry")
            .query::<KeychainParams>()
            .details("Includes the data for callers with `cred:admin`, and for a worker that holds a command of an execution of the definition. An entry of the execution takes precedence over a shared entry of its root execution, and that over a global entry."),
        post_operation("put_keychain", paths::KEYCHAIN, tag, "Store a resolved keychain entry, or replace it")
            .details("The data is stored encrypted. Requires `cred:admin`, or a worker that holds a command of an execution of the definition.")
            .example(json!({ "data": { "token": "t" }, "scope_type": "global", "expires_in": 600 })),
        delete_operation("delete_keychain", paths::KEYCHAIN, tag, "Delete a resolved keychain entry")
            .query::<KeychainParams>()
            .details("Requires `cred:admin`, or a worker that holds a command of an execution of the definition."),
        get_operation("list_keychain", paths::KEYCHAIN_CATALOG, tag, "List the resolved keychain entries of a definition without their data")
            .query::<PageParams>(),
    ]
}
