# Made from docs/openapi.json by generate.py; do not edit.
"""Bodies and answers of the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


CommandStatus = Literal["PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]


ErrorCode = Literal["bad_json", "bad_query", "bad_id", "yaml_syntax", "out_of_range", "unauthenticated", "token_expired", "forbidden", "not_lease_holder", "residency", "not_found", "method_not_allowed", "version_conflict", "already_terminal", "already_decided", "active_claim", "stale_attempt", "id_conflict", "in_flight", "owned_by_other", "digest_mismatch", "paused", "retention_dropped", "too_large", "unsupported_media", "validation", "idempotency_mismatch", "dedup_mismatch", "illegal_transition", "rate_limited", "quota", "internal", "not_supported", "upstream", "store_unavailable", "pool_saturated", "disk_full", "not_ready", "timeout"]


ExecutionStatus = Literal["PENDING", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED"]


Health = Literal["ok", "degraded", "failed"]
"""Whether something works."""


KeychainStatus = Literal["found", "not_found", "expired"]
"""Whether there is an entry."""


Order = Literal["asc", "desc"]
"""Which events come first."""


Projection = Literal["execution", "stage", "frame", "command", "business_object", "loop", "all"]


RejectCode = Literal["missing_execution_id", "bad_value", "id_in_future", "id_conflict", "tenant_mismatch", "retention_dropped"]


ReportStatus = Literal["completed", "failed", "progress", "parked"]
"""How a command went."""


ReportVerdict = Literal["accepted", "duplicate", "ignored", "rejected"]
"""Whether a report counts."""


ResolutionScope = Literal["execution", "frame", "business_object"]
"""Whose list a reference stands in."""


ResultKind = Literal["data", "ref", "refs"]
"""How the result of an event is told."""


Scope = Literal["exec:read", "exec:run", "exec:approve", "catalog:read", "catalog:write", "sub:write", "cred:use", "cred:admin", "worker", "internal:outbox", "internal:project", "internal:retention", "metrics:read", "admin"]


SecretOperation = Literal["set", "look", "read", "lend", "seal", "delete", "rotate", "keychain.put", "keychain.get", "keychain.delete"]


SentEvent = Any
"""An event as somebody sends it. What a log cannot hold, such as NUL in a text or a key that is
there twice, is its own text: that is no event, so that it is refused alone and stops no other.
"""


TaskError = Any
"""An error: an object with `kind` and `message`, or a text."""


TaskStatus = Literal["ok", "error"]
"""How a task went."""


Version = int | str
"""A version of a definition."""


WaitingKind = Literal["paused", "pool", "approval", "signal", "limit", "retry", "child", "timer", "lease", "command", "join"]
"""What kind of thing a run waits for. They stand in the order in which they hinder: what nobody but
a person can change comes first.
"""


@dataclass(kw_only=True)
class AdvanceAnswer:
    """What became of them."""

    advanced: list[Advanced]
    """Those that follow their log."""
    failed: list[NotAdvanced]
    """Those that do not, and why."""


@dataclass(kw_only=True)
class AdvanceRequest:
    """Runs whose read model is to follow their log."""

    execution_ids: list[str | int]
    """The runs."""


@dataclass(kw_only=True)
class Advanced:
    """A run whose read model follows its log."""

    execution_id: int
    """The run."""
    version: int
    """How far."""
    events: int
    """Events that were looked at."""


@dataclass(kw_only=True)
class AgentsRequest:
    """A wish to see agents. A classic body."""

    capabilities: list[str] | None = None
    """Only those that can do all of this."""


@dataclass(kw_only=True)
class Alive:
    """A process lives."""

    status: Health
    """Always the same, since a dead process answers nothing."""


@dataclass(kw_only=True)
class Analysis:
    """Why a run stands where it stands, and some of its events."""

    execution_id: str
    """The run."""
    status: ExecutionStatus
    """Where it stands."""
    summary: str
    """The answer in one sentence."""
    waiting_on: list[WaitingOn]
    """What it waits for, what hinders it most first; empty once it has ended."""
    more: int | None = None
    """How many things more it waits for."""
    failure: FailureView | None = None
    """The first error that nothing caught."""
    cause: list[Cause]
    """What led here, the last event first, each the cause of the one before."""
    events: list[EventView]
    """Those that tell of a failure, then the newest, in order."""


@dataclass(kw_only=True)
class AnalyzeRequest:
    """How much of a run is to be analyzed."""

    max_events: int | None = None
    """How many of its last events are looked at, 1 to 20000."""
    event_sample_size: int | None = None
    """How many of those are shown, 1 to 500."""


@dataclass(kw_only=True)
class ApprovalList:
    """What waits for a person."""

    approvals: list[ApprovalView]
    """In the order of their runs."""
    next_cursor: str | None = None
    """Where the next page begins; absent at the end."""


@dataclass(kw_only=True)
class ApprovalView:
    """Something that waits for a person."""

    execution_id: str
    """The run."""
    step: str
    """The step that waits."""
    index: int | None = None
    """The iteration, in a loop."""
    title: Any = None
    """What it is about, in a few words."""
    message: Any = None
    """What it is about."""
    form: Any = None
    """JSON Schema of the values that a decision gives."""
    approvers: Any
    """Who may decide; anybody where there are none."""
    quorum: Any = None
    """How many have to approve."""
    since: str
    """Since when it waits."""
    until: str | None = None
    """Until when."""


@dataclass(kw_only=True)
class ApproveAnswer:
    """A decision is in the log of a run."""

    seq: int
    """The end of the log."""
    decision: str
    """The decision."""


@dataclass(kw_only=True)
class ApproveRequest:
    """The decision of a person."""

    step: str
    """The step that waits for it."""
    index: int | None = None
    """The iteration, in a loop."""
    decision: str
    """`approve` or `reject`."""
    comment: str | None = None
    """What there is to say."""
    values: Any = None
    """The values of the form."""


@dataclass(kw_only=True)
class ArchiveAnswer:
    """What became of a definition that was put into the archive, or taken out."""

    status: str
    """`archived` or `active`."""
    message: str
    """The same in words."""
    path: str
    """Its path."""


@dataclass(kw_only=True)
class AuditPage:
    """A page of the trail, newest first."""

    entries: list[AuditView]
    """The entries."""
    next_cursor: str | None = None
    """Where the next page begins."""
    intact: bool
    """Whether every entry of the page is linked to the one before it, as it was written."""


@dataclass(kw_only=True)
class AuditView:
    """Something that was done, or tried."""

    id: str
    """Its id."""
    seq: int
    """Its number in the trail, from 1 without gaps."""
    occurred_at: str
    """When it happened."""
    actor: str
    """Who did it."""
    act: str
    """What was done: a method and a route, or `access` for a refusal."""
    target: str | None = None
    """The path of the request."""
    address: str | None = None
    """Where the caller was."""
    outcome: str
    """`ok`, or the code of the problem."""
    detail: Any = None
    """The token; or how often a refusal was repeated, and since when."""
    secret: SecretActView | None = None
    """What it did to a secret, where it did."""
    chain: str
    """Its link to the entry before, in hexadecimal."""


@dataclass(kw_only=True)
class BroadcastAnswer:
    """A signal was sent to everybody."""

    signal_id: str
    """The signal."""
    delivered: list[str]
    """The runs that were waiting for it."""


@dataclass(kw_only=True)
class BusinessObjectEntry:
    """A business object that events are about."""

    attributes: Any = None
    """What is known of it: a map."""
    deleted_event_id: int | None = None
    """The event that removed it."""
    event_count: int | None = None
    """How many events are about it."""
    first_event_id: int | None = None
    """The first of them."""
    last_event_id: int | None = None
    """The last of them."""
    last_event_type: str | None = None
    """What the last of them is."""
    last_payload_ref: PayloadRef | None = None
    """The last reference of its events."""
    object_id: str | None = None
    """Its id."""
    object_key: str | None = None
    """Its key: type and id."""
    object_type: str | None = None
    """Its type."""
    payload_refs: list[PayloadRef] | None = None
    """All that its events refer to, in their order."""
    status: str | None = None
    """Where it stands."""
    version: int | None = None
    """Its version."""


@dataclass(kw_only=True)
class CancelAnswer:
    """A run was ended."""

    execution_id: str
    """The run."""
    status: str
    """`cancelled`."""
    cancelled_executions: list[str]
    """The runs that were ended."""
    message: str
    """The same in words."""


@dataclass(kw_only=True)
class CancelRequest:
    """A wish to end a run. A classic body."""

    reason: str | None = None
    """Why."""
    cascade: bool | None = None
    """Whether the runs that it waits for are ended too, as they are where absent."""


@dataclass(kw_only=True)
class CancellationCheck:
    """Whether somebody ended a run."""

    execution_id: str
    """The run."""
    is_cancelled: bool
    """Whether somebody did."""


@dataclass(kw_only=True)
class CatalogItem:
    """A definition."""

    catalog_id: str
    """Its id."""
    path: str
    """Its path."""
    kind: str
    """The kind of the document, in lower case."""
    version: int
    """Its version."""
    content: str
    """The document."""
    sha256: str
    """The digest of the document, in hexadecimal."""
    created_at: str
    """When it was registered."""


@dataclass(kw_only=True)
class CatalogLine:
    """A definition as lists show it."""

    catalog_id: str
    """Its id."""
    path: str
    """Its path."""
    kind: str
    """The kind of the document, in lower case."""
    version: int
    """Its version."""
    content: str | None = None
    """The document."""
    layout: Any
    """How a console has drawn it."""
    payload: Any
    """Kept for classic clients; never there."""
    meta: Any
    """What else is known of it."""
    created_at: str
    """When it was registered."""
    status: str
    """`active`, or `archived`."""


@dataclass(kw_only=True)
class CatalogList:
    """Definitions."""

    entries: list[CatalogLine]
    """In the order of their paths."""
    next_cursor: str | None = None
    """Where the next page begins; absent at the end."""


@dataclass(kw_only=True)
class Cause:
    """An event that led to something."""

    seq: int
    """Its place in the run."""
    event_type: str
    """What happened."""
    step: str | None = None
    """The step."""
    at: str
    """When."""
    why: str
    """What is known of it, in words."""


@dataclass(kw_only=True)
class Checksum:
    """A checksum, and how it was made."""

    type: str
    """`sha256`."""
    value: str
    """The digest of the canonical form."""
    fold_version: int
    """Which fold made the state."""


@dataclass(kw_only=True)
class ClaimAnswer:
    """The command is the worker's."""

    status: str
    """`ok`."""
    event_id: int
    """The event that issued it."""
    execution_id: int
    """The run."""
    node_id: str
    """The step, as an id."""
    node_name: str
    """The step."""
    action: str
    """The kind of its first tool."""
    context: ClassicContext
    """`tool_config` and `args` as the playbook has them, and the `render_context` of their
    templates.
    """
    meta: dict[str, Any]
    """Where it belongs."""
    lease_token: str
    """What proves the lease, for a worker that sends it back."""
    lease_until: str
    """Until when it is the worker's, unless a pool heartbeat renews it."""
    attempt: int
    """The attempt that begins, from 1."""


@dataclass(kw_only=True)
class ClaimRequest:
    """A wish to have a command."""

    worker_id: str
    """Who."""


@dataclass(kw_only=True)
class ClassicCommand:
    """A command with what a classic worker needs to run it."""

    execution_id: int
    """The run."""
    node_id: str
    """The step, as an id."""
    node_name: str
    """The step."""
    action: str
    """The kind of its first tool."""
    context: ClassicContext
    """`tool_config` and `args` as the playbook has them, and the `render_context` of their
    templates.
    """
    meta: dict[str, Any]
    """Where it belongs."""


@dataclass(kw_only=True)
class ClassicContext:
    """What a classic worker renders and runs."""

    tool_config: Any
    """The tool as the playbook has it; a list for a pipeline."""
    args: dict[str, Any]
    """The input of the step and of its task."""
    render_context: dict[str, Any]
    """The names that the templates of both read."""


@dataclass(kw_only=True)
class CleanupAnswer:
    """Runs that nothing happened to any more."""

    cancelled_count: int
    """How many were ended."""
    execution_ids: list[str]
    """Which ones."""
    message: str
    """The same in words."""


@dataclass(kw_only=True)
class CleanupRequest:
    """A wish to end runs that nothing happens to any more. A classic body."""

    older_than_minutes: int | None = None
    """How long ago they must have begun."""
    dry_run: bool | None = None
    """Whether they are only to be found."""


@dataclass(kw_only=True)
class CommandEntry:
    """A command."""

    claimed_event_id: int | None = None
    """The last event that gave it to a worker."""
    command_id: str | None = None
    """Its id."""
    frame_id: str | None = None
    """The frame that it works on."""
    issued_event_id: int | None = None
    """The event that issued it."""
    last_event_id: int | None = None
    """The last event about it."""
    parent_command_id: str | None = None
    """The command that it belongs to."""
    stage_id: str | None = None
    """The stage that it belongs to."""
    started_event_id: int | None = None
    """The last event with which a worker began it."""
    status: str | None = None
    """Where it stands."""
    terminal_event_id: int | None = None
    """The event that ended it."""
    worker_id: str | None = None
    """The worker that has or had it."""
    worker_locator: str | None = None
    """Where that worker is."""


@dataclass(kw_only=True)
class CommandLine:
    """A command as lists show it."""

    command_id: str
    """The command."""
    execution_id: str
    """The run."""
    step: str
    """The step."""
    run: int
    """The run of the step, from 1."""
    index: int | None = None
    """The iteration, in a loop."""
    tool_kind: str
    """The kind of tool that it needs."""
    pool: str
    """The pool whose workers may take it."""
    priority: int
    """Its rank in the pool."""
    status: str
    """Where it stands."""
    held: bool
    """Whether it waits for its run to be resumed."""
    attempt: int
    """Attempts so far."""
    max_attempts: int
    """Attempts in all."""
    worker_id: str | None = None
    """The last worker that had it."""
    lease_until: str | None = None
    """Until when it is that worker's."""
    not_before: str | None = None
    """Not to be handed out before."""
    claimed_at: str | None = None
    """When it was granted last."""
    started_at: str | None = None
    """When it was last known to start."""
    completed_at: str | None = None
    """When it was closed."""
    error: str | None = None
    """Why it failed."""


@dataclass(kw_only=True)
class CommandList:
    """A page of the queue."""

    commands: list[CommandLine]
    """The commands, oldest first."""
    next_cursor: str | None = None
    """Where the next page begins; absent at the end."""


@dataclass(kw_only=True)
class CommandMeta:
    """Where a command belongs."""

    catalog_id: str
    """The definition that its run is pinned to."""
    seq: int
    """The place of the event that issued it."""
    issued_at: str
    """When it was issued: `now()` of its templates."""
    run: int
    """The run of its step, from 1."""
    index: int | None = None
    """The iteration, in a loop."""
    collection_size: int | None = None
    """How many iterations there are."""
    frame_max_rows: int | None = None
    """How many rows its frame asks for, in a loop over a cursor; `index` is the frame then."""
    attempts: int
    """The attempt that begins, as classic workers know it."""
    max_attempts: int
    """Attempts in all."""
    trace: str | None = None
    """The trace that its run was started in, as a `traceparent`."""


@dataclass(kw_only=True)
class CommandReport:
    """What became of a command."""

    execution_id: str | int
    """The run."""
    command_id: str | int
    """The command."""
    attempt: int
    """The attempt."""
    lease_token: str
    """The token that came with it."""
    status: ReportStatus
    """How it went."""
    result: Any = None
    """The data of the step, or how far it is."""
    labels: Any = None
    """The data of each task of a pipeline, where that of the last one hides some of it."""
    onward: Any = None
    """Where the pipeline goes on in another command; then the result is the data of its tasks by
    label.
    """
    set: dict[str, Any] | None = None
    """What its tasks wrote, by the keys of their `set`."""
    error: TaskError | None = None
    """What it failed with."""
    tasks: list[TaskReport] | None = None
    """What became of each task."""
    frame: FrameReport | None = None
    """What became of the rows of its frame, in a loop over a cursor."""
    task_attempt: int | None = None
    """The attempt of the last task, from 1."""
    retries: list[RetriedTask] | None = None
    """Attempts of tasks that failed and were made again."""
    claimed_at: str | None = None
    """Since when it was the worker's, as its lease said."""
    lease_until: str | None = None
    """Until when, as its lease said."""
    started_at: str | None = None
    """When its work began."""
    finished_at: str | None = None
    """When its work ended."""


@dataclass(kw_only=True)
class Content:
    """The text of a playbook."""

    content: str
    """The text."""
    path: str
    """Its path."""
    version: int
    """Its version."""


@dataclass(kw_only=True)
class ContentRequest:
    """A text to be registered or checked. A classic body."""

    content: str
    """The document, or its base64."""


@dataclass(kw_only=True)
class CreatedToken:
    """A token that was made."""

    token: str
    """The token itself. It is shown here, and never again."""
    id: str
    """Its id."""
    name: str
    """What people call it."""
    prefix: str
    """What its text has behind `noetl_`."""
    tenant_id: str
    """Whose it is."""
    organization_id: str
    """The organization inside of the tenant."""
    scopes: list[Scope]
    """What it may do."""
    pools: list[str] | None = None
    """The pools that it may work for; all where absent."""
    path_globs: list[str] | None = None
    """Patterns of the paths whose playbooks and runs there are for it; all where absent."""
    created_at: str
    """When it was made."""
    created_by: str
    """Who made it."""
    expires_at: str | None = None
    """From when on it opens nothing."""
    last_used_at: str | None = None
    """When it was used last, to the minute."""
    revoked_at: str | None = None
    """Since when it is taken back."""


@dataclass(kw_only=True)
class CredentialList:
    """Credentials without their secrets."""

    items: list[CredentialView]
    """The credentials."""
    filter: Any = None
    """What was asked for, where that was anything."""


@dataclass(kw_only=True)
class CredentialView:
    """A credential, with its secret for those alone who may have it."""

    id: str
    """Its id."""
    name: str
    """Its name."""
    type: str
    """What it is for."""
    meta: Any = None
    """What its owner notes about it."""
    tags: list[str] | None = None
    """Words to find it by."""
    description: str | None = None
    """What it is for, in words."""
    created_at: str
    """When it was first kept."""
    updated_at: str
    """When it was last replaced."""
    data: Any = None
    """The secret."""


@dataclass(kw_only=True)
class DatabaseAnswer:
    """Whether the tables of the database are those that the server works with."""

    status: str
    """`ok` or `error`."""
    message: str
    """The same in words."""
    valid: bool
    """Whether nothing is missing."""
    tables: list[str]
    """The tables that are there."""
    missing: list[str]
    """Those that are missing."""


@dataclass(kw_only=True)
class Dedup:
    """The key under which no second run is made, for a while."""

    key: str
    """Any text."""
    window_secs: int | None = None
    """For how long; see `DedupWindowSecs`."""


@dataclass(kw_only=True)
class DeletedCredential:
    """A credential is gone."""

    message: str
    """For people."""
    id: str
    """Which one."""


@dataclass(kw_only=True)
class Detail:
    """One thing that is wrong."""

    code: str | None = None
    """Its code, such as that of a diagnostic."""
    pointer: str
    """Where in the body, as a JSON pointer."""
    path: str | None = None
    """Where in the playbook."""
    line: int | None = None
    """The line of the playbook, from 1."""
    column: int | None = None
    """The column of the playbook, from 1."""
    message: str
    """What is wrong."""
    hint: str | None = None
    """What to do about it."""


@dataclass(kw_only=True)
class Done:
    """It is done, and there is nothing more to say."""

    status: str
    """`ok`."""


@dataclass(kw_only=True)
class EventAnswer:
    """What became of an event."""

    status: str
    """`ok`, or `ignored` where it came too late or from somebody whose command it is not."""
    event_id: int
    """Its id."""
    commands_generated: int
    """How many commands followed."""
    seq: int | None = None
    """Its place, or the end of the run's log after it."""


@dataclass(kw_only=True)
class EventBatch:
    """Several things that a worker tells of one run."""

    execution_id: str | int
    """The run."""
    worker_id: str | None = None
    """Who tells them."""
    events: list[TaleOfEvent]
    """What is told, in order; at most `MAX_EVENT_BATCH`."""


@dataclass(kw_only=True)
class EventBatchAnswer:
    """What became of them."""

    status: str
    """`ok`."""
    event_ids: list[int]
    """Their ids, in order."""
    commands_generated: int
    """How many commands followed."""


@dataclass(kw_only=True)
class EventPage:
    """A page of a log."""

    events: list[EventView]
    """The events."""
    next_cursor: str | None = None
    """Where the next page begins; absent at the end."""


@dataclass(kw_only=True)
class EventPost:
    """Something that a worker tells."""

    execution_id: str | int
    """The run."""
    step: str | None = None
    """The step."""
    event_type: str
    """What happened."""
    payload: Any = None
    """With what."""
    meta: dict[str, Any] | None = None
    """What else is known of it."""
    result_kind: ResultKind | None = None
    """How its result is told."""
    result_uri: str | None = None
    """Where its result is kept."""
    event_ids: list[Any] | None = None
    """The events that hold the parts of its result."""
    actionable: bool | None = None
    """Whether it asks for something to happen. What follows from an event depends on what it says,
    so this is only kept.
    """
    informative: bool | None = None
    """Whether it is for people to read; only kept too."""
    event_id: str | int | None = None
    """Its id, where the worker has made one: the same event again is the same."""
    status: str | None = None
    """With what outcome."""
    created_at: str | None = None
    """When it happened."""
    worker_id: str | None = None
    """Who tells it."""


@dataclass(kw_only=True)
class EventView:
    """An event as readers see it."""

    event_id: str
    """Its id."""
    seq: int
    """Its place in the run."""
    execution_id: str
    """The run."""
    event_type: str
    """What happened."""
    node_id: str | None = None
    """The node, as an id."""
    node_name: str | None
    """The node."""
    status: str
    """The status that the event brings."""
    created_at: str
    """When it happened."""
    timestamp: str
    """The same, as classic clients read it."""
    duration: float | None = None
    """How long it took, in milliseconds."""
    context: Any = None
    """What it was given."""
    result: Any
    """What came out."""
    error: str | None
    """What went wrong."""
    catalog_id: str | None = None
    """The definition."""
    parent_event_id: str | None = None
    """The event that led to it."""
    worker_id: str | None = None
    """The worker that it came from."""
    meta: Any = None
    """What else is known of it."""


@dataclass(kw_only=True)
class ExecuteAnswer:
    """A run began."""

    execution_id: str
    """The run."""
    status: str
    """`started`."""
    commands_generated: int
    """How many commands its first decision issued."""
    path: str
    """The path of the definition."""
    version: int
    """The version of the definition."""
    catalog_id: str
    """The definition."""
    outcome: Outcome | None = None
    """What came of it, where the caller waited and it ended in time."""


@dataclass(kw_only=True)
class ExecuteBatch:
    """Many runs to be started, each by itself. A classic body."""

    executions: list[Any]
    """From 1 to `MAX_EXECUTE_BATCH`."""


@dataclass(kw_only=True)
class ExecuteBatchAnswer:
    """What became of them."""

    count: int
    """How many were asked for."""
    started: int
    """How many began."""
    duplicates: int
    """How many had begun before."""
    failed: int
    """How many did not."""
    results: list[ExecuteVerdict]
    """One for each, in order."""


@dataclass(kw_only=True)
class ExecuteRequest:
    """A wish to run a definition. A classic body: what it does not know it passes over."""

    path: str | None = None
    """The definition, by path."""
    catalog_id: str | int | None = None
    """The definition, by id; wins over the path."""
    version: Version | None = None
    """Its version; the newest where absent."""
    payload: Any = None
    """What is laid over the defaults of the playbook."""
    parent_execution_id: str | int | None = None
    """The run that starts this one."""
    execution_pool: str | None = None
    """The pool of workers for it."""
    trace: Any = None
    """The trace that it belongs to."""
    labels: Any = None
    """What people tag it with."""
    priority: int | None = None
    """Its rank in the queue, -100 to 100."""
    start_at: str | None = None
    """When it is to begin; at once where absent."""
    dedup: Dedup | None = None
    """The key under which no second run is made."""
    resource_kind: str | None = None
    """What kind of definition the sender means; the definition itself decides."""
    wait_ms: int | None = None
    """How long the answer may wait for the end of the run."""


@dataclass(kw_only=True)
class ExecuteVerdict:
    """What became of one of many runs."""

    index: int
    """Its place in the request, from 0."""
    status: str
    """`started`, `duplicate` or `error`."""
    execution_id: str | None = None
    """The run."""
    commands_generated: int
    """How many commands its first decision issued."""
    error: str | None = None
    """Why it did not begin."""


@dataclass(kw_only=True)
class ExecutionDetail:
    """A run with a page of its log."""

    execution_id: str
    """The run."""
    catalog_id: str | None
    """Its definition."""
    path: str | None
    """The path of its definition."""
    version: int | None
    """The version of its definition."""
    status: ExecutionStatus
    """Where it stands."""
    started_at: str
    """When it began."""
    completed_at: str | None
    """When it ended."""
    start_time: str
    """When it began, as classic clients read it."""
    end_time: str | None
    """When it ended, as classic clients read it."""
    duration_seconds: float
    """How long it took, or has taken so far."""
    duration_human: str
    """The same for people."""
    progress: int
    """From 0 to 100."""
    parent_execution_id: str | None
    """The run that started it."""
    event_count: int
    """How many events its log has."""
    error: str | None = None
    """Why it failed."""
    workload: Any
    """What it began with."""
    result: Any = None
    """What came out."""
    events: list[EventView]
    """Its events."""
    pagination: Pagination
    """Which of them these are."""


@dataclass(kw_only=True)
class ExecutionEntry:
    """The execution as a whole."""

    last_node_name: str | None = None
    """The step that was last entered, left or finished."""
    payload_refs: list[PayloadRef] | None = None
    """All that its events refer to, in their order."""
    status: str | None = None
    """Where it stands."""


@dataclass(kw_only=True)
class ExecutionLine:
    """A line of the list of runs."""

    execution_id: str
    """The run."""
    catalog_id: str | None
    """Its definition."""
    path: str | None
    """The path of its definition."""
    version: int | None
    """The version of its definition."""
    status: ExecutionStatus
    """Where it stands."""
    started_at: str
    """When it began."""
    completed_at: str | None
    """When it ended."""
    start_time: str
    """When it began, as classic clients read it."""
    end_time: str | None
    """When it ended, as classic clients read it."""
    duration_seconds: float
    """How long it took, or has taken so far."""
    duration_human: str
    """The same for people."""
    progress: int
    """From 0 to 100."""
    parent_execution_id: str | None
    """The run that started it."""
    event_count: int
    """How many events its log has."""
    error: str | None = None
    """Why it failed."""


@dataclass(kw_only=True)
class Explanation:
    """Why a run stands where it stands."""

    execution_id: str
    """The run."""
    status: ExecutionStatus
    """Where it stands."""
    summary: str
    """The answer in one sentence."""
    waiting_on: list[WaitingOn]
    """What it waits for, what hinders it most first; empty once it has ended."""
    more: int | None = None
    """How many things more it waits for."""
    failure: FailureView | None = None
    """The first error that nothing caught."""
    cause: list[Cause]
    """What led here, the last event first, each the cause of the one before."""


@dataclass(kw_only=True)
class FailureView:
    """An error that nothing caught."""

    step: str | None = None
    """The step that failed."""
    error: Any
    """The error, whole."""
    line: int | None = None
    """The line of the playbook that it comes from, from 1."""
    column: int | None = None
    """The column of the playbook, from 1."""


@dataclass(kw_only=True)
class FeedAnswer:
    """A part of the feed of all events."""

    events: list[Any]
    """The events, as the stream carries them."""
    next: FeedPosition
    """Where the next part begins."""
    is_full: bool
    """Whether there may be more right now."""


@dataclass(kw_only=True)
class FeedPosition:
    """Place of an event in the feed of a whole log. The order of commits is that of the pair;
    neither part alone means anything.
    """

    tx: int
    """The transaction that wrote the event."""
    position: int
    """The number of the row."""


@dataclass(kw_only=True)
class FinalizeAnswer:
    """A run ended as it was said."""

    execution_id: str
    """The run."""
    status: ExecutionStatus
    """How it ended."""
    message: str
    """The same in words."""


@dataclass(kw_only=True)
class FinalizeRequest:
    """How a run is said to have ended. A classic body."""

    status: ExecutionStatus
    """`COMPLETED` or `FAILED`."""
    error: str | None = None
    """What it failed with."""
    reason: str | None = None
    """Why it is said."""


@dataclass(kw_only=True)
class FrameEntry:
    """A frame: some rows that are worked on together."""

    attempts: int | None = None
    """How often it was tried."""
    claimed_event_id: int | None = None
    """The event that gave it to a worker."""
    command_id: str | None = None
    """The command that works on it."""
    events_emitted: int | None = None
    """How many events it wrote."""
    frame_id: str | None = None
    """Its id."""
    last_event_id: int | None = None
    """The last event about it."""
    output_ref: Any = None
    """Where its output is."""
    output_ref_summary: ReferenceSummary | None = None
    """What that reference tells."""
    parent_frame_id: str | None = None
    """The frame that it was cut from."""
    row_count: int | None = None
    """How many rows it had."""
    stage_id: str | None = None
    """The stage that it belongs to."""
    status: str | None = None
    """Where it stands."""
    terminal_event_id: int | None = None
    """The event that ended it."""


@dataclass(kw_only=True)
class FrameReport:
    """What became of the rows of a frame."""

    rows: int
    """How many were claimed; none ends the chain of frames."""
    done: int
    """Those whose tasks went well."""
    failed: int
    """Those whose tasks failed."""
    bytes: int
    """Bytes of the rows."""
    errors: list[RowError] | None = None
    """The first failures, where the frame went on after them."""


@dataclass(kw_only=True)
class HealthAnswer:
    """How a server is."""

    status: str
    """`ok` or `unhealthy`."""
    database: Health
    """Whether its store answers."""
    nats: str
    """Whether its messages get out; `disabled` where it sends none."""
    uptime_seconds: int
    """For how long it has run."""
    version: str
    """What it is."""


@dataclass(kw_only=True)
class HeartbeatAnswer:
    """What became of the wish to keep them; in the order of the request."""

    leases: list[KeptLease]
    """One for each."""


@dataclass(kw_only=True)
class HeartbeatRequest:
    """A worker keeps its commands."""

    worker_id: str
    """Who."""
    leases: list[HeldLease]
    """What it holds."""
    extend_ms: int | None = None
    """For how long from now; the server's own measure where absent."""


@dataclass(kw_only=True)
class HeldLease:
    """What proves that a command is still one's own."""

    execution_id: str | int
    """The run."""
    command_id: str | int
    """The command."""
    lease_token: str
    """The token that came with it."""
    attempt: int
    """The attempt."""


@dataclass(kw_only=True)
class KeptLease:
    """What became of one lease."""

    command_id: str
    """The command."""
    ok: bool
    """Whether it still is the worker's."""
    lease_until: str | None = None
    """Until when."""
    cancel: bool | None = None
    """Whether nobody wants its result any more: stop."""
    code: ErrorCode | None = None
    """Why it is not the worker's."""


@dataclass(kw_only=True)
class KeptResult:
    """Data is kept."""

    ref: str
    """Its address."""
    store: str
    """Where it is kept."""
    scope: str
    """How long it is of use."""
    bytes: int
    """How many bytes it has."""
    sha256: str
    """What its canonical bytes hash to, in hexadecimal."""
    expires_at: str | None = None
    """When it goes."""


@dataclass(kw_only=True)
class KeyStatus:
    """Which keys secrets are under. A key that none is under may go."""

    current: str
    """The key that seals."""
    credential: dict[str, int]
    """How many credentials are under each key."""
    keychain: dict[str, int]
    """The same of what workers resolved."""


@dataclass(kw_only=True)
class KeychainDeleted:
    """An entry is gone, or was not there."""

    status: str
    """`deleted` or `not_found`."""
    cache_key: str
    """The key that it was kept under."""


@dataclass(kw_only=True)
class KeychainItem:
    """An entry of a list, without its data."""

    cache_key: str
    """The key that it is kept under."""
    is_expired: bool
    """Whether its time is over."""
    keychain_name: str
    """Its name in the playbook."""
    catalog_id: str
    """The definition that names it."""
    scope_type: str
    """Who shares it."""
    execution_id: str | None = None
    """The run that it is for, where it is not for all."""
    auto_renew: bool
    """Whether workers are to resolve it anew when it is over."""
    created_at: str
    """When it was first kept."""
    updated_at: str
    """When it was last replaced."""
    expires_at: str
    """When it is over."""


@dataclass(kw_only=True)
class KeychainKept:
    """Something is kept."""

    status: str
    """`success`."""
    cache_key: str
    """The key that it is kept under."""
    expires_at: str
    """When it is over."""


@dataclass(kw_only=True)
class KeychainList:
    """A page of the entries of a definition, without their data."""

    catalog_id: str
    """The definition."""
    entries: list[KeychainItem]
    """The entries."""
    count: int
    """How many they are."""
    next_cursor: str | None = None
    """Where the next page begins."""


@dataclass(kw_only=True)
class KeychainView:
    """An entry, with its data for those alone who may have it."""

    status: KeychainStatus
    """Whether there is one."""
    cache_key: str
    """The key that it is kept under."""
    data: Any = None
    """What was resolved, while it is not over."""
    renew_config: Any = None
    """How workers would resolve it anew."""
    keychain_name: str | None = None
    """Its name in the playbook."""
    catalog_id: str | None = None
    """The definition that names it."""
    scope_type: str | None = None
    """Who shares it."""
    execution_id: str | None = None
    """The run that it is for, where it is not for all."""
    auto_renew: bool | None = None
    """Whether workers are to resolve it anew when it is over."""
    created_at: str | None = None
    """When it was first kept."""
    updated_at: str | None = None
    """When it was last replaced."""
    expires_at: str | None = None
    """When it is over."""


@dataclass(kw_only=True)
class LeaseAnswer:
    """Work for a worker."""

    commands: list[LeasedCommand]
    """The commands, each of them now the worker's."""
    poll_after_ms: int
    """How long to wait before asking again; 0 for at once."""


@dataclass(kw_only=True)
class LeaseRequest:
    """A worker asks for work."""

    worker_id: str
    """Who asks."""
    pool: str
    """The pool that it works for."""
    max: int | None = None
    """How many commands it can take."""
    wait_ms: int | None = None
    """How long it waits where there is none."""
    kinds: list[str] | None = None
    """The kinds of tools that it has; all where absent."""
    lease_ms: int | None = None
    """How long a lease is to last; the server's own measure where absent."""


@dataclass(kw_only=True)
class LeasedCommand:
    """A command with all that a worker needs."""

    execution_id: str
    """The run."""
    event_id: str
    """The event that issued it."""
    command_id: str
    """The command."""
    attempt: int
    """The attempt that begins, from 1."""
    lease_token: str
    """What proves the lease."""
    claimed_at: str
    """Since when it is the worker's."""
    lease_until: str
    """Until when, unless it is renewed."""
    deadline_at: str | None = None
    """When the attempt fails, renewed or not."""
    idempotency_key: str
    """The first two parts of the key of every call: run and seq."""
    node_id: str
    """The step, as an id."""
    node_name: str
    """The step."""
    action: str
    """The kind of its first tool."""
    context: dict[str, Any]
    """The values that its templates read, as of its issue, or where they are kept."""
    meta: CommandMeta
    """Where it belongs."""


@dataclass(kw_only=True)
class ListRequest:
    """A wish to see definitions. A classic body."""

    resource_type: str | None = None
    """Only those of a kind."""
    latest_only: bool | None = None
    """Whether only the newest version of each is shown, as it is where absent."""
    include_content: bool | None = None
    """Whether their texts are shown, as they are where absent."""
    q: str | None = None
    """Only those whose path holds this text."""
    limit: int | None = None
    """How many at most."""
    cursor: str | None = None
    """Where the page before ended."""


@dataclass(kw_only=True)
class LoopEntry:
    """A loop."""

    completed: bool | None = None
    """Whether it is over."""
    done: int | None = None
    """How many of its parts went well."""
    failed: int | None = None
    """How many of its parts failed."""
    last_event_id: int | None = None
    """The last event about it."""
    loop_id: str | None = None
    """Its id."""
    step_name: str | None = None
    """The step that it belongs to."""
    total: int | None = None
    """How many parts it has."""


@dataclass(kw_only=True)
class MarkFailedAnswer:
    """What became of a row that failed."""

    marked: bool
    """Whether it was in the caller's hands."""
    available_at_in: int
    """Seconds until it may be claimed again; 0 where it may not."""


@dataclass(kw_only=True)
class MarkFailedRequest:
    """A row could not be published."""

    outbox_id: str | int
    """The row."""
    error: str
    """Why."""
    attempts: int | None = None
    """The attempt that it was claimed with."""
    max_delay_seconds: int | None = None
    """The longest delay, 1 to 3600; 300 where absent."""


@dataclass(kw_only=True)
class MarkPublishedAnswer:
    """How many rows a mark changed."""

    marked: int
    """Those that were in the caller's hands."""


@dataclass(kw_only=True)
class MarkPublishedRequest:
    """Rows are out."""

    outbox_ids: list[str | int]
    """The rows."""
    attempts: list[int] | None = None
    """The attempt that each was claimed with, in the same order: a row that has another one by now
    is somebody else's.
    """


@dataclass(kw_only=True)
class MaterializeAnswer:
    """The same for events as workers tell them."""

    materialized: int
    """How many are in the log from now on."""
    duplicates: int
    """How many were there already."""
    rejected: list[RejectedEvent] | None = None
    """Those that cannot be taken."""


@dataclass(kw_only=True)
class NewToken:
    """A token that is to be made."""

    name: str
    """What people call it; logs of runs name it as the actor."""
    scopes: list[Scope]
    """What it may do."""
    pools: list[str] | None = None
    """The pools that it may work for; all where absent."""
    path_globs: list[str] | None = None
    """Patterns of the paths whose playbooks and runs there are for it; all where absent."""
    ttl_days: int | None = None
    """How long it lives; for ever where absent."""
    tenant_id: str | None = None
    """Whose it is: the caller's tenant where absent. Another one only where the caller's tenant
    runs the installation.
    """
    organization_id: str | None = None
    """The organization inside of the tenant."""


@dataclass(kw_only=True)
class NextLease:
    """What a worker that reports would like to have next."""

    pool: str
    """The pool that it works for."""
    max: int
    """How many commands it can take."""
    wait_ms: int | None = None
    """How long it waits where there is none."""
    kinds: list[str] | None = None
    """The kinds of tools that it has; all where absent."""
    lease_ms: int | None = None
    """How long a lease is to last."""


@dataclass(kw_only=True)
class NotAdvanced:
    """A run whose read model does not follow its log."""

    execution_id: int
    """The run."""
    error: str
    """Why."""


@dataclass(kw_only=True)
class OutboxChanged:
    """How many of them that changed: those that were dead."""

    changed: int
    """How many."""


@dataclass(kw_only=True)
class OutboxClaimAnswer:
    """Rows that are the publisher's for a while."""

    rows: list[OutboxMessage]
    """In the order in which they became available."""
    claimed: int
    """How many."""


@dataclass(kw_only=True)
class OutboxClaimRequest:
    """A publisher wants rows of the outbox."""

    limit: int | None = None
    """How many; the nearest number from 1 to 1000 is taken, 100 where absent."""


@dataclass(kw_only=True)
class OutboxIds:
    """Rows that an operator decides about."""

    outbox_ids: list[str | int]
    """The rows."""


@dataclass(kw_only=True)
class OutboxLine:
    """A row of the outbox as lists show it."""

    outbox_id: int
    """The row."""
    event_id: int
    """The event."""
    execution_id: int | None = None
    """Its run."""
    subject: str | None = None
    """Where it is published."""
    message_id: str
    """The `Nats-Msg-Id`."""
    status: str
    """`PENDING`, `IN_FLIGHT`, `PUBLISHED`, `FAILED` or `DEAD`."""
    attempts: int
    """How often it was claimed."""
    available_at: str
    """When it may be claimed."""
    lease_until: str | None = None
    """Until when it is in a publisher's hands."""
    published_at: str | None = None
    """When it was published."""
    discarded_at: str | None = None
    """When an operator gave it up."""
    last_error: str | None = None
    """Why it last failed."""
    created_at: str
    """When it was written."""


@dataclass(kw_only=True)
class OutboxList:
    """Rows of the outbox, as an operator looks at them."""

    rows: list[OutboxLine]
    """The rows, by id."""
    next_after: int | None = None
    """The row that the next page follows; absent at the end."""


@dataclass(kw_only=True)
class OutboxMessage:
    """A row of the outbox in the hands of a publisher."""

    outbox_id: int
    """The row."""
    event_id: int
    """The event."""
    execution_id: int | None = None
    """Its run; absent in rows of others that do not say."""
    subject: str | None = None
    """Where it is to be published; absent in rows of others that do not say."""
    message_id: str
    """The `Nats-Msg-Id`."""
    payload: Any
    """What is to be published."""
    payload_codec: str
    """What the payload is written in; absent means `arrow-feather`."""
    attempts: int
    """How often it was claimed, this time included: what a mark sends back."""


@dataclass(kw_only=True)
class Outcome:
    """How a run ended."""

    status: ExecutionStatus
    """How."""
    result: Any = None
    """What came out."""
    error: str | None = None
    """Why it failed."""


@dataclass(kw_only=True)
class Pagination:
    """Which part of a log a page shows."""

    page: int
    """The page, from 1."""
    page_size: int
    """Events on a page."""
    total_events: int
    """Events in all."""
    total_pages: int
    """Pages in all."""
    has_next: bool
    """Whether a page follows."""
    has_prev: bool
    """Whether a page comes before."""


@dataclass(kw_only=True)
class PayloadRef:
    """Data that an event refers to."""

    event_id: str | None = None
    """The event."""
    reference: Any = None
    """The reference as the event has it."""
    summary: ReferenceSummary | None = None
    """What the reference tells about the data."""


@dataclass(kw_only=True)
class PayloadResolution:
    """What was found out about the data that one event refers to."""

    scope: ResolutionScope
    """Whose list it stands in."""
    event_id: str
    """The event."""
    frame_id: str | None = None
    """The frame, of that scope."""
    object_key: str | None = None
    """The object, of that scope."""
    reference_summary: ReferenceSummary
    """What the reference says."""
    resolution: Resolution
    """What is there."""


@dataclass(kw_only=True)
class PendingCount:
    """How many rows could be claimed now."""

    pending: int
    """Those of publishers that died included."""


@dataclass(kw_only=True)
class PoolHeartbeatAnswer:
    """What a worker that lives should know."""

    status: str
    """`ok`."""
    cancel: list[str]
    """Commands that nobody wants any more."""
    drain: bool
    """Whether it should finish and leave."""


@dataclass(kw_only=True)
class PoolView:
    """How busy a pool is."""

    pool: str
    """The pool."""
    pending: int
    """Commands that wait for a worker."""
    in_flight: int
    """Commands that a worker has."""
    oldest_lease: str | None = None
    """When the lease that is held the longest was granted."""


@dataclass(kw_only=True)
class Pools:
    """Processes, and how busy the pools are that have anything to do."""

    items: list[RuntimeView]
    """The processes, by name."""
    count: int
    """How many they are."""
    pools: list[PoolView]
    """The pools, by name."""


@dataclass(kw_only=True)
class Problem:
    """Why a request failed."""

    type: str
    """Names the kind of problem."""
    title: str
    """The kind in words."""
    status: int
    """The status of the answer."""
    detail: str
    """What happened, for a person."""
    code: str
    """The kind of problem."""
    request_id: str | None = None
    """The request, as logs know it."""
    errors: list[Detail] | None = None
    """Each thing that is wrong, where there are several or places to point at."""
    error: str
    """What happened, as classic clients read it."""


@dataclass(kw_only=True)
class Progress:
    """How far a run is."""

    total_steps: int
    """Steps of its playbook."""
    completed_steps: int
    """Those that went well."""
    running_steps: int
    """Those that run."""
    failed_steps: int
    """Those that failed."""


@dataclass(kw_only=True)
class ProjectAnswer:
    """What became of them."""

    projected: int
    """How many are in the log from now on."""
    duplicates: int
    """How many were there already."""
    rejected: list[RejectedEvent] | None = None
    """Those that cannot be taken."""


@dataclass(kw_only=True)
class ProjectRequest:
    """Events of others that are to be in the log."""

    events: list[Any]
    """Their envelopes, each as it came."""


@dataclass(kw_only=True)
class ProjectionChecksums:
    """The checksum of each part, under its name."""

    execution: str
    """Of the execution as a whole."""
    stage: str
    """Of the stages."""
    frame: str
    """Of the frames."""
    command: str
    """Of the commands."""
    business_object: str
    """Of the business objects."""
    loop: str
    """Of the loops."""


@dataclass(kw_only=True)
class PurgeAnswer:
    """What was dropped, or would be."""

    commands_purged: int
    """Commands."""
    runtime_purged: int
    """Workers."""
    events_purged: int
    """Parts of the log."""
    event_partitions_dropped: list[str] | None = None
    """Their names."""
    outbox_purged: int
    """Rows of the outbox that were published long ago."""
    dry_run: bool
    """Whether nothing was touched."""
    skipped: list[SkippedPart] | None = None
    """Parts of the log that are old enough and stay."""


@dataclass(kw_only=True)
class PurgeRequest:
    """What is to be dropped; without a body all the defaults."""

    command_retention_days: int | None = None
    """Days that commands are kept which have ended; 7 where absent, none or less skips them."""
    runtime_stale_minutes: int | None = None
    """Minutes that workers are kept which are silent; 60 where absent, none or less skips them."""
    event_retention_days: int | None = None
    """Days that the logs of ended runs are kept; 0 where absent, which touches none."""
    dry_run: bool | None = None
    """Whether to tell what would go, and touch nothing."""


@dataclass(kw_only=True)
class PutCredential:
    """A credential to be kept; one of the same name is replaced."""

    name: str
    """Its name, which playbooks use."""
    type: str
    """What it is for: `postgres`, `bearer`, `basic`, `api_key`, `nats`, `secret`…"""
    data: Any
    """The secret itself: an object with the fields of its type."""
    meta: Any = None
    """What its owner notes about it."""
    tags: list[str] | None = None
    """Words to find it by."""
    description: str | None = None
    """What it is for, in words."""


@dataclass(kw_only=True)
class PutKeychain:
    """What is to be kept; what was there under the same key is replaced."""

    data: Any
    """What was resolved."""
    scope_type: str | None = None
    """Who shares it: `local`, `shared` or `global`, which it is where absent. `catalog` is
    `shared`.
    """
    execution_id: str | int | None = None
    """The run that it is for, where it is `local` or `shared`, and that a worker works on."""
    worker_id: str | None = None
    """Who works on it, for a worker; any that holds a command of the run where absent."""
    expires_at: str | None = None
    """When it is over; in 600 seconds where neither this nor `expires_in` is given."""
    expires_in: int | None = None
    """The same in seconds from now. Nothing is kept for more than 30 days."""
    auto_renew: bool | None = None
    """Whether workers are to resolve it anew when it is over."""
    renew_config: Any = None
    """How they would; kept as secret as the data."""


@dataclass(kw_only=True)
class PutResult:
    """Data to be kept. A classic body: what it does not know it passes over."""

    name: str
    """Its name, which becomes part of its address."""
    data: Any
    """The data."""
    scope: str | None = None
    """How long it is of use: `step`, `execution`, `workflow` or `permanent`."""
    source_step: str | None = None
    """The step that made it."""
    store: str | None = None
    """Where it is to be kept; the server chooses where absent."""
    ttl: Any = None
    """How long it is kept: seconds, or a duration as in playbooks."""
    correlation: Any = None
    """What it belongs to, in the caller's words."""
    compress: bool | None = None
    """Whether it is packed."""


@dataclass(kw_only=True)
class Ready:
    """Whether a server can work."""

    status: Health
    """The worst of its checks."""
    checks: dict[str, Health]
    """What was looked at."""
    reasons: dict[str, str] | None = None
    """What is wrong with those that are not well; told only to who shows an identity."""
    unsafe: list[str] | None = None
    """Settings that make it less safe than it should be."""
    walls: list[str] | None = None
    """Walls that do not stand: around the log, and around tasks those that workers could not raise.
    """


@dataclass(kw_only=True)
class ReferenceSummary:
    """What a reference tells about its data."""

    media_type: str | None = None
    """What kind of data it is."""
    ref: str | None = None
    """Where it is."""
    row_count: int | None = None
    """How many rows it has."""
    schema_digest: str | None = None
    """The digest of its schema."""
    sha256: str | None = None
    """Its digest."""


@dataclass(kw_only=True)
class RegisterAnswer:
    """A definition is registered."""

    status: str
    """`success`."""
    message: str
    """The same in words."""
    path: str
    """Its path."""
    version: int | None = None
    """Its version; absent after a dry run of a new one."""
    catalog_id: str | None = None
    """Its id; absent after a dry run of a new one."""
    kind: str
    """The kind of the document, in lower case."""
    unchanged: bool
    """Whether the same content was there already."""
    warnings: list[Any] | None = None
    """What the checker warns of."""


@dataclass(kw_only=True)
class RegisterBatch:
    """Many definitions to be registered, each by itself. A classic body."""

    items: list[RegisterRequest]
    """At most `MAX_REGISTER_BATCH`."""


@dataclass(kw_only=True)
class RegisterBatchAnswer:
    """What became of them."""

    registered: int
    """How many are registered."""
    failed: int
    """How many are not."""
    results: list[RegisterVerdict]
    """One for each, in order."""


@dataclass(kw_only=True)
class RegisterRequest:
    """A wish to register a definition. A classic body."""

    content: str
    """The document, or its base64."""
    resource_type: str | None = None
    """What kind of document the sender takes it for; the document itself decides."""
    dry_run: bool | None = None
    """Whether it is only to be checked."""


@dataclass(kw_only=True)
class RegisterVerdict:
    """What became of one of many definitions."""

    index: int
    """Its place in the request, from 0."""
    status: str
    """`registered` or `error`."""
    path: str | None = None
    """Its path."""
    version: int | None = None
    """Its version."""
    catalog_id: str | None = None
    """Its id."""
    error: str | None = None
    """Why it is not registered."""


@dataclass(kw_only=True)
class RegisterWorker:
    """A worker makes itself known. A classic body."""

    name: str
    """Its name: the id that it leases with."""
    kind: str | None = None
    """`worker_pool`."""
    uri: str | None = None
    """Where it can be reached."""
    status: str | None = None
    """What it says of itself."""
    labels: dict[str, Any] | None = None
    """Tags; `pool_name` is its pool."""
    capabilities: Any = None
    """The kinds of tools that it has, and the like; `public_key` as in `runtime`."""
    capacity: int | None = None
    """How many commands it runs at once."""
    runtime: Any = None
    """What it runs on; `public_key` is base64 of the 32 bytes of the X25519 key that secrets are
    sealed for.
    """
    hostname: str | None = None
    """The machine."""


@dataclass(kw_only=True)
class RejectedEvent:
    """An event that cannot be taken; its neighbours are."""

    index: int
    """Its place in the request, from 0."""
    event_id: Any
    """The id that it says, as it says it."""
    code: RejectCode
    """Why, for programs."""
    message: str
    """Why, for people."""


@dataclass(kw_only=True)
class ReplayAnswer:
    """A run as of a moment."""

    tenant_id: str
    """Whose it is."""
    organization_id: str
    """Whose it is, inside of the tenant."""
    execution_id: int
    """The execution."""
    event_count: int
    """How many events were folded."""
    last_event_id: int | None = None
    """The last of them."""
    last_event_type: str | None = None
    """What the last of them is."""
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
    projection: Projection
    """What the caller wants to see. It changes nothing: every part is there."""
    replay_snapshot: ReplaySnapshot | None = None
    """The snapshot that the fold went on from."""
    checksum: Checksum | None = None
    """Of the whole; none where the log was cut by a limit."""
    projection_checksums: ProjectionChecksums | None = None
    """Of each part; none where the log was cut by a limit."""
    truncated: bool | None = None
    """Whether a limit cut the log: then this is not the state that was asked for."""
    warnings: list[str] | None = None
    """What is odd about the log."""
    payload_resolution: list[PayloadResolution] | None = None
    """What was found out about the data that events refer to."""
    payload_resolution_summary: ResolutionSummary | None = None
    """The same in numbers."""


@dataclass(kw_only=True)
class ReplaySnapshot:
    """A snapshot that a fold went on from."""

    aggregate_id: str
    """`execution/<id>/all`."""
    aggregate_type: str
    """`replay_state`."""
    version: int
    """The last event that it holds."""
    checksum: str
    """Its checksum."""
    meta: Any
    """What else is known of it."""


@dataclass(kw_only=True)
class ReportAnswer:
    """What became of reports, and what to do next."""

    results: list[ReportResult]
    """One for each report, in the order of the request."""
    commands: list[LeasedCommand] | None = None
    """What to do next."""


@dataclass(kw_only=True)
class ReportRequest:
    """A worker tells what became of its commands."""

    worker_id: str
    """Who."""
    reports: list[CommandReport]
    """At most `MAX_REPORT_BATCH`; each stands for itself."""
    lease: NextLease | None = None
    """What it would like to have next."""


@dataclass(kw_only=True)
class ReportResult:
    """What became of a report."""

    command_id: str
    """The command."""
    status: ReportVerdict
    """Whether it counts."""
    seq: int | None = None
    """The end of the run's log after it."""
    code: ErrorCode | None = None
    """Why it does not count."""
    detail: str | None = None
    """The same in words."""


@dataclass(kw_only=True)
class RerunRequest:
    """A wish to run a definition again with the input of an earlier run. A classic body."""

    workload: Any = None
    """What is laid over the input of the earlier run."""


@dataclass(kw_only=True)
class Resolution:
    """What is at the other end of a reference; never the data itself."""

    ref: str | None = None
    """The address."""
    resolved: bool
    """Whether the data is there."""
    checksum: str | None = None
    """Its digest."""
    size_bytes: int | None = None
    """How large it is."""
    row_count: int | None = None
    """How many rows it has."""
    value_type: str | None = None
    """What kind of JSON it is."""
    error: str | None = None
    """Why it was not looked at or not found."""


@dataclass(kw_only=True)
class ResolutionSummary:
    """References in numbers."""

    total: int
    """How many there are."""
    resolved: int
    """How many lead to data."""
    unresolved: int
    """How many do not, or were not looked at."""
    unique_refs: int
    """How many addresses there are."""
    all_resolved: bool
    """Whether every one leads to data."""
    checksum: str
    """Of the canonical form of the list."""


@dataclass(kw_only=True)
class ResourceRequest:
    """A wish to see a definition. A classic body."""

    catalog_id: str | int | None = None
    """By id."""
    path: str | None = None
    """By path."""
    version: Version | None = None
    """The version; the newest where absent."""


@dataclass(kw_only=True)
class RestoreRequest:
    """A wish to take a definition out of the archive."""

    path: str
    """Its path."""


@dataclass(kw_only=True)
class RetriedTask:
    """An attempt of a task that failed and is made again."""

    error: TaskError
    """What it failed with."""
    attempt: int
    """Which attempt it was, from 1."""
    retry_in_ms: int
    """After how long it is made again."""
    at: str | None = None
    """When it failed."""


@dataclass(kw_only=True)
class Rotation:
    """What a rotation did."""

    processed: int
    """Records that were looked at."""
    rewrapped: int
    """Those that are under the current key now."""
    skipped: int
    """Those that somebody wrote meanwhile."""
    failed: int
    """Those that could not be opened."""


@dataclass(kw_only=True)
class RotationRequest:
    """How much of a rotation to do at once."""

    batch_size: int | None = None
    """Records that are looked at together."""
    max_batches: int | None = None
    """How often."""


@dataclass(kw_only=True)
class RowError:
    """A row whose tasks failed."""

    row: int
    """Its place in the frame, from 0."""
    error: TaskError
    """With what they failed."""


@dataclass(kw_only=True)
class RuntimeView:
    """A process as lists show it."""

    runtime_id: str
    """Its id."""
    name: str
    """Its name."""
    kind: str
    """What it is."""
    uri: str | None = None
    """Where it can be reached."""
    status: str
    """`active`, `draining` where it was asked to leave, or `offline` after too long a silence."""
    labels: Any
    """Tags."""
    capacity: int | None = None
    """How many commands it runs at once."""
    heartbeat: str
    """When it was last heard of."""
    created_at: str
    """When it was first heard of."""


@dataclass(kw_only=True)
class SealedCredential:
    """A credential that only one worker can open."""

    alg: str
    """`x25519-hkdf-sha256-chacha20-poly1305`."""
    v: int
    """The form, 1."""
    eph_pub: str
    """The public half of the key that was made for it, in base64."""
    ciphertext: str
    """Nonce, text and tag, in base64. The text is the credential with its secret, as JSON."""


@dataclass(kw_only=True)
class SecretActView:
    """What an act did to a secret."""

    operation: SecretOperation
    """What was done."""
    credential: str | None = None
    """The name of the secret; absent where it was about many."""
    worker_id: str | None = None
    """The worker that it was for."""
    execution_id: str | None = None
    """The run that it was for."""
    parent_execution_id: str | None = None
    """The run that started that one."""
    key_id: str | None = None
    """The key that the secret is sealed under."""


@dataclass(kw_only=True)
class SecretAuditRow:
    """Something that was done to a secret, or tried: an entry of the trail of a tenant."""

    audit_id: int
    """The entry."""
    occurred_at: str
    """When it happened."""
    tenant_id: str
    """Whose secret it is."""
    actor: str
    """Who did it."""
    credential: str | None = None
    """The name of the secret; absent where it was about many."""
    operation: SecretOperation
    """What was done."""
    outcome: str
    """`ok`, or the code of the problem."""
    worker_id: str | None = None
    """The worker that it was for."""
    execution_id: int | None = None
    """The run that it was for."""
    parent_execution_id: int | None = None
    """The run that started that one."""
    kek_version: str | None = None
    """The key that the secret is sealed under."""
    address: str | None = None
    """Where the caller was."""
    notes: Any = None
    """The token that was shown."""
    seq: int
    """Its number in the trail of its tenant, from 1 without gaps."""
    chain: str
    """Its link to the entry before, in hexadecimal."""


@dataclass(kw_only=True)
class SecretAuditRows:
    """What was done to secrets."""

    rows: list[SecretAuditRow]
    """The acts, newest first."""


@dataclass(kw_only=True)
class ServerStatus:
    """What a server knows of itself."""

    status: Health
    """Whether it can work."""
    server_name: str
    """Its name among servers."""
    version: str
    """What it is."""
    uptime_seconds: int
    """For how long it has run."""
    checks: dict[str, Health]
    """What was looked at."""


@dataclass(kw_only=True)
class ShardConfig:
    """The shard that a server is set to."""

    shard_count: int
    """How many there are."""
    shard_index: int
    """Which one it is, from 0."""


@dataclass(kw_only=True)
class ShardInfo:
    """Where a run is placed among shards."""

    execution_id: str
    """The run."""
    shard_count: int
    """Among how many."""
    shard_index: int
    """Which one, from 0."""
    source: str
    """Who said how many there are: `query` or `server_config`."""
    hash_function: str
    """How the place is found."""
    seed: int
    """What that starts from."""
    server_config: ShardConfig
    """What this server is set to."""


@dataclass(kw_only=True)
class SignalAnswer:
    """A signal is in the log of a run."""

    seq: int
    """The end of the log."""
    delivered: bool
    """Whether something was waiting for it; else it is kept."""


@dataclass(kw_only=True)
class SignalRequest:
    """A signal, to one run or to all that wait for it."""

    name: str
    """Its name."""
    key: str | None = None
    """What it is about; a wait with a key takes only signals of that key."""
    payload: Any = None
    """What it says."""


@dataclass(kw_only=True)
class SkippedPart:
    """A part of the log that is old enough and stays."""

    partition: str
    """Its name."""
    reason: str
    """Why it stays."""


@dataclass(kw_only=True)
class StageEntry:
    """A stage: frames that belong together."""

    closed_event_id: int | None = None
    """The event that closed it."""
    events_emitted: int | None = None
    """How many events its frames wrote."""
    failed_count: int | None = None
    """How many of its frames failed."""
    frame_count: int | None = None
    """How many frames it had."""
    kind: str | None = None
    """What it is."""
    last_event_id: int | None = None
    """The last event about it."""
    loop_event_id: int | None = None
    """The loop that it belongs to."""
    opened_event_id: int | None = None
    """The event that opened it."""
    parent_stage_id: str | None = None
    """The stage that it is part of."""
    row_count: int | None = None
    """How many rows its frames had."""
    stage_id: str | None = None
    """Its id."""
    status: str | None = None
    """Where it stands."""
    step_name: str | None = None
    """The step that it belongs to."""


@dataclass(kw_only=True)
class Stats:
    """How much there is of everything."""

    total_executions: int
    """Runs."""
    successful_executions: int
    """Those that ended well."""
    failed_executions: int
    """Those that failed."""
    cancelled_executions: int
    """Those that somebody ended."""
    running_executions: int
    """Those that go on."""
    total_playbooks: int
    """Playbooks."""
    total_workers: int
    """Workers that were heard of lately."""


@dataclass(kw_only=True)
class StatsAnswer:
    """The same as the dashboard reads it: once below `stats`, and once beside it."""

    status: str
    """`ok`."""
    stats: Stats
    """The counters."""
    total_executions: int
    """Runs."""
    successful_executions: int
    """Those that ended well."""
    failed_executions: int
    """Those that failed."""
    cancelled_executions: int
    """Those that somebody ended."""
    running_executions: int
    """Those that go on."""
    total_playbooks: int
    """Playbooks."""
    total_workers: int
    """Workers that were heard of lately."""


@dataclass(kw_only=True)
class StatusView:
    """Where a run stands."""

    execution_id: str
    """The run."""
    status: ExecutionStatus
    """Where it stands."""
    current_step: str | None
    """The step that was last entered or left."""
    progress: Progress
    """How far it is."""
    is_cancelled: bool
    """Whether somebody ended it."""
    completed: bool
    """Whether it ended."""
    failed: bool
    """Whether it failed."""
    completed_steps: list[str]
    """The steps that went well."""
    completion_inferred: bool
    """Always false: the end of a run is an event, never a guess."""
    variables: Any
    """Its variables."""
    start_time: str
    """When it began."""
    end_time: str | None
    """When it ended."""
    duration_seconds: float
    """How long it took, or has taken so far."""
    duration_human: str
    """The same for people."""
    result: Any = None
    """What came out, once it ended."""
    error: str | None = None
    """Why it failed."""


@dataclass(kw_only=True)
class SteerAnswer:
    """Where a run stands after it was steered."""

    execution_id: str
    """The run."""
    status: ExecutionStatus
    """Where it stands."""
    seq: int
    """The end of its log."""


@dataclass(kw_only=True)
class SteerRequest:
    """A wish to hold a run, or to let it go on."""

    reason: str | None = None
    """Why."""


@dataclass(kw_only=True)
class StreamStatus:
    """Where the stream stands."""

    enabled: bool
    """Whether this server takes part in publishing."""
    state: str
    """What it does: `off`, `starting`, `standby`, `publishing` or `troubled`."""
    trouble: str | None = None
    """What keeps it from publishing, or what the stream has otherwise than it is set."""
    owner: str | None = None
    """Which server publishes."""
    epoch: int | None = None
    """How often the publisher has changed."""
    position: FeedPosition | None = None
    """Everything up to here is published."""
    log_epoch: int
    """The life of the log."""
    stream_created_at: str | None = None
    """When the broker made the stream."""
    lag_events: int
    """Events that are still to be published."""
    lag_ms: int
    """For how long the first of them has waited."""
    horizon_age_ms: int
    """For how long an open transaction has held the log back."""
    published: int
    """Messages that the broker acknowledged since this server began."""
    duplicates: int
    """Those of them that it had already."""
    by_reference: int
    """Those that refer to an event which is too large."""
    parked: int
    """Events that can never be published and were put aside."""
    restored: int
    """Messages that the broker had lost."""
    rebuilds: int
    """How often the stream was made anew."""
    nats_connected: bool
    """Whether the broker is reached."""
    nats_version: str | None = None
    """Its version."""


@dataclass(kw_only=True)
class TableRotation:
    """What a rotation did to the records of one table."""

    processed: int
    """Records that were looked at."""
    rewrapped: int
    """Those that are under the current key now."""
    skipped: int
    """Those that somebody wrote meanwhile."""
    failed: int
    """Those that could not be opened."""
    last_id: int | None = None
    """The last record that was looked at."""


@dataclass(kw_only=True)
class TaleOfEvent:
    """What is told, and of which step."""

    step: str | None = None
    """The step."""
    event_type: str
    """What happened."""
    payload: Any = None
    """With what."""
    meta: dict[str, Any] | None = None
    """What else is known of it."""
    result_kind: ResultKind | None = None
    """How its result is told."""
    result_uri: str | None = None
    """Where its result is kept."""
    event_ids: list[Any] | None = None
    """The events that hold the parts of its result."""
    actionable: bool | None = None
    """Whether it asks for something to happen. What follows from an event depends on what it says,
    so this is only kept.
    """
    informative: bool | None = None
    """Whether it is for people to read; only kept too."""
    event_id: str | int | None = None
    """Its id, where the worker has made one: the same event again is the same."""
    status: str | None = None
    """With what outcome."""
    created_at: str | None = None
    """When it happened."""


@dataclass(kw_only=True)
class TaskReport:
    """What became of a task of a command."""

    label: str
    """The task."""
    status: TaskStatus
    """How its last run went."""
    attempts: int
    """How often it ran."""
    duration_ms: int | None = None
    """How long it ran, all attempts together."""


@dataclass(kw_only=True)
class TokenList:
    """A page of tokens."""

    tokens: list[TokenView]
    """The tokens, oldest first."""
    next_cursor: str | None = None
    """Where the next page begins."""


@dataclass(kw_only=True)
class TokenView:
    """A token, without what it proves itself by."""

    id: str
    """Its id."""
    name: str
    """What people call it."""
    prefix: str
    """What its text has behind `noetl_`."""
    tenant_id: str
    """Whose it is."""
    organization_id: str
    """The organization inside of the tenant."""
    scopes: list[Scope]
    """What it may do."""
    pools: list[str] | None = None
    """The pools that it may work for; all where absent."""
    path_globs: list[str] | None = None
    """Patterns of the paths whose playbooks and runs there are for it; all where absent."""
    created_at: str
    """When it was made."""
    created_by: str
    """Who made it."""
    expires_at: str | None = None
    """From when on it opens nothing."""
    last_used_at: str | None = None
    """When it was used last, to the minute."""
    revoked_at: str | None = None
    """Since when it is taken back."""


@dataclass(kw_only=True)
class UiField:
    """One value of an input."""

    name: str
    """Its name."""
    kind: str
    """`string`, `number`, `boolean`, `object`, `array`, or `any`."""
    default: Any
    """Its value where nobody gives one."""
    description: str | None
    """What it is for."""
    secret: bool
    """Whether it is not to be shown."""
    credential_glob: str | None
    """The credentials that it may name."""
    options: list[Any] | None
    """The values that it may have."""
    children: list[UiField]
    """The values inside of it."""


@dataclass(kw_only=True)
class UiSchema:
    """What a form for the input of a playbook needs to know."""

    path: str
    """The path of the definition."""
    version: int
    """Its version."""
    kind: str
    """The kind of the document, in lower case."""
    title: str
    """What it is called."""
    description_markdown: str | None
    """What it is for."""
    exposed_in_ui: bool
    """Whether people are meant to start it."""
    fields: list[UiField]
    """Its input."""
    generated_at: str
    """When this was worked out."""


@dataclass(kw_only=True)
class Validation:
    """Whether a document is well."""

    valid: bool
    """Whether it is."""
    errors: list[str] | None = None
    """What is wrong with it, in words."""
    diagnostics: list[Any]
    """All that was found, with places."""


@dataclass(kw_only=True)
class VarView:
    """A variable of a run."""

    execution_id: str
    """The run."""
    var_name: str
    """Its name."""
    var_value: Any
    """Its value."""
    var_type: str
    """What it is."""
    source_step: str | None = None
    """The step that set it."""
    set_at: str
    """When it was set last."""


@dataclass(kw_only=True)
class Vars:
    """The variables of a run."""

    execution_id: str
    """The run."""
    variables: dict[str, Any]
    """Their values, by name."""
    count: int
    """How many they are."""


@dataclass(kw_only=True)
class VarsDeleted:
    """Variables were forgotten."""

    execution_id: str
    """The run."""
    deleted: int
    """How many."""
    status: str
    """`ok`."""


@dataclass(kw_only=True)
class VarsSet:
    """Variables were set."""

    execution_id: str
    """The run."""
    variables_set: int
    """How many."""
    status: str
    """`ok`."""


@dataclass(kw_only=True)
class WaitingOn:
    """Something that a run waits for."""

    kind: WaitingKind
    """What kind of thing."""
    step: str | None = None
    """The step that waits; absent where the whole run does."""
    count: int
    """How many of its commands wait for the same."""
    detail: str
    """The same in words."""
    since: str | None = None
    """Since when."""
    until: str | None = None
    """Until when, where time ends it."""
    holders: list[str] | None = None
    """Who has what is waited for: workers, runs, steps. At most `MAX_HOLDERS`."""


@dataclass(kw_only=True)
class WalletRotation:
    """What a rotation did, table by table."""

    credential: TableRotation
    """The credentials."""
    keychain: TableRotation
    """What workers resolved, and is kept for a while."""


@dataclass(kw_only=True)
class WhoAmI:
    """Who makes a request."""

    actor: str
    """As logs tell it."""
    tenant_id: str
    """Whose data it sees."""
    organization_id: str
    """The same inside of the tenant."""
    scopes: list[str]
    """What it may do."""


@dataclass(kw_only=True)
class Widgets:
    """What the dashboard shows."""

    widgets: list[Any]
    """One for each counter."""


@dataclass(kw_only=True)
class WorkerName:
    """A worker lives, or leaves. A classic body."""

    name: str
    """Its name."""
    kind: str | None = None
    """`worker_pool`."""
