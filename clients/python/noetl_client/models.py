# Generated from docs/openapi.json by generate.py; do not edit.
"""Request and response bodies of the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


CommandStatus = Literal["PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]


ErrorCode = Literal["bad_json", "bad_query", "bad_id", "yaml_syntax", "out_of_range", "unauthenticated", "token_expired", "forbidden", "not_lease_holder", "wrong_region", "not_found", "method_not_allowed", "version_conflict", "already_terminal", "already_decided", "active_claim", "stale_attempt", "id_conflict", "in_flight", "owned_by_other", "digest_mismatch", "paused", "retention_dropped", "too_large", "unsupported_media", "validation", "idempotency_mismatch", "dedup_mismatch", "illegal_transition", "rate_limited", "quota_exceeded", "internal", "not_supported", "upstream_failed", "store_unavailable", "pool_saturated", "disk_full", "not_ready", "timeout"]


EventOrder = Literal["asc", "desc"]
"""Sort order of events."""


ExecutionStatus = Literal["PENDING", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED"]


HealthStatus = Literal["ok", "degraded", "failed"]
"""Health of a component."""


KeychainStatus = Literal["found", "not_found", "expired"]
"""State of an entry."""


ProjectionKind = Literal["execution", "stage", "frame", "command", "business_object", "loop", "all"]


RawEvent = Any
"""An event as received. One that the log cannot store, for example with NUL in a string or a
duplicate key, is rejected alone and not with its whole batch.
"""


RejectCode = Literal["missing_execution_id", "bad_value", "id_in_future", "id_conflict", "tenant_mismatch", "retention_dropped"]


ReportDisposition = Literal["accepted", "duplicate", "ignored", "rejected"]
"""Disposition of a report."""


ReportStatus = Literal["completed", "failed", "progress", "suspended"]
"""Reported status of a command."""


ResolutionScope = Literal["execution", "frame", "business_object"]
"""Owner of a reference."""


ResultKind = Literal["data", "ref", "refs"]
"""Form of the result in an event."""


Scope = Literal["exec:read", "exec:run", "exec:approve", "catalog:read", "catalog:write", "sub:write", "cred:use", "cred:admin", "worker", "internal:outbox", "internal:project", "internal:retention", "metrics:read", "admin"]


SecretOperation = Literal["set", "inspect", "read", "issue", "issue_sealed", "delete", "rotate", "keychain.put", "keychain.get", "keychain.delete"]


TaskError = Any
"""Error of a task: an object with `kind` and `message`, or a string."""


TaskStatus = Literal["ok", "error"]
"""Status of a task."""


VersionSelector = int | str
"""Version of a definition."""


WaitConditionKind = Literal["paused", "pool", "approval", "signal", "limit", "retry", "child", "timer", "lease", "command", "join"]
"""Kind of a condition that an execution waits for. Ordered by severity: conditions that only a
person can resolve come first.
"""


@dataclass(kw_only=True)
class AccessRequest:
    """Asks if a token allows an action on a playbook. A classic body, which contains a secret."""

    session_token: str | None = None
    """The token, unless a header of the request contains it."""
    playbook_path: str | None = None
    """Path of the playbook."""
    permission_type: str | None = None
    """`execute`, `view` or `modify`; default `execute`."""


@dataclass(kw_only=True)
class AccessResponse:
    """Access of a token to a playbook."""

    allowed: bool
    """True if the token allows the action."""
    playbook_path: str
    """Path of the playbook."""
    permission_type: str
    """The action."""
    user: SessionUser
    """Owner of the token."""


@dataclass(kw_only=True)
class AdvanceFailure:
    """An execution whose read model could not be updated."""

    execution_id: int
    """Id of the execution."""
    error: str
    """Error message."""


@dataclass(kw_only=True)
class AdvanceRequest:
    """Updates the read models of executions from their logs."""

    execution_ids: list[str | int]
    """Ids of the executions."""


@dataclass(kw_only=True)
class AdvanceResponse:
    """Result of updating read models."""

    advanced: list[AdvancedExecution]
    """Updated executions."""
    failed: list[AdvanceFailure]
    """Executions that could not be updated."""


@dataclass(kw_only=True)
class AdvancedExecution:
    """An execution whose read model was updated."""

    execution_id: int
    """Id of the execution."""
    version: int
    """Version of the read model."""
    events: int
    """Number of processed events."""


@dataclass(kw_only=True)
class AgentListRequest:
    """Lists agents. A classic body."""

    capabilities: list[str] | None = None
    """Filter by capabilities. An agent must have all of them."""


@dataclass(kw_only=True)
class AnalyzeRequest:
    """Limits of an analysis."""

    max_events: int | None = None
    """Number of recent events to analyze, 1 to 20000."""
    event_sample_size: int | None = None
    """Number of events to return, 1 to 500."""


@dataclass(kw_only=True)
class ApprovalList:
    """A page of pending approvals."""

    approvals: list[ApprovalView]
    """Approvals in the order of their executions."""
    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""


@dataclass(kw_only=True)
class ApprovalView:
    """A pending approval."""

    execution_id: str
    """Id of the execution."""
    step: str
    """Waiting step."""
    index: int | None = None
    """Iteration, in a loop."""
    title: Any = None
    """Title of the request."""
    message: Any = None
    """Message of the request."""
    form: Any = None
    """JSON Schema of the values of a decision."""
    approvers: Any
    """Allowed approvers; any caller if empty."""
    quorum: Any = None
    """Number of required approvals."""
    since: str
    """Start of the wait."""
    until: str | None = None
    """End of the wait."""


@dataclass(kw_only=True)
class ApproveRequest:
    """Decides an approval."""

    step: str
    """Step that waits for the approval."""
    index: int | None = None
    """Iteration, in a loop."""
    decision: str
    """`approve` or `reject`."""
    comment: str | None = None
    """Comment of the approver."""
    values: Any = None
    """Values of the form."""


@dataclass(kw_only=True)
class ApproveResponse:
    """A recorded decision."""

    seq: int
    """Last sequence number of the log."""
    decision: str
    """The decision."""


@dataclass(kw_only=True)
class ArchiveResponse:
    """Result of archiving or restoring a definition."""

    status: str
    """`archived` or `active`."""
    message: str
    """Human-readable message."""
    path: str
    """Path of the definition."""


@dataclass(kw_only=True)
class AuditEntryView:
    """An entry of the audit log."""

    id: str
    """Id of the entry."""
    seq: int
    """Sequence number in the audit log, from 1 without gaps."""
    occurred_at: str
    """Time of the request."""
    actor: str
    """Actor of the request."""
    action: str
    """Audited action: a method and a route, or `access` for a rejected access."""
    target: str | None = None
    """Path of the request."""
    address: str | None = None
    """Network address of the caller."""
    outcome: str
    """`ok`, or an error code."""
    detail: Any = None
    """The token, or the number and the start of repeated rejections."""
    secret: SecretOperationView | None = None
    """Operation on a secret, if there was one."""
    chain: str
    """Hash chain link to the previous entry, in hexadecimal."""


@dataclass(kw_only=True)
class AuditPage:
    """A page of the audit log, newest first."""

    entries: list[AuditEntryView]
    """The entries."""
    next_cursor: str | None = None
    """Cursor of the next page."""
    intact: bool
    """True if every entry of the page has a valid link to the previous entry."""


@dataclass(kw_only=True)
class BroadcastResponse:
    """A broadcast signal."""

    signal_id: str
    """Id of the signal."""
    delivered: list[str]
    """Executions that were waiting for it."""


@dataclass(kw_only=True)
class BusinessObjectEntry:
    """A business object that events are about."""

    attributes: Any = None
    """Attributes of the object: a map."""
    deleted_event_id: int | None = None
    """Event that deleted the object."""
    event_count: int | None = None
    """Number of events about the object."""
    first_event_id: int | None = None
    """First event about the object."""
    last_event_id: int | None = None
    """Last event about the object."""
    last_event_type: str | None = None
    """Type of the last event."""
    last_payload_ref: PayloadRef | None = None
    """Last reference in its events."""
    object_id: str | None = None
    """Id of the object."""
    object_key: str | None = None
    """Key of the object: type and id."""
    object_type: str | None = None
    """Type of the object."""
    payload_refs: list[PayloadRef] | None = None
    """References in its events, in log order."""
    status: str | None = None
    """Current status."""
    version: int | None = None
    """Version of the object."""


@dataclass(kw_only=True)
class CancelRequest:
    """Cancels an execution. A classic body."""

    reason: str | None = None
    """Reason for the cancellation."""
    cascade: bool | None = None
    """Also cancel the child executions that it waits for; default true."""
    force: bool | None = None
    """End it without its final step, or end the final step that runs; default false."""


@dataclass(kw_only=True)
class CancelResponse:
    """A cancelled execution."""

    execution_id: str
    """Id of the execution."""
    status: str
    """`cancelled`, or `cancelling` while its final step runs. A second request ends the final step.
    """
    cancelled_executions: list[str]
    """All cancelled executions."""
    message: str
    """Human-readable message."""


@dataclass(kw_only=True)
class CancellationCheck:
    """Cancellation state of an execution."""

    execution_id: str
    """Id of the execution."""
    is_cancelled: bool
    """True if the execution has ended as cancelled. False while its final step runs."""


@dataclass(kw_only=True)
class CatalogList:
    """A page of definitions."""

    entries: list[CatalogListEntry]
    """Definitions in the order of their paths."""
    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""


@dataclass(kw_only=True)
class CatalogListEntry:
    """A definition in a list."""

    catalog_id: str
    """Id of the version."""
    path: str
    """Path of the definition."""
    kind: str
    """Kind of the document, in lower case."""
    version: int
    """Version of the definition."""
    content: str | None = None
    """Content of the document."""
    layout: Any
    """Layout of the graph in a console."""
    payload: Any
    """For classic clients; always absent."""
    meta: Any
    """Metadata of the document."""
    created_at: str
    """Registration time."""
    status: str
    """`active` or `archived`."""


@dataclass(kw_only=True)
class CatalogListRequest:
    """Lists definitions. A classic body."""

    resource_type: str | None = None
    """Filter by kind of document."""
    latest_only: bool | None = None
    """List only the newest version of each definition; default true."""
    include_content: bool | None = None
    """Include the content of the documents; default true."""
    q: str | None = None
    """Filter by text in the path."""
    limit: int | None = None
    """Maximum number of entries."""
    cursor: str | None = None
    """Cursor of the previous page."""


@dataclass(kw_only=True)
class CatalogResource:
    """A definition with its content."""

    catalog_id: str
    """Id of the version."""
    path: str
    """Path of the definition."""
    kind: str
    """Kind of the document, in lower case."""
    version: int
    """Version of the definition."""
    content: str
    """Content of the document."""
    sha256: str
    """SHA-256 digest of the document, in hexadecimal."""
    created_at: str
    """Registration time."""


@dataclass(kw_only=True)
class CatalogResourceRequest:
    """Selects a definition. A classic body."""

    catalog_id: str | int | None = None
    """Id of the version."""
    path: str | None = None
    """Path of the definition."""
    version: VersionSelector | None = None
    """Version; the newest if absent."""


@dataclass(kw_only=True)
class CausalEvent:
    """An event in a causal chain."""

    seq: int
    """Sequence number in the execution."""
    event_type: str
    """Type of the event."""
    step: str | None = None
    """Name of the step."""
    at: str
    """Time of the event."""
    why: str
    """Human-readable description."""


@dataclass(kw_only=True)
class ClaimRequest:
    """Claims a command."""

    worker_id: str
    """Worker that claims the command."""


@dataclass(kw_only=True)
class ClaimResponse:
    """A claimed command."""

    status: str
    """`ok`."""
    event_id: int
    """Event that issued the command."""
    execution_id: int
    """Id of the execution."""
    node_id: str
    """Id of the node: the name of the step."""
    node_name: str
    """Name of the step."""
    action: str
    """Kind of the first tool."""
    context: ClassicContext
    """`tool_config` and `args` as in the playbook, and the `render_context` of their templates."""
    meta: dict[str, Any]
    """Metadata of the command."""
    lease_token: str
    """Token that proves the lease, for workers that send it back."""
    lease_until: str
    """End of the lease, unless a pool heartbeat renews it."""
    attempt: int
    """Number of the attempt, from 1."""


@dataclass(kw_only=True)
class ClassicCommand:
    """A command for a classic worker."""

    execution_id: int
    """Id of the execution."""
    node_id: str
    """Id of the node: the name of the step."""
    node_name: str
    """Name of the step."""
    action: str
    """Kind of the first tool."""
    context: ClassicContext
    """`tool_config` and `args` as in the playbook, and the `render_context` of their templates."""
    meta: dict[str, Any]
    """Metadata of the command."""


@dataclass(kw_only=True)
class ClassicContext:
    """Input of a classic worker."""

    tool_config: Any
    """Tool configuration as in the playbook; a list for a pipeline."""
    args: dict[str, Any]
    """Input of the step and of its task."""
    render_context: dict[str, Any]
    """Template variables."""


@dataclass(kw_only=True)
class ClassicEvent:
    """An event as a classic worker reports it."""

    step: str | None = None
    """Name of the step."""
    event_type: str
    """Type of the event."""
    payload: Any = None
    """Payload of the event."""
    meta: dict[str, Any] | None = None
    """Metadata of the event."""
    result_kind: ResultKind | None = None
    """Form of the result."""
    result_uri: str | None = None
    """Address of the stored result."""
    event_ids: list[Any] | None = None
    """Ids of the events that hold the parts of the result."""
    actionable: bool | None = None
    """True if the event requests an action. The effect of an event depends on its content, so this
    value is only recorded.
    """
    informative: bool | None = None
    """True if the event is informational. Only recorded."""
    event_id: str | int | None = None
    """Id of the event, if the worker assigned one. Sending the same event again has no further
    effect.
    """
    status: str | None = None
    """Status of the event."""
    created_at: str | None = None
    """Time of the event."""


@dataclass(kw_only=True)
class ClassicEventBatch:
    """Several events of one execution."""

    execution_id: str | int
    """Id of the execution."""
    worker_id: str | None = None
    """Worker that sends the events."""
    events: list[ClassicEvent]
    """The events in order; at most 1000."""


@dataclass(kw_only=True)
class ClassicEventBatchResponse:
    """Result of an event batch."""

    status: str
    """`ok`."""
    event_ids: list[int]
    """Ids of the events, in order."""
    commands_generated: int
    """Number of commands issued."""


@dataclass(kw_only=True)
class ClassicEventRequest:
    """An event sent by a worker."""

    execution_id: str | int
    """Id of the execution."""
    step: str | None = None
    """Name of the step."""
    event_type: str
    """Type of the event."""
    payload: Any = None
    """Payload of the event."""
    meta: dict[str, Any] | None = None
    """Metadata of the event."""
    result_kind: ResultKind | None = None
    """Form of the result."""
    result_uri: str | None = None
    """Address of the stored result."""
    event_ids: list[Any] | None = None
    """Ids of the events that hold the parts of the result."""
    actionable: bool | None = None
    """True if the event requests an action. The effect of an event depends on its content, so this
    value is only recorded.
    """
    informative: bool | None = None
    """True if the event is informational. Only recorded."""
    event_id: str | int | None = None
    """Id of the event, if the worker assigned one. Sending the same event again has no further
    effect.
    """
    status: str | None = None
    """Status of the event."""
    created_at: str | None = None
    """Time of the event."""
    worker_id: str | None = None
    """Worker that sends the event."""


@dataclass(kw_only=True)
class ClassicEventResponse:
    """Result of an event."""

    status: str
    """`ok`, or `ignored` if the event was late or the sender does not hold the command."""
    event_id: int
    """Id of the event."""
    commands_generated: int
    """Number of commands issued."""
    seq: int | None = None
    """Sequence number of the event, or of the last event of the log after it."""


@dataclass(kw_only=True)
class CleanupRequest:
    """Cancels stale executions, which make no progress any more. A classic body."""

    older_than_minutes: int | None = None
    """Minimum age in minutes."""
    dry_run: bool | None = None
    """Only find the executions, without cancelling them."""


@dataclass(kw_only=True)
class CleanupResponse:
    """Result of cancelling stale executions."""

    cancelled_count: int
    """Number of cancelled executions."""
    execution_ids: list[str]
    """Ids of the executions."""
    message: str
    """Human-readable message."""


@dataclass(kw_only=True)
class CommandEntry:
    """A command."""

    claimed_event_id: int | None = None
    """Last event that assigned the command to a worker."""
    command_id: str | None = None
    """Id of the command."""
    frame_id: str | None = None
    """Frame that the command processes."""
    issued_event_id: int | None = None
    """Event that issued the command."""
    last_event_id: int | None = None
    """Last event about the command."""
    parent_command_id: str | None = None
    """Parent command."""
    stage_id: str | None = None
    """Stage of the command."""
    started_event_id: int | None = None
    """Last event with which a worker started the command."""
    status: str | None = None
    """Current status."""
    terminal_event_id: int | None = None
    """Event that ended the command."""
    worker_id: str | None = None
    """Current or last worker."""
    worker_locator: str | None = None
    """Location of the worker."""


@dataclass(kw_only=True)
class CommandList:
    """A page of the command queue."""

    commands: list[CommandSummary]
    """The commands, oldest first."""
    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""


@dataclass(kw_only=True)
class CommandMeta:
    """Metadata of a command."""

    catalog_id: str
    """Definition that the execution is pinned to."""
    seq: int
    """Sequence number of the event that issued the command."""
    issued_at: str
    """Time of issue: `now()` in its templates."""
    run: int
    """Number of the pass through the step, from 1."""
    index: int | None = None
    """Iteration, in a loop."""
    collection_size: int | None = None
    """Number of iterations."""
    frame_max_rows: int | None = None
    """Maximum rows of the frame, in a loop over a cursor. `index` is then the number of the frame.
    """
    attempts: int
    """Number of the attempt, for classic workers."""
    max_attempts: int
    """Maximum number of attempts."""
    trace: str | None = None
    """Trace that the execution was started in, as a `traceparent`."""


@dataclass(kw_only=True)
class CommandOutput:
    """Output of a command."""

    execution_id: str | int
    """Id of the execution."""
    command_id: str | int
    """Id of the command."""
    attempt: int
    """Number of the attempt."""
    lease_token: str
    """Token of the lease."""
    chunks: list[OutputChunk]
    """Chunks in the order of their numbers. At most 200."""


@dataclass(kw_only=True)
class CommandReport:
    """Report on a command."""

    execution_id: str | int
    """Id of the execution."""
    command_id: str | int
    """Id of the command."""
    attempt: int
    """Number of the attempt."""
    lease_token: str
    """Token of the lease."""
    status: ReportStatus
    """Status of the command."""
    result: Any = None
    """Result of the step, or progress data."""
    labels: Any = None
    """Result of each task of a pipeline, if the result of the last task hides some of them."""
    onward: Any = None
    """Continuation of the pipeline in another command. The result then holds the results of its
    tasks by label.
    """
    set: dict[str, Any] | None = None
    """Values that its tasks set, by the keys of their `set`."""
    error: TaskError | None = None
    """Error of the command."""
    tasks: list[TaskReport] | None = None
    """Report on each task."""
    frame: FrameReport | None = None
    """Report on the rows of the frame, in a loop over a cursor."""
    task_attempt: int | None = None
    """Attempt of the last task, from 1."""
    retries: list[RetriedTask] | None = None
    """Failed and retried task attempts that the server may not know yet."""
    retries_before: int | None = None
    """Number of earlier retries in this attempt of the command. The server uses it to detect
    retries that were already reported.
    """
    claimed_at: str | None = None
    """Start of the lease."""
    lease_until: str | None = None
    """End of the lease."""
    started_at: str | None = None
    """Start time of the work."""
    finished_at: str | None = None
    """End time of the work."""


@dataclass(kw_only=True)
class CommandSummary:
    """A command in a list."""

    command_id: str
    """Id of the command."""
    execution_id: str
    """Id of the execution."""
    step: str
    """Name of the step."""
    run: int
    """Number of the pass through the step, from 1."""
    index: int | None = None
    """Iteration, in a loop."""
    tool_kind: str
    """Kind of tool that the command needs."""
    pool: str
    """Worker pool of the command."""
    priority: int
    """Priority within the pool."""
    status: str
    """Current status."""
    held: bool
    """True if the command waits for its execution to be resumed."""
    attempt: int
    """Number of attempts so far."""
    max_attempts: int
    """Maximum number of attempts."""
    worker_id: str | None = None
    """Last worker that held the command."""
    lease_until: str | None = None
    """End of the lease."""
    not_before: str | None = None
    """Earliest time of the next lease."""
    claimed_at: str | None = None
    """Time of the last lease."""
    started_at: str | None = None
    """Last known start time."""
    completed_at: str | None = None
    """End time."""
    error: str | None = None
    """Error message."""


@dataclass(kw_only=True)
class ContentRequest:
    """A document to register or validate. A classic body."""

    content: str
    """The document, as text or base64."""


@dataclass(kw_only=True)
class ControlRequest:
    """Pauses or resumes an execution."""

    reason: str | None = None
    """Reason for the action."""


@dataclass(kw_only=True)
class ControlResponse:
    """State of an execution after it was paused or resumed."""

    execution_id: str
    """Id of the execution."""
    status: ExecutionStatus
    """Current status."""
    seq: int
    """Last sequence number of the log."""


@dataclass(kw_only=True)
class CreateTokenRequest:
    """Creates an API token."""

    name: str
    """Name of the token, recorded as the actor in execution logs."""
    scopes: list[Scope]
    """Scopes of the token."""
    pools: list[str] | None = None
    """Pools that the token may work for; all if absent."""
    path_globs: list[str] | None = None
    """Patterns of paths. Restricts the token to matching playbooks and their executions; all if
    absent.
    """
    ttl_days: int | None = None
    """Lifetime in days; unlimited if absent."""
    tenant_id: str | None = None
    """Tenant of the token; the caller's tenant if absent. Only callers of the operator tenant may
    name another tenant.
    """
    organization_id: str | None = None
    """Organization within the tenant."""


@dataclass(kw_only=True)
class CreatedToken:
    """A created token."""

    token: str
    """The token itself. It is returned only once."""
    id: str
    """Id of the token."""
    name: str
    """Name of the token."""
    prefix: str
    """Part of the token after `noetl_` that identifies it."""
    tenant_id: str
    """Tenant of the token."""
    organization_id: str
    """Organization within the tenant."""
    scopes: list[Scope]
    """Scopes of the token."""
    pools: list[str] | None = None
    """Pools that the token may work for; all if absent."""
    path_globs: list[str] | None = None
    """Patterns of paths. Restricts the token to matching playbooks and their executions; all if
    absent.
    """
    created_at: str
    """Creation time."""
    created_by: str
    """Actor that created the token."""
    expires_at: str | None = None
    """Expiry time."""
    last_used_at: str | None = None
    """Time of the last use, to the minute."""
    revoked_at: str | None = None
    """Time of the revocation."""


@dataclass(kw_only=True)
class CredentialDeleteResponse:
    """A deleted credential."""

    message: str
    """Human-readable message."""
    id: str
    """Id of the credential."""


@dataclass(kw_only=True)
class CredentialList:
    """A list of credentials without their secrets."""

    items: list[CredentialView]
    """The credentials."""
    filter: Any = None
    """Filter of the request, if there was one."""


@dataclass(kw_only=True)
class CredentialPutRequest:
    """Stores a credential. A credential with the same name is replaced."""

    name: str
    """Name that playbooks use."""
    type: str
    """Type of the credential: `postgres`, `bearer`, `basic`, `api_key`, `nats`, `secret`…"""
    data: Any
    """The secret: an object with the fields of its type."""
    meta: Any = None
    """Metadata."""
    tags: list[str] | None = None
    """Tags."""
    description: str | None = None
    """Description."""


@dataclass(kw_only=True)
class CredentialView:
    """A credential. The secret is only returned to authorized callers."""

    id: str
    """Id of the credential."""
    name: str
    """Name of the credential."""
    type: str
    """Type of the credential."""
    meta: Any = None
    """Metadata."""
    tags: list[str] | None = None
    """Tags."""
    description: str | None = None
    """Description."""
    created_at: str
    """Creation time."""
    updated_at: str
    """Time of the last update."""
    data: Any = None
    """The secret."""


@dataclass(kw_only=True)
class DashboardStats:
    """Counters of the system."""

    total_executions: int
    """Total executions."""
    successful_executions: int
    """Completed executions."""
    failed_executions: int
    """Failed executions."""
    cancelled_executions: int
    """Cancelled executions."""
    running_executions: int
    """Running executions."""
    total_playbooks: int
    """Playbooks in the catalog."""
    total_workers: int
    """Workers with a recent heartbeat."""


@dataclass(kw_only=True)
class DashboardStatsResponse:
    """Counters for the dashboard, below `stats` and at the top level."""

    status: str
    """`ok`."""
    stats: DashboardStats
    """The counters."""
    total_executions: int
    """Total executions."""
    successful_executions: int
    """Completed executions."""
    failed_executions: int
    """Failed executions."""
    cancelled_executions: int
    """Cancelled executions."""
    running_executions: int
    """Running executions."""
    total_playbooks: int
    """Playbooks in the catalog."""
    total_workers: int
    """Workers with a recent heartbeat."""


@dataclass(kw_only=True)
class DashboardWidgets:
    """Widgets of the dashboard."""

    widgets: list[Any]
    """One widget per counter."""


@dataclass(kw_only=True)
class DatabaseCheckResponse:
    """Result of a database schema check."""

    status: str
    """`ok` or `error`."""
    message: str
    """Human-readable message."""
    valid: bool
    """True if no table is missing."""
    tables: list[str]
    """Existing tables."""
    missing: list[str]
    """Missing tables."""


@dataclass(kw_only=True)
class DedupKey:
    """Dedup key: within the window, no second execution starts with the same key."""

    key: str
    """The key; any text."""
    window_secs: int | None = None
    """Length of the window in seconds, 1 to 2592000; default 300."""


@dataclass(kw_only=True)
class DeleteVariablesResponse:
    """Result of deleting variables."""

    execution_id: str
    """Id of the execution."""
    deleted: int
    """Number of variables."""
    status: str
    """`ok`."""


@dataclass(kw_only=True)
class EventPage:
    """A page of a log."""

    events: list[EventView]
    """The events."""
    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""


@dataclass(kw_only=True)
class EventView:
    """An event of an execution."""

    event_id: str
    """Id of the event."""
    seq: int
    """Sequence number in the execution."""
    execution_id: str
    """Id of the execution."""
    event_type: str
    """Type of the event."""
    node_id: str | None = None
    """Id of the node."""
    node_name: str | None
    """Name of the node."""
    status: str
    """Status that the event records."""
    created_at: str
    """Time of the event."""
    timestamp: str
    """Time of the event, for classic clients."""
    duration: float | None = None
    """Duration in milliseconds."""
    context: Any = None
    """Context or input."""
    result: Any
    """Result."""
    error: str | None
    """Error message."""
    catalog_id: str | None = None
    """Id of the definition."""
    parent_event_id: str | None = None
    """Event that caused this one."""
    worker_id: str | None = None
    """Worker that sent the event."""
    meta: Any = None
    """Metadata."""


@dataclass(kw_only=True)
class ExecuteBatchRequest:
    """Starts many executions independently. A classic body."""

    executions: list[Any]
    """1 to 1000 requests."""


@dataclass(kw_only=True)
class ExecuteBatchResponse:
    """Results of a batch start."""

    count: int
    """Number of requested executions."""
    started: int
    """Number of started executions."""
    duplicates: int
    """Number of executions that already existed."""
    failed: int
    """Number of rejected requests."""
    results: list[ExecuteBatchResult]
    """One result per request, in request order."""


@dataclass(kw_only=True)
class ExecuteBatchResult:
    """Result for one execution of a batch."""

    index: int
    """Position in the request, from 0."""
    status: str
    """`started`, `duplicate` or `error`."""
    execution_id: str | None = None
    """Id of the execution."""
    commands_generated: int
    """Number of commands issued at the start."""
    error: str | None = None
    """Error message if the execution was not started."""


@dataclass(kw_only=True)
class ExecuteRequest:
    """Starts an execution of a definition. A classic body: unknown fields are ignored."""

    path: str | None = None
    """Path of the definition."""
    catalog_id: str | int | None = None
    """Id of the definition; takes precedence over the path."""
    version: VersionSelector | None = None
    """Version of the definition; the newest if absent."""
    payload: Any = None
    """Input, merged over the defaults of the playbook."""
    parent_execution_id: str | int | None = None
    """Parent execution."""
    execution_pool: str | None = None
    """Worker pool of the execution."""
    trace: Any = None
    """Trace that the execution belongs to."""
    labels: Any = None
    """Labels of the execution."""
    priority: int | None = None
    """Priority in the queue, -100 to 100."""
    start_at: str | None = None
    """Start time; immediately if absent."""
    dedup: DedupKey | None = None
    """Dedup key: no second execution starts with the same key."""
    resource_kind: str | None = None
    """Kind of definition according to the sender. The definition itself decides."""
    wait_ms: int | None = None
    """Maximum time to wait for the end of the execution, in milliseconds."""


@dataclass(kw_only=True)
class ExecuteResponse:
    """A started execution."""

    execution_id: str
    """Id of the execution."""
    status: str
    """`started`."""
    commands_generated: int
    """Number of commands issued at the start."""
    path: str
    """Path of the definition."""
    version: int
    """Version of the definition."""
    catalog_id: str
    """Id of the definition."""
    outcome: ExecutionResult | None = None
    """Result of the execution, if the caller waited and it ended in time."""


@dataclass(kw_only=True)
class ExecutionAnalysis:
    """Explanation of the state of an execution, with some of its events."""

    execution_id: str
    """Id of the execution."""
    status: ExecutionStatus
    """Current status."""
    summary: str
    """Summary in one sentence."""
    waiting_on: list[WaitCondition]
    """Conditions that the execution waits for, the most severe first; empty once it has ended."""
    more: int | None = None
    """Number of further conditions that are not listed."""
    failure: FailureView | None = None
    """First uncaught error."""
    cause: list[CausalEvent]
    """Events that led here. The last event comes first, and each event caused the one before it in
    the list.
    """
    events: list[EventView]
    """Failure events, then the newest events, in order."""


@dataclass(kw_only=True)
class ExecutionDetail:
    """An execution with a page of its log."""

    execution_id: str
    """Id of the execution."""
    catalog_id: str | None
    """Id of the definition."""
    path: str | None
    """Path of the definition."""
    version: int | None
    """Version of the definition."""
    status: ExecutionStatus
    """Current status."""
    started_at: str
    """Start time."""
    completed_at: str | None
    """End time."""
    start_time: str
    """Start time, for classic clients."""
    end_time: str | None
    """End time, for classic clients."""
    duration_seconds: float
    """Duration so far, or in total."""
    duration_human: str
    """Human-readable duration."""
    progress: int
    """Progress in percent, 0 to 100."""
    parent_execution_id: str | None
    """Parent execution."""
    event_count: int
    """Number of events in the log."""
    error: str | None = None
    """Error message."""
    workload: Any
    """Input of the execution."""
    result: Any = None
    """Result of the execution."""
    events: list[EventView]
    """Events of the page."""
    pagination: PageInfo
    """Position of the page in the log."""
    children: list[ExecutionSummary]
    """Child executions, newest first; at most 100. `GET /api/executions?parent=` lists all."""


@dataclass(kw_only=True)
class ExecutionEntry:
    """The execution as a whole."""

    last_node_name: str | None = None
    """The step that was last entered, left or finished."""
    payload_refs: list[PayloadRef] | None = None
    """References in the events, in log order."""
    status: str | None = None
    """Current status."""


@dataclass(kw_only=True)
class ExecutionExplanation:
    """Explanation of the state of an execution."""

    execution_id: str
    """Id of the execution."""
    status: ExecutionStatus
    """Current status."""
    summary: str
    """Summary in one sentence."""
    waiting_on: list[WaitCondition]
    """Conditions that the execution waits for, the most severe first; empty once it has ended."""
    more: int | None = None
    """Number of further conditions that are not listed."""
    failure: FailureView | None = None
    """First uncaught error."""
    cause: list[CausalEvent]
    """Events that led here. The last event comes first, and each event caused the one before it in
    the list.
    """


@dataclass(kw_only=True)
class ExecutionResult:
    """Result of an ended execution."""

    status: ExecutionStatus
    """Final status."""
    result: Any = None
    """Result."""
    error: str | None = None
    """Error message."""


@dataclass(kw_only=True)
class ExecutionStatusView:
    """Status of an execution."""

    execution_id: str
    """Id of the execution."""
    status: ExecutionStatus
    """Current status."""
    current_step: str | None
    """Step that was last entered or left."""
    progress: StepProgress
    """Progress of the steps."""
    is_cancelled: bool
    """True if the execution was cancelled."""
    completed: bool
    """True if the execution has ended."""
    failed: bool
    """True if the execution failed."""
    completed_steps: list[str]
    """Completed steps."""
    completion_inferred: bool
    """Always false: the end of an execution is an event, never inferred."""
    variables: Any
    """Variables of the execution."""
    start_time: str
    """Start time."""
    end_time: str | None
    """End time."""
    duration_seconds: float
    """Duration so far, or in total."""
    duration_human: str
    """Human-readable duration."""
    result: Any = None
    """Result, once the execution has ended."""
    error: str | None = None
    """Error message."""


@dataclass(kw_only=True)
class ExecutionSummary:
    """An execution in a list."""

    execution_id: str
    """Id of the execution."""
    catalog_id: str | None
    """Id of the definition."""
    path: str | None
    """Path of the definition."""
    version: int | None
    """Version of the definition."""
    status: ExecutionStatus
    """Current status."""
    started_at: str
    """Start time."""
    completed_at: str | None
    """End time."""
    start_time: str
    """Start time, for classic clients."""
    end_time: str | None
    """End time, for classic clients."""
    duration_seconds: float
    """Duration so far, or in total."""
    duration_human: str
    """Human-readable duration."""
    progress: int
    """Progress in percent, 0 to 100."""
    parent_execution_id: str | None
    """Parent execution."""
    event_count: int
    """Number of events in the log."""
    error: str | None = None
    """Error message."""


@dataclass(kw_only=True)
class FailureView:
    """An uncaught error."""

    step: str | None = None
    """Step that failed."""
    error: Any
    """The complete error."""
    line: int | None = None
    """Line in the playbook, from 1."""
    column: int | None = None
    """Column in the playbook, from 1."""


@dataclass(kw_only=True)
class FeedPosition:
    """Position of an event in the feed of the whole log. The pair defines the commit order. Neither
    part has a meaning alone.
    """

    tx: int
    """Transaction that wrote the event."""
    position: int
    """Row number."""


@dataclass(kw_only=True)
class FeedResponse:
    """A page of the feed of all events."""

    events: list[Any]
    """Events in the form of the stream."""
    next: FeedPosition
    """Position of the next page."""
    is_full: bool
    """True if more events may be available immediately."""


@dataclass(kw_only=True)
class FinalizeRequest:
    """Ends an execution with a given status. A classic body."""

    status: ExecutionStatus
    """`COMPLETED` or `FAILED`."""
    error: str | None = None
    """Error message, for a failure."""
    reason: str | None = None
    """Reason for the action."""


@dataclass(kw_only=True)
class FinalizeResponse:
    """An execution that was ended."""

    execution_id: str
    """Id of the execution."""
    status: ExecutionStatus
    """Final status."""
    message: str
    """Human-readable message."""


@dataclass(kw_only=True)
class FrameEntry:
    """A frame: a group of rows that are processed together."""

    attempts: int | None = None
    """Number of attempts."""
    claimed_event_id: int | None = None
    """Event that assigned the frame to a worker."""
    command_id: str | None = None
    """Command that processes the frame."""
    events_emitted: int | None = None
    """Number of events that the frame wrote."""
    frame_id: str | None = None
    """Id of the frame."""
    last_event_id: int | None = None
    """Last event about the frame."""
    output_ref: Any = None
    """Reference to the output."""
    output_ref_summary: ReferenceSummary | None = None
    """Summary of the output reference."""
    parent_frame_id: str | None = None
    """Frame that this one was split from."""
    row_count: int | None = None
    """Number of rows."""
    stage_id: str | None = None
    """Stage of the frame."""
    status: str | None = None
    """Current status."""
    terminal_event_id: int | None = None
    """Event that ended the frame."""


@dataclass(kw_only=True)
class FrameReport:
    """Report on the rows of a frame."""

    rows: int
    """Number of claimed rows; zero ends the chain of frames."""
    done: int
    """Number of rows whose tasks completed."""
    failed: int
    """Number of rows whose tasks failed."""
    bytes: int
    """Size of the rows in bytes."""
    errors: list[RowError] | None = None
    """First errors, if the frame continued after them."""


@dataclass(kw_only=True)
class HealthResponse:
    """Health of a server."""

    status: str
    """`ok` or `unhealthy`."""
    database: HealthStatus
    """Health of the store."""
    nats: str
    """State of the NATS connection; `disabled` if NATS is not configured."""
    uptime_seconds: int
    """Uptime in seconds."""
    version: str
    """Version of the server."""


@dataclass(kw_only=True)
class HeartbeatRequest:
    """Renews the leases of a worker."""

    worker_id: str
    """Worker that holds the leases."""
    leases: list[HeldLease]
    """Leases to renew."""
    extend_ms: int | None = None
    """Duration from now in milliseconds; the server's default if absent."""
    wait_ms: int | None = None
    """Maximum time to wait for the loss of a lease, in milliseconds. The response comes at once if
    a command is cancelled.
    """


@dataclass(kw_only=True)
class HeartbeatResponse:
    """Results of a lease renewal, in request order."""

    leases: list[LeaseRenewal]
    """One result per lease."""


@dataclass(kw_only=True)
class HeldLease:
    """A lease that a worker holds."""

    execution_id: str | int
    """Id of the execution."""
    command_id: str | int
    """Id of the command."""
    lease_token: str
    """Token of the lease."""
    attempt: int
    """Number of the attempt."""


@dataclass(kw_only=True)
class KeyStatus:
    """Keys in use. A key without records may be removed."""

    current: str
    """Key for new records."""
    credential: dict[str, int]
    """Number of credentials per key."""
    keychain: dict[str, int]
    """Number of keychain cache entries per key."""


@dataclass(kw_only=True)
class KeychainDeleteResponse:
    """Result of deleting an entry."""

    status: str
    """`deleted` or `not_found`."""
    cache_key: str
    """Key of the entry."""


@dataclass(kw_only=True)
class KeychainList:
    """A page of the entries of a definition, without their values."""

    catalog_id: str
    """Id of the definition."""
    entries: list[KeychainListEntry]
    """The entries."""
    count: int
    """Number of entries."""
    next_cursor: str | None = None
    """Cursor of the next page."""


@dataclass(kw_only=True)
class KeychainListEntry:
    """An entry in a list, without its value."""

    cache_key: str
    """Key of the entry."""
    is_expired: bool
    """True if the entry has expired."""
    keychain_name: str
    """Name of the keychain entry in the playbook."""
    catalog_id: str
    """Definition that uses it."""
    scope_type: str
    """Scope of the entry."""
    execution_id: str | None = None
    """Execution of the entry, if it is not global."""
    auto_renew: bool
    """True if workers resolve the value again after it expires."""
    created_at: str
    """Creation time."""
    updated_at: str
    """Time of the last update."""
    expires_at: str
    """Expiry time."""


@dataclass(kw_only=True)
class KeychainPutRequest:
    """Stores a value in the keychain cache. A value with the same key is replaced."""

    data: Any
    """Resolved value."""
    scope_type: str | None = None
    """Scope of the entry: `local`, `shared` or `global`; default `global`. `catalog` means
    `shared`.
    """
    execution_id: str | int | None = None
    """Execution of a `local` or `shared` entry. Also the execution that the calling worker works
    for.
    """
    worker_id: str | None = None
    """Worker that stores the value. If absent, any worker that holds a command of the execution is
    accepted.
    """
    expires_at: str | None = None
    """Expiry time. If neither this nor `expires_in` is given, the entry expires after 600 seconds.
    """
    expires_in: int | None = None
    """Seconds until expiry. No entry is kept for more than 30 days."""
    auto_renew: bool | None = None
    """True if workers resolve the value again after it expires."""
    renew_config: Any = None
    """Configuration for resolving the value again. As secret as the value."""


@dataclass(kw_only=True)
class KeychainPutResponse:
    """A stored entry."""

    status: str
    """`success`."""
    cache_key: str
    """Key of the entry."""
    expires_at: str
    """Expiry time."""


@dataclass(kw_only=True)
class KeychainView:
    """An entry. The value is only returned to authorized callers."""

    status: KeychainStatus
    """State of the entry."""
    cache_key: str
    """Key of the entry."""
    data: Any = None
    """Resolved value, until it expires."""
    renew_config: Any = None
    """Configuration for resolving the value again."""
    keychain_name: str | None = None
    """Name of the keychain entry in the playbook."""
    catalog_id: str | None = None
    """Definition that uses it."""
    scope_type: str | None = None
    """Scope of the entry."""
    execution_id: str | None = None
    """Execution of the entry, if it is not global."""
    auto_renew: bool | None = None
    """True if workers resolve the value again after it expires."""
    created_at: str | None = None
    """Creation time."""
    updated_at: str | None = None
    """Time of the last update."""
    expires_at: str | None = None
    """Expiry time."""


@dataclass(kw_only=True)
class LeaseRenewal:
    """Result of renewing one lease."""

    command_id: str
    """Id of the command."""
    ok: bool
    """True if the worker still holds the lease."""
    lease_until: str | None = None
    """New end of the lease."""
    cancel: bool | None = None
    """True if the command was cancelled and the worker must stop it."""
    code: ErrorCode | None = None
    """Reason why the worker no longer holds the lease."""


@dataclass(kw_only=True)
class LeaseRequest:
    """Leases commands for a worker."""

    worker_id: str
    """Worker that requests the lease."""
    pool: str
    """Pool of the worker."""
    max: int | None = None
    """Maximum number of commands."""
    wait_ms: int | None = None
    """Maximum time to wait for a command, in milliseconds."""
    kinds: list[str] | None = None
    """Kinds of tools that the worker supports; all if absent."""
    lease_ms: int | None = None
    """Duration of the lease in milliseconds; the server's default if absent."""


@dataclass(kw_only=True)
class LeaseResponse:
    """Leased commands."""

    commands: list[LeasedCommand]
    """The commands, now leased to the worker."""
    poll_after_ms: int
    """Time to wait before the next request, in milliseconds; 0 for none."""
    waited_ms: int
    """Time between the arrival of the request and the grant of the leases, in milliseconds."""


@dataclass(kw_only=True)
class LeasedCommand:
    """A leased command with everything that the worker needs."""

    execution_id: str
    """Id of the execution."""
    event_id: str
    """Event that issued the command."""
    command_id: str
    """Id of the command."""
    attempt: int
    """Number of the attempt, from 1."""
    lease_token: str
    """Token that proves the lease."""
    claimed_at: str
    """Start of the lease."""
    lease_until: str
    """End of the lease, unless it is renewed."""
    deadline_at: str | None = None
    """Deadline of the attempt, independent of renewals."""
    idempotency_key: str
    """First two parts of the idempotency key of every call: execution and seq."""
    node_id: str
    """Id of the node: the name of the step."""
    node_name: str
    """Name of the step."""
    action: str
    """Kind of the first tool."""
    context: dict[str, Any]
    """Template variables at the time of issue, or a reference to them."""
    meta: CommandMeta
    """Metadata of the command."""


@dataclass(kw_only=True)
class LivenessResponse:
    """Liveness of a process."""

    status: HealthStatus
    """Always `ok`: a dead process does not respond."""


@dataclass(kw_only=True)
class LoopEntry:
    """A loop."""

    completed: bool | None = None
    """True if the loop has ended."""
    done: int | None = None
    """Number of completed parts."""
    failed: int | None = None
    """Number of failed parts."""
    last_event_id: int | None = None
    """Last event about the loop."""
    loop_id: str | None = None
    """Id of the loop."""
    step_name: str | None = None
    """Step of the loop."""
    total: int | None = None
    """Number of parts."""


@dataclass(kw_only=True)
class MarkFailedRequest:
    """Marks a row as failed."""

    outbox_id: str | int
    """Id of the row."""
    error: str
    """Error message."""
    attempts: int | None = None
    """Claim number of the row."""
    max_delay_seconds: int | None = None
    """Maximum delay in seconds, 1 to 3600; default 300."""


@dataclass(kw_only=True)
class MarkFailedResponse:
    """Result of marking a row as failed."""

    marked: bool
    """True if the caller still held the row."""
    available_at_in: int
    """Seconds until the row may be claimed again; 0 if it may not."""


@dataclass(kw_only=True)
class MarkPublishedRequest:
    """Marks rows as published."""

    outbox_ids: list[str | int]
    """Ids of the rows."""
    attempts: list[int] | None = None
    """Claim number of each row, in the same order. A row with another number has been claimed by
    another publisher since.
    """


@dataclass(kw_only=True)
class MarkPublishedResponse:
    """Result of marking rows as published."""

    marked: int
    """Number of rows that the caller still held."""


@dataclass(kw_only=True)
class MaterializeResponse:
    """Result of materializing worker events."""

    materialized: int
    """Number of stored events."""
    duplicates: int
    """Number of events that were already stored."""
    rejected: list[RejectedEvent] | None = None
    """Rejected events."""


@dataclass(kw_only=True)
class NextLease:
    """Request for further commands, sent together with reports."""

    pool: str
    """Pool of the worker."""
    max: int
    """Maximum number of commands."""
    wait_ms: int | None = None
    """Maximum time to wait for a command, in milliseconds."""
    kinds: list[str] | None = None
    """Kinds of tools that the worker supports; all if absent."""
    lease_ms: int | None = None
    """Duration of the lease in milliseconds."""


@dataclass(kw_only=True)
class OkResponse:
    """Success response without data."""

    status: str
    """`ok`."""


@dataclass(kw_only=True)
class OutboxChangeResponse:
    """Result of replaying or discarding dead rows."""

    changed: int
    """Number of changed rows."""


@dataclass(kw_only=True)
class OutboxClaimRequest:
    """Claims rows of the outbox."""

    limit: int | None = None
    """Number of rows; clamped to 1..1000, default 100."""


@dataclass(kw_only=True)
class OutboxClaimResponse:
    """Claimed outbox rows."""

    rows: list[OutboxMessage]
    """Rows in the order in which they became available."""
    claimed: int
    """Number of rows."""


@dataclass(kw_only=True)
class OutboxEntry:
    """An outbox row in a list."""

    outbox_id: int
    """Id of the row."""
    event_id: int
    """Id of the event."""
    execution_id: int | None = None
    """Id of the execution."""
    subject: str | None = None
    """Subject to publish to."""
    message_id: str
    """The `Nats-Msg-Id`."""
    status: str
    """`PENDING`, `IN_FLIGHT`, `PUBLISHED`, `FAILED` or `DEAD`."""
    attempts: int
    """Number of claims."""
    available_at: str
    """Earliest time of the next claim."""
    lease_until: str | None = None
    """End of the current claim."""
    published_at: str | None = None
    """Time of publication."""
    discarded_at: str | None = None
    """Time at which an operator discarded the row."""
    last_error: str | None = None
    """Last error message."""
    created_at: str
    """Creation time."""


@dataclass(kw_only=True)
class OutboxIds:
    """Outbox rows to replay or discard."""

    outbox_ids: list[str | int]
    """Ids of the rows."""


@dataclass(kw_only=True)
class OutboxList:
    """A page of the outbox."""

    rows: list[OutboxEntry]
    """Rows in the order of their ids."""
    next_after: int | None = None
    """Id to pass as `after` for the next page; absent on the last page."""


@dataclass(kw_only=True)
class OutboxMessage:
    """An outbox row that is claimed by a publisher."""

    outbox_id: int
    """Id of the row."""
    event_id: int
    """Id of the event."""
    execution_id: int | None = None
    """Id of the execution; absent if a foreign row does not have it."""
    subject: str | None = None
    """Subject to publish to; absent if a foreign row does not have it."""
    message_id: str
    """The `Nats-Msg-Id`."""
    payload: Any
    """Payload to publish."""
    payload_codec: str
    """Encoding of the payload; `arrow-feather` if absent."""
    attempts: int
    """Number of claims, including this one. To be sent back when the row is marked."""


@dataclass(kw_only=True)
class OutputChunk:
    """A chunk of output."""

    number: int
    """Number within the attempt, from 0. A number that was already sent is ignored."""
    task: str | None = None
    """Label of the task that wrote it."""
    stdout: str | None = None
    """Standard output. At most 16 KiB together with `stderr`."""
    stderr: str | None = None
    """Standard error."""
    dropped_bytes: int | None = None
    """Bytes that were dropped before the chunk."""
    last: bool | None = None
    """True if the attempt has no output after the chunk."""


@dataclass(kw_only=True)
class OutputPage:
    """A page of the output of an execution."""

    chunks: list[OutputView]
    """The chunks, in the order in which they were stored."""
    next_after: int | None = None
    """Value of `after` for the next page; absent on the last page."""


@dataclass(kw_only=True)
class OutputRequest:
    """Sends output of running commands."""

    worker_id: str
    """Worker that runs the commands."""
    outputs: list[CommandOutput]
    """Output of each command. At most 100 commands."""


@dataclass(kw_only=True)
class OutputResponse:
    """Results of storing output, in request order."""

    results: list[OutputResult]
    """One result per command."""


@dataclass(kw_only=True)
class OutputResult:
    """Result of storing the output of one command."""

    command_id: str
    """Id of the command."""
    ok: bool
    """True if the output is stored. Otherwise the worker must not send more for this attempt."""
    code: ErrorCode | None = None
    """Reason why the output is not stored."""


@dataclass(kw_only=True)
class OutputView:
    """A stored chunk of output."""

    position: int
    """Position in the output of the execution."""
    command_id: str
    """Id of the command."""
    attempt: int
    """Number of the attempt."""
    step: str
    """Name of the step."""
    index: int | None = None
    """Index of the loop iteration."""
    task: str | None = None
    """Label of the task."""
    at: str
    """Time when the server stored it."""
    stdout: str
    """Standard output."""
    stderr: str
    """Standard error."""
    dropped_bytes: int
    """Bytes that were dropped before the chunk."""
    last: bool
    """True if the attempt has no output after the chunk."""


@dataclass(kw_only=True)
class PageInfo:
    """Position of a page in a log."""

    page: int
    """Number of the page, from 1."""
    page_size: int
    """Events per page."""
    total_events: int
    """Total number of events."""
    total_pages: int
    """Total number of pages."""
    has_next: bool
    """True if there is a next page."""
    has_prev: bool
    """True if there is a previous page."""


@dataclass(kw_only=True)
class PayloadRef:
    """A reference to data in an event."""

    event_id: str | None = None
    """Id of the event."""
    reference: Any = None
    """The reference as it is in the event."""
    summary: ReferenceSummary | None = None
    """Summary of the referenced data."""


@dataclass(kw_only=True)
class PayloadResolution:
    """Check result of one reference in an event."""

    scope: ResolutionScope
    """Owner of the reference."""
    event_id: str
    """Id of the event."""
    frame_id: str | None = None
    """Id of the frame, if a frame is the owner."""
    object_key: str | None = None
    """Key of the business object, if one is the owner."""
    reference_summary: ReferenceSummary
    """Summary in the reference."""
    resolution: ReferenceResolution
    """Referenced data."""


@dataclass(kw_only=True)
class PendingCount:
    """Number of claimable rows."""

    pending: int
    """Number of rows, including those of publishers that died."""


@dataclass(kw_only=True)
class PlaybookContent:
    """Content of a playbook."""

    content: str
    """The text."""
    path: str
    """Path of the playbook."""
    version: int
    """Version of the playbook."""


@dataclass(kw_only=True)
class PoolHeartbeatResponse:
    """Response to a pool heartbeat."""

    status: str
    """`ok`."""
    cancel: list[str]
    """Commands to cancel."""
    drain: bool
    """True if the worker should finish its commands and stop."""


@dataclass(kw_only=True)
class PoolListResponse:
    """Registered processes, and the load of the pools in use."""

    items: list[RuntimeView]
    """Processes in the order of their names."""
    count: int
    """Number of processes."""
    pools: list[PoolView]
    """Pools in the order of their names."""


@dataclass(kw_only=True)
class PoolView:
    """Load of a pool."""

    pool: str
    """Name of the pool."""
    pending: int
    """Number of commands that wait for a worker."""
    in_flight: int
    """Number of leased commands."""
    oldest_lease: str | None = None
    """Start time of the oldest active lease."""


@dataclass(kw_only=True)
class Problem:
    """Problem document of a failed request (RFC 9457)."""

    type: str
    """URI of the problem type."""
    title: str
    """Title of the problem type."""
    status: int
    """HTTP status."""
    detail: str
    """Human-readable description of this occurrence."""
    code: str
    """Error code."""
    request_id: str | None = None
    """Request id, as in the logs."""
    errors: list[ProblemDetail] | None = None
    """Individual errors, if there are several or if they have a position."""
    error: str
    """Description of this occurrence, for classic clients."""
    message: str
    """Description of this occurrence, for the published console."""


@dataclass(kw_only=True)
class ProblemDetail:
    """An individual error."""

    code: str | None = None
    """Code, for example of a diagnostic."""
    pointer: str
    """Position in the body, as a JSON pointer."""
    path: str | None = None
    """Position in the playbook."""
    line: int | None = None
    """Line in the playbook, from 1."""
    column: int | None = None
    """Column in the playbook, from 1."""
    message: str
    """Human-readable message."""
    hint: str | None = None
    """Suggested fix."""


@dataclass(kw_only=True)
class ProjectRequest:
    """Projects events into the log."""

    events: list[RawEvent]
    """Event envelopes, each as received."""


@dataclass(kw_only=True)
class ProjectResponse:
    """Result of projecting events."""

    projected: int
    """Number of stored events."""
    duplicates: int
    """Number of events that were already stored."""
    rejected: list[RejectedEvent] | None = None
    """Rejected events."""


@dataclass(kw_only=True)
class ProjectionChecksums:
    """Checksum of each part, by its name."""

    execution: str
    """Checksum of the execution entry."""
    stage: str
    """Checksum of the stages."""
    frame: str
    """Checksum of the frames."""
    command: str
    """Checksum of the commands."""
    business_object: str
    """Checksum of the business objects."""
    loop: str
    """Checksum of the loops."""


@dataclass(kw_only=True)
class PurgeRequest:
    """Deletes expired data. All fields are optional."""

    command_retention_days: int | None = None
    """Days to keep ended commands; default 7. Zero or less skips them."""
    runtime_stale_minutes: int | None = None
    """Minutes to keep silent workers; default 60. Zero or less skips them."""
    event_retention_days: int | None = None
    """Days to keep the logs of ended executions; default 0, which deletes none."""
    dry_run: bool | None = None
    """Only report the data that would be deleted."""


@dataclass(kw_only=True)
class PurgeResponse:
    """Deleted data, or the data that would be deleted."""

    commands_purged: int
    """Number of commands."""
    runtime_purged: int
    """Number of workers."""
    events_purged: int
    """Number of log partitions."""
    event_partitions_dropped: list[str] | None = None
    """Names of the log partitions."""
    outbox_purged: int
    """Number of published outbox rows."""
    dry_run: bool
    """True if nothing was deleted."""
    skipped: list[SkippedPartition] | None = None
    """Log partitions that are old enough but were not deleted."""


@dataclass(kw_only=True)
class QuarantineEntry:
    """A rejected input. Equal inputs from the same source with the same reason are stored once."""

    quarantine_id: int
    """Id of the row."""
    source: str
    """Component that rejected the input: `projector`, `materializer` or `stream`."""
    code: str
    """Code of the reason."""
    message: str
    """Human-readable reason."""
    raw: str
    """The input as received, truncated if long."""
    created_at: str
    """Time of the first rejection."""


@dataclass(kw_only=True)
class QuarantineList:
    """A page of the quarantine: inputs that were rejected while the rest of their batch was stored.
    """

    rows: list[QuarantineEntry]
    """Rejected inputs, oldest first."""
    next_after: int | None = None
    """Id to pass as `after` for the next page; absent on the last page."""


@dataclass(kw_only=True)
class ReadinessResponse:
    """Readiness of a server."""

    status: HealthStatus
    """Worst result of the checks."""
    checks: dict[str, HealthStatus]
    """Result of each check."""
    reasons: dict[str, str] | None = None
    """Reasons of failed checks. Only returned to authenticated callers."""
    unsafe: list[str] | None = None
    """Settings that reduce security."""
    missing_protections: list[str] | None = None
    """Inactive protection layers: of the log, and of the task sandbox on workers."""


@dataclass(kw_only=True)
class ReferenceResolution:
    """Facts about referenced data. Never the data itself."""

    ref: str | None = None
    """Address of the data."""
    resolved: bool
    """True if the data exists."""
    checksum: str | None = None
    """Digest of the data."""
    size_bytes: int | None = None
    """Size in bytes."""
    row_count: int | None = None
    """Number of rows."""
    value_type: str | None = None
    """JSON type of the data."""
    error: str | None = None
    """Reason why the data was not checked or not found."""


@dataclass(kw_only=True)
class ReferenceSummary:
    """Summary of referenced data."""

    media_type: str | None = None
    """Media type of the data."""
    ref: str | None = None
    """Address of the data."""
    row_count: int | None = None
    """Number of rows."""
    schema_digest: str | None = None
    """Digest of the schema."""
    sha256: str | None = None
    """SHA-256 digest of the data."""


@dataclass(kw_only=True)
class RegisterBatchRequest:
    """Registers many definitions independently. A classic body."""

    items: list[RegisterRequest]
    """At most 200 definitions."""


@dataclass(kw_only=True)
class RegisterBatchResponse:
    """Results of a batch registration."""

    registered: int
    """Number of registered definitions."""
    failed: int
    """Number of rejected definitions."""
    results: list[RegisterBatchResult]
    """One result per definition, in request order."""


@dataclass(kw_only=True)
class RegisterBatchResult:
    """Result for one definition of a batch."""

    index: int
    """Position in the request, from 0."""
    status: str
    """`registered` or `error`."""
    path: str | None = None
    """Path of the definition."""
    version: int | None = None
    """Version of the definition."""
    catalog_id: str | None = None
    """Id of the version."""
    error: str | None = None
    """Error message if the definition was rejected."""


@dataclass(kw_only=True)
class RegisterRequest:
    """Registers a definition. A classic body."""

    content: str
    """The document, as text or base64."""
    resource_type: str | None = None
    """Kind of document according to the sender. The document itself decides."""
    dry_run: bool | None = None
    """Only validate the document, without registering it."""


@dataclass(kw_only=True)
class RegisterResponse:
    """A registered definition."""

    status: str
    """`success`."""
    message: str
    """Human-readable message."""
    path: str
    """Path of the definition."""
    version: int | None = None
    """Version of the definition; absent after a dry run of a new definition."""
    catalog_id: str | None = None
    """Id of the version; absent after a dry run of a new definition."""
    kind: str
    """Kind of the document, in lower case."""
    unchanged: bool
    """True if the same content was already registered."""
    warnings: list[Any] | None = None
    """Warnings of the validation."""


@dataclass(kw_only=True)
class RegisterWorkerRequest:
    """Registers a worker. A classic body."""

    name: str
    """Name of the worker: the worker id of its leases."""
    kind: str | None = None
    """`worker_pool`."""
    uri: str | None = None
    """Address of the worker."""
    status: str | None = None
    """Status of the worker."""
    labels: dict[str, Any] | None = None
    """Labels; `pool_name` is the pool of the worker."""
    capabilities: Any = None
    """Capabilities, such as kinds of tools. May contain `public_key`, as in `runtime`."""
    capacity: int | None = None
    """Maximum concurrent commands."""
    runtime: Any = None
    """Runtime environment. `public_key` is the base64 of the 32-byte X25519 key for sealed secrets.
    """
    hostname: str | None = None
    """Host name."""


@dataclass(kw_only=True)
class RejectedEvent:
    """A rejected event. The other events of the batch are stored."""

    index: int
    """Position in the request, from 0."""
    event_id: Any
    """Event id as sent."""
    code: RejectCode
    """Code of the reason."""
    message: str
    """Human-readable reason."""


@dataclass(kw_only=True)
class ReplayResponse:
    """State of an execution at a point of its log."""

    tenant_id: str
    """Tenant of the execution."""
    organization_id: str
    """Organization within the tenant."""
    execution_id: int
    """The execution."""
    event_count: int
    """Number of folded events."""
    last_event_id: int | None = None
    """Last folded event."""
    last_event_type: str | None = None
    """Type of the last folded event."""
    execution: ExecutionEntry
    """The execution as a whole."""
    stages: dict[str, StageEntry]
    """Stages by id."""
    frames: dict[str, FrameEntry]
    """Frames by id."""
    commands: dict[str, CommandEntry]
    """Commands by id."""
    business_objects: dict[str, BusinessObjectEntry]
    """Business objects by key."""
    loops: dict[str, LoopEntry]
    """Loops by id."""
    projection: ProjectionKind
    """Requested projection. It has no effect: all parts are returned."""
    replay_snapshot: ReplaySnapshot | None = None
    """Snapshot that the fold started from."""
    checksum: StateChecksum | None = None
    """Checksum of the whole state; absent if the log was truncated."""
    projection_checksums: ProjectionChecksums | None = None
    """Checksum of each part; absent if the log was truncated."""
    truncated: bool | None = None
    """True if the limit truncated the log. Then this is not the requested state."""
    warnings: list[str] | None = None
    """Anomalies in the log."""
    payload_resolution: list[PayloadResolution] | None = None
    """Check results of the referenced data."""
    payload_resolution_summary: ResolutionSummary | None = None
    """Summary of the check results."""


@dataclass(kw_only=True)
class ReplaySnapshot:
    """Snapshot that a fold started from."""

    aggregate_id: str
    """`execution/<id>/all`."""
    aggregate_type: str
    """`replay_state`."""
    version: int
    """Last event in the snapshot."""
    checksum: str
    """Checksum of the snapshot."""
    meta: Any
    """Metadata."""


@dataclass(kw_only=True)
class ReportRequest:
    """Reports the results of commands."""

    worker_id: str
    """Worker that reports."""
    reports: list[CommandReport]
    """At most 100 reports. Each is processed independently."""
    outputs: list[CommandOutput] | None = None
    """Remaining output of commands whose output was sent while they ran."""
    lease: NextLease | None = None
    """Request for further commands."""


@dataclass(kw_only=True)
class ReportResponse:
    """Results of reports, and further commands."""

    results: list[ReportResult]
    """One result per report, in request order."""
    commands: list[LeasedCommand] | None = None
    """Further leased commands."""


@dataclass(kw_only=True)
class ReportResult:
    """Result of a report."""

    command_id: str
    """Id of the command."""
    status: ReportDisposition
    """Disposition of the report."""
    seq: int | None = None
    """Last sequence number of the log after the report."""
    code: ErrorCode | None = None
    """Error code if the report was not accepted."""
    detail: str | None = None
    """Human-readable message."""


@dataclass(kw_only=True)
class RerunRequest:
    """Runs a definition again with the input of an earlier execution. A classic body."""

    workload: Any = None
    """Input, merged over the input of the earlier execution."""
    execution_pool: str | None = None
    """Worker pool of the new execution; that of the earlier execution if absent."""


@dataclass(kw_only=True)
class ResolutionSummary:
    """Summary of all references."""

    total: int
    """Number of references."""
    resolved: int
    """Number of references whose data exists."""
    unresolved: int
    """Number of references whose data is missing or was not checked."""
    unique_refs: int
    """Number of distinct addresses."""
    all_resolved: bool
    """True if the data of all references exists."""
    checksum: str
    """Digest of the canonical form of the list."""


@dataclass(kw_only=True)
class RestoreRequest:
    """Restores an archived definition."""

    path: str
    """Path of the definition."""


@dataclass(kw_only=True)
class ResultPutRequest:
    """Stores data. A classic body: unknown fields are ignored."""

    name: str
    """Name, used as part of the address."""
    data: Any
    """The data."""
    scope: str | None = None
    """Lifetime: `step`, `execution`, `workflow` or `permanent`."""
    source_step: str | None = None
    """Step that produced the data."""
    store: str | None = None
    """Storage backend; chosen by the server if absent."""
    ttl: Any = None
    """Retention: seconds, or a duration as in playbooks."""
    correlation: Any = None
    """Correlation data of the caller."""
    compress: bool | None = None
    """True if the data is compressed."""


@dataclass(kw_only=True)
class ResultPutResponse:
    """Stored data."""

    ref: str
    """Address of the data."""
    store: str
    """Storage backend."""
    scope: str
    """Lifetime."""
    bytes: int
    """Size in bytes."""
    sha256: str
    """SHA-256 digest of the canonical bytes, in hexadecimal."""
    expires_at: str | None = None
    """Expiry time."""


@dataclass(kw_only=True)
class RetriedTask:
    """A failed task attempt that is retried."""

    error: TaskError
    """Error of the attempt."""
    attempt: int
    """Number of the attempt, from 1."""
    retry_in_ms: int
    """Delay until the next attempt, in milliseconds."""
    at: str | None = None
    """Time of the failure."""


@dataclass(kw_only=True)
class RotationRequest:
    """Limits of one key rotation call."""

    batch_size: int | None = None
    """Records per batch."""
    max_batches: int | None = None
    """Maximum number of batches."""


@dataclass(kw_only=True)
class RotationSummary:
    """Result of a key rotation."""

    processed: int
    """Number of processed records."""
    rewrapped: int
    """Number of records that now use the current key."""
    skipped: int
    """Number of records that were modified concurrently."""
    failed: int
    """Number of records that could not be decrypted."""


@dataclass(kw_only=True)
class RowError:
    """A failed row."""

    row: int
    """Position in the frame, from 0."""
    error: TaskError
    """Error of its tasks."""


@dataclass(kw_only=True)
class RuntimeView:
    """A registered process."""

    runtime_id: str
    """Id of the process."""
    name: str
    """Name of the process."""
    kind: str
    """Kind of the process."""
    uri: str | None = None
    """Address of the process."""
    status: str
    """`active`, `draining` if it was asked to stop, or `offline` without recent heartbeats."""
    labels: Any
    """Labels."""
    capacity: int | None = None
    """Maximum concurrent commands."""
    heartbeat: str
    """Time of the last heartbeat."""
    created_at: str
    """Time of the first registration."""


@dataclass(kw_only=True)
class SealedCredential:
    """A credential that only one worker can decrypt."""

    alg: str
    """`x25519-hkdf-sha256-chacha20-poly1305`."""
    v: int
    """Version of the format: 1."""
    eph_pub: str
    """Public part of the ephemeral key, in base64."""
    ciphertext: str
    """Nonce, ciphertext and tag, in base64. The plaintext is the credential with its secret, as
    JSON.
    """


@dataclass(kw_only=True)
class SecretAuditResponse:
    """Rows of the secret audit log."""

    rows: list[SecretAuditRow]
    """Operations, newest first."""


@dataclass(kw_only=True)
class SecretAuditRow:
    """An operation on a secret, or an attempt: an entry of the audit log of a tenant."""

    audit_id: int
    """Id of the entry."""
    occurred_at: str
    """Time of the operation."""
    tenant_id: str
    """Tenant of the secret."""
    actor: str
    """Actor of the operation."""
    credential: str | None = None
    """Name of the secret; absent if the operation concerns many."""
    operation: SecretOperation
    """Operation."""
    outcome: str
    """`ok`, or an error code."""
    worker_id: str | None = None
    """Worker that the operation was for."""
    execution_id: int | None = None
    """Execution that the operation was for."""
    parent_execution_id: int | None = None
    """Parent of that execution."""
    kek_version: str | None = None
    """Key that encrypts the secret."""
    address: str | None = None
    """Network address of the caller."""
    notes: Any = None
    """Token that was used."""
    seq: int
    """Sequence number in the audit log of the tenant, from 1 without gaps."""
    chain: str
    """Hash chain link to the previous entry, in hexadecimal."""


@dataclass(kw_only=True)
class SecretOperationView:
    """Operation on a secret."""

    operation: SecretOperation
    """The operation."""
    credential: str | None = None
    """Name of the secret; absent if the operation concerns many."""
    worker_id: str | None = None
    """Worker that the operation was for."""
    execution_id: str | None = None
    """Execution that the operation was for."""
    parent_execution_id: str | None = None
    """Parent of that execution."""
    key_id: str | None = None
    """Key that encrypts the secret."""


@dataclass(kw_only=True)
class ServerStatus:
    """Status of a server."""

    status: HealthStatus
    """Health of the server."""
    server_name: str
    """Name of the server."""
    version: str
    """Version of the server."""
    uptime_seconds: int
    """Uptime in seconds."""
    checks: dict[str, HealthStatus]
    """Result of each check."""


@dataclass(kw_only=True)
class SessionRequest:
    """Validates a token. A classic body, which contains a secret."""

    session_token: str | None = None
    """The token, unless a header of the request contains it."""


@dataclass(kw_only=True)
class SessionResponse:
    """A valid token."""

    valid: bool
    """Always true: an invalid token is an error."""
    user: SessionUser
    """Owner of the token."""
    expires_at: str | None = None
    """End of the token in the body; absent if it does not expire, or if a header contains the
    token.
    """


@dataclass(kw_only=True)
class SessionUser:
    """Owner of a token."""

    user_id: str
    """Actor name, as in the logs."""
    email: str
    """Actor name. Tokens have no e-mail address."""
    display_name: str
    """Actor name."""
    roles: list[str]
    """Scopes of the token."""


@dataclass(kw_only=True)
class SetVariablesResponse:
    """Result of setting variables."""

    execution_id: str
    """Id of the execution."""
    variables_set: int
    """Number of variables."""
    status: str
    """`ok`."""


@dataclass(kw_only=True)
class ShardConfig:
    """Shard configuration of a server."""

    shard_count: int
    """Number of shards."""
    shard_index: int
    """Shard of the server, from 0."""


@dataclass(kw_only=True)
class ShardInfo:
    """Shard of an execution."""

    execution_id: str
    """Id of the execution."""
    shard_count: int
    """Number of shards."""
    shard_index: int
    """Shard of the execution, from 0."""
    source: str
    """Source of the shard count: `query` or `server_config`."""
    hash_function: str
    """Hash function."""
    seed: int
    """Seed of the hash function."""
    server_config: ShardConfig
    """Shard configuration of this server."""


@dataclass(kw_only=True)
class SignalRequest:
    """Sends a signal to one execution, or to all that wait for it."""

    name: str
    """Name of the signal."""
    key: str | None = None
    """Correlation key. A wait with a key accepts only signals with that key."""
    payload: Any = None
    """Payload of the signal."""


@dataclass(kw_only=True)
class SignalResponse:
    """A recorded signal."""

    seq: int
    """Last sequence number of the log."""
    delivered: bool
    """True if the execution was waiting for the signal. Otherwise the signal is stored until a wait
    needs it.
    """


@dataclass(kw_only=True)
class SkippedPartition:
    """A log partition that is old enough but was not deleted."""

    partition: str
    """Name of the partition."""
    reason: str
    """Reason for keeping it."""


@dataclass(kw_only=True)
class StageEntry:
    """A stage: frames that belong together."""

    closed_event_id: int | None = None
    """Event that closed the stage."""
    events_emitted: int | None = None
    """Number of events that its frames wrote."""
    failed_count: int | None = None
    """Number of failed frames."""
    frame_count: int | None = None
    """Number of frames."""
    kind: str | None = None
    """Kind of the stage."""
    last_event_id: int | None = None
    """Last event about the stage."""
    loop_event_id: int | None = None
    """Event of the loop that the stage belongs to."""
    opened_event_id: int | None = None
    """Event that opened the stage."""
    parent_stage_id: str | None = None
    """Parent stage."""
    row_count: int | None = None
    """Number of rows of its frames."""
    stage_id: str | None = None
    """Id of the stage."""
    status: str | None = None
    """Current status."""
    step_name: str | None = None
    """Step of the stage."""


@dataclass(kw_only=True)
class StateChecksum:
    """A checksum and its type."""

    type: str
    """`sha256`."""
    value: str
    """Digest of the canonical form."""
    fold_version: int
    """Version of the fold function."""


@dataclass(kw_only=True)
class StepProgress:
    """Progress of the steps of an execution."""

    total_steps: int
    """Steps in the playbook."""
    completed_steps: int
    """Completed steps."""
    running_steps: int
    """Running steps."""
    failed_steps: int
    """Failed steps."""


@dataclass(kw_only=True)
class StreamStatus:
    """Status of event publishing."""

    enabled: bool
    """True if this server takes part in publishing."""
    state: str
    """State of the publisher: `off`, `starting`, `standby`, `publishing` or `failing`."""
    problem: str | None = None
    """Problem that prevents publishing, or a difference between the stream and its expected
    configuration.
    """
    owner: str | None = None
    """Server that publishes."""
    epoch: int | None = None
    """Number of publisher changes."""
    position: FeedPosition | None = None
    """Position up to which all events are published."""
    log_epoch: int
    """Log epoch."""
    stream_created_at: str | None = None
    """Time at which the broker created the stream."""
    lag_events: int
    """Number of events still to publish."""
    lag_ms: int
    """Waiting time of the oldest of them, in milliseconds."""
    horizon_age_ms: int
    """Age of the open transaction that holds back the feed, in milliseconds."""
    published: int
    """Messages that the broker has acknowledged since this server started."""
    duplicates: int
    """Acknowledged messages that the broker already had."""
    by_reference: int
    """Messages that refer to an event because it is too large."""
    undeliverable: int
    """Events that can never be published and were set aside."""
    restored: int
    """Messages that the broker had lost and that were published again."""
    rebuilds: int
    """Number of times the stream was rebuilt."""
    nats_connected: bool
    """True if the broker is connected."""
    nats_version: str | None = None
    """Version of the broker."""


@dataclass(kw_only=True)
class TableRotation:
    """Result of a key rotation of one table."""

    processed: int
    """Number of processed records."""
    rewrapped: int
    """Number of records that now use the current key."""
    skipped: int
    """Number of records that were modified concurrently."""
    failed: int
    """Number of records that could not be decrypted."""
    last_id: int | None = None
    """Id of the last processed record."""


@dataclass(kw_only=True)
class TaskReport:
    """Report on a task of a command."""

    label: str
    """Label of the task."""
    status: TaskStatus
    """Status of the last attempt."""
    attempts: int
    """Number of attempts."""
    duration_ms: int | None = None
    """Total duration of all attempts in milliseconds."""
    stdout: str | None = None
    """End of the standard output of the last attempt, apart from its result."""
    stderr: str | None = None
    """End of the error output of the last attempt."""


@dataclass(kw_only=True)
class TokenList:
    """A page of tokens."""

    tokens: list[TokenView]
    """The tokens, oldest first."""
    next_cursor: str | None = None
    """Cursor of the next page."""


@dataclass(kw_only=True)
class TokenView:
    """An API token, without its secret."""

    id: str
    """Id of the token."""
    name: str
    """Name of the token."""
    prefix: str
    """Part of the token after `noetl_` that identifies it."""
    tenant_id: str
    """Tenant of the token."""
    organization_id: str
    """Organization within the tenant."""
    scopes: list[Scope]
    """Scopes of the token."""
    pools: list[str] | None = None
    """Pools that the token may work for; all if absent."""
    path_globs: list[str] | None = None
    """Patterns of paths. Restricts the token to matching playbooks and their executions; all if
    absent.
    """
    created_at: str
    """Creation time."""
    created_by: str
    """Actor that created the token."""
    expires_at: str | None = None
    """Expiry time."""
    last_used_at: str | None = None
    """Time of the last use, to the minute."""
    revoked_at: str | None = None
    """Time of the revocation."""


@dataclass(kw_only=True)
class UiField:
    """One input field."""

    name: str
    """Name of the field."""
    kind: str
    """`string`, `number`, `boolean`, `object`, `array`, or `any`."""
    default: Any
    """Default value."""
    description: str | None
    """Description of the field."""
    secret: bool
    """True if the value must not be displayed."""
    credential_glob: str | None
    """Pattern of the credentials that the field may name."""
    options: list[Any] | None
    """Allowed values."""
    children: list[UiField]
    """Nested fields."""


@dataclass(kw_only=True)
class UiSchema:
    """Description of an input form for a playbook."""

    path: str
    """Path of the definition."""
    version: int
    """Version of the definition."""
    kind: str
    """Kind of the document, in lower case."""
    title: str
    """Title of the playbook."""
    description_markdown: str | None
    """Description in Markdown."""
    exposed_in_ui: bool
    """True if users may start the playbook from the UI."""
    fields: list[UiField]
    """Input fields."""
    generated_at: str
    """Time at which the schema was generated."""


@dataclass(kw_only=True)
class ValidationReport:
    """Result of a validation."""

    valid: bool
    """True if the document is valid."""
    errors: list[str] | None = None
    """Error messages."""
    diagnostics: list[Any]
    """All diagnostics, with positions."""


@dataclass(kw_only=True)
class VariableList:
    """Variables of an execution."""

    execution_id: str
    """Id of the execution."""
    variables: dict[str, Any]
    """Values by name."""
    count: int
    """Number of variables."""


@dataclass(kw_only=True)
class VariableView:
    """A variable of an execution."""

    execution_id: str
    """Id of the execution."""
    var_name: str
    """Name of the variable."""
    var_value: Any
    """Value of the variable."""
    var_type: str
    """Type of the variable."""
    source_step: str | None = None
    """Step that set the variable."""
    set_at: str
    """Time of the last change."""


@dataclass(kw_only=True)
class WaitCondition:
    """A condition that an execution waits for."""

    kind: WaitConditionKind
    """Kind of the condition."""
    step: str | None = None
    """Waiting step; absent if the whole execution waits."""
    count: int
    """Number of commands that wait for the condition."""
    detail: str
    """Human-readable description."""
    since: str | None = None
    """Start of the wait."""
    until: str | None = None
    """End of the wait, if it is limited by time."""
    holders: list[str] | None = None
    """Holders of the awaited resource: workers, executions or steps. At most 10."""


@dataclass(kw_only=True)
class WalletRotation:
    """Result of a key rotation, by table."""

    credential: TableRotation
    """Credentials."""
    keychain: TableRotation
    """Keychain cache."""


@dataclass(kw_only=True)
class WhoAmI:
    """Identity of the caller."""

    actor: str
    """Actor name, as in the logs."""
    tenant_id: str
    """Tenant of the caller."""
    organization_id: str
    """Organization within the tenant."""
    scopes: list[str]
    """Scopes of the caller."""


@dataclass(kw_only=True)
class WorkerName:
    """Name of a worker, for heartbeat, deregistration and drain. A classic body."""

    name: str
    """Name of the worker."""
    kind: str | None = None
    """`worker_pool`."""
