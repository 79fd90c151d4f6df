# Generated from docs/openapi.json by generate.py; do not edit.
"""Operations of the API, one method each."""

from __future__ import annotations

from typing import Any, Literal

from . import models
from ._http import Transport, quote_path_segment


class Operations(Transport):
    """One method per operation. Error responses raise ProblemError."""

    def register_playbook(
        self,
        body: models.RegisterRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.RegisterResponse:
        """Register a definition. Stores the document as the next version of its path. Identical
        content is `unchanged`. An invalid document is rejected with all of its errors, each with
        line and column. The call is audited.
        """
        result: models.RegisterResponse = self._call(
            "POST",
            "/api/catalog/register",
            response_type=models.RegisterResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def register_playbooks(
        self,
        body: models.RegisterBatchRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.RegisterBatchResponse:
        """Register several definitions. Definitions are processed independently: an error in one
        does not affect the others. The call is audited.
        """
        result: models.RegisterBatchResponse = self._call(
            "POST",
            "/api/catalog/register/batch",
            response_type=models.RegisterBatchResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def put_playbook_content(
        self,
        body: models.ContentRequest,
        *,
        playbook_id: str,
        idempotency_key: str | None = None,
    ) -> models.RegisterResponse:
        """Register new content of a playbook as its next version. The call is audited."""
        result: models.RegisterResponse = self._call(
            "PUT",
            "/api/catalog/playbook/content",
            response_type=models.RegisterResponse,
            body=body,
            query={"playbook_id": playbook_id},
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def playbook_content(
        self,
        *,
        playbook_id: str,
    ) -> models.PlaybookContent:
        """Get the source text of a playbook."""
        result: models.PlaybookContent = self._call(
            "GET",
            "/api/catalog/playbook/content",
            response_type=models.PlaybookContent,
            query={"playbook_id": playbook_id},
        )
        return result

    def put_playbook(
        self,
        body: models.RegisterRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.RegisterResponse:
        """Register a definition (classic clients). The call is audited."""
        result: models.RegisterResponse = self._call(
            "PUT",
            "/api/catalog/playbook",
            response_type=models.RegisterResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def validate_playbook(
        self,
        body: models.ContentRequest,
    ) -> models.ValidationReport:
        """Validate a document without storing it."""
        result: models.ValidationReport = self._call(
            "POST",
            "/api/catalog/playbooks/validate",
            response_type=models.ValidationReport,
            body=body,
        )
        return result

    def archive_playbook(
        self,
        playbook_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> models.ArchiveResponse:
        """Archive a playbook. Identify the playbook by path, with slashes as `%2F`, or by catalog
        id. Fails while executions of the playbook are running. The call is audited.
        """
        result: models.ArchiveResponse = self._call(
            "DELETE",
            f"/api/catalog/playbooks/{quote_path_segment(playbook_id)}",
            response_type=models.ArchiveResponse,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def restore_playbook(
        self,
        body: models.RestoreRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ArchiveResponse:
        """Restore an archived definition. The call is audited."""
        result: models.ArchiveResponse = self._call(
            "POST",
            "/api/catalog/restore",
            response_type=models.ArchiveResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_playbooks(
        self,
        body: models.CatalogListRequest | None = None,
    ) -> models.CatalogList:
        """List definitions, ordered by path."""
        result: models.CatalogList = self._call(
            "POST",
            "/api/catalog/list",
            response_type=models.CatalogList,
            body=body,
        )
        return result

    def playbook_paths(
        self,
        kind: str,
    ) -> list[str]:
        """List the paths of the definitions of a kind."""
        result: list[str] = self._call(
            "GET",
            f"/api/catalog/list/{quote_path_segment(kind)}",
            response_type=list[str],
        )
        return result

    def list_agents(
        self,
        body: models.AgentListRequest | None = None,
    ) -> models.CatalogList:
        """List definitions of agents."""
        result: models.CatalogList = self._call(
            "POST",
            "/api/catalog/agents/list",
            response_type=models.CatalogList,
            body=body,
        )
        return result

    def get_playbook(
        self,
        body: models.CatalogResourceRequest,
    ) -> models.CatalogResource:
        """Get a definition by path or catalog id."""
        result: models.CatalogResource = self._call(
            "POST",
            "/api/catalog/resource",
            response_type=models.CatalogResource,
            body=body,
        )
        return result

    def playbook_versions(
        self,
        path: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.CatalogList:
        """List the versions of a definition, newest first. Slashes in the path may be written as
        `/` or `%2F`.
        """
        result: models.CatalogList = self._call(
            "GET",
            f"/api/catalog/{quote_path_segment(path)}/versions",
            response_type=models.CatalogList,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def playbook_ui_schema(
        self,
        path: str,
        *,
        version: str | None = None,
    ) -> models.UiSchema:
        """Get the UI schema for an input form of a playbook. Slashes in the path may be written as
        `/` or `%2F`.
        """
        result: models.UiSchema = self._call(
            "GET",
            f"/api/catalog/{quote_path_segment(path)}/ui_schema",
            response_type=models.UiSchema,
            query={"version": version},
        )
        return result

    def list_credentials(
        self,
        *,
        type: str | None = None,
        q: str | None = None,
    ) -> models.CredentialList:
        """List credentials without their secrets."""
        result: models.CredentialList = self._call(
            "GET",
            "/api/credentials",
            response_type=models.CredentialList,
            query={"type": type, "q": q},
        )
        return result

    def put_credential(
        self,
        body: models.CredentialPutRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.CredentialView:
        """Create a credential, or replace the one with the same name. The secret is stored
        encrypted and is not part of the response. The call is audited.
        """
        result: models.CredentialView = self._call(
            "POST",
            "/api/credentials",
            response_type=models.CredentialView,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def get_credential(
        self,
        credential: str,
        *,
        include_data: bool | None = None,
        execution_id: str | None = None,
        worker_id: str | None = None,
    ) -> models.CredentialView:
        """Get a credential by id or name. Includes the secret for callers with `cred:admin`, and
        for a worker with an active lease in an execution that uses the credential. The call is
        audited.
        """
        result: models.CredentialView = self._call(
            "GET",
            f"/api/credentials/{quote_path_segment(credential)}",
            response_type=models.CredentialView,
            query={"include_data": include_data, "execution_id": execution_id, "worker_id": worker_id},
        )
        return result

    def delete_credential(
        self,
        credential: str,
        *,
        idempotency_key: str | None = None,
    ) -> models.CredentialDeleteResponse:
        """Delete a credential. The call is audited."""
        result: models.CredentialDeleteResponse = self._call(
            "DELETE",
            f"/api/credentials/{quote_path_segment(credential)}",
            response_type=models.CredentialDeleteResponse,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def get_sealed_credential(
        self,
        credential: str,
        *,
        worker_id: str,
        execution_id: str | None = None,
    ) -> models.SealedCredential:
        """Get a credential with its secret, encrypted for a worker. Requires the same rights as
        reading the secret. The worker must have registered its `public_key` in `runtime` or
        `capabilities`. The call is audited.
        """
        result: models.SealedCredential = self._call(
            "GET",
            f"/api/credentials/{quote_path_segment(credential)}/sealed",
            response_type=models.SealedCredential,
            query={"worker_id": worker_id, "execution_id": execution_id},
        )
        return result

    def rotate_credentials(
        self,
        body: models.RotationRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.RotationSummary:
        """Encrypt the secrets of the tenant with the current key. The call is audited."""
        result: models.RotationSummary = self._call(
            "POST",
            "/api/credentials/rotate",
            response_type=models.RotationSummary,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def get_keychain(
        self,
        catalog_id: str | int,
        name: str,
        *,
        scope_type: str | None = None,
        execution_id: str | None = None,
        worker_id: str | None = None,
    ) -> models.KeychainView:
        """Get a resolved keychain entry. Includes the data for callers with `cred:admin`, and for a
        worker that holds a command of an execution of the definition. An entry of the execution
        takes precedence over a shared entry of its root execution, and that over a global entry.
        The call is audited.
        """
        result: models.KeychainView = self._call(
            "GET",
            f"/api/keychain/{quote_path_segment(catalog_id)}/{quote_path_segment(name)}",
            response_type=models.KeychainView,
            query={"scope_type": scope_type, "execution_id": execution_id, "worker_id": worker_id},
        )
        return result

    def put_keychain(
        self,
        catalog_id: str | int,
        name: str,
        body: models.KeychainPutRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.KeychainPutResponse:
        """Store a resolved keychain entry, or replace it. The data is stored encrypted. Requires
        `cred:admin`, or a worker that holds a command of an execution of the definition. The
        call is audited.
        """
        result: models.KeychainPutResponse = self._call(
            "POST",
            f"/api/keychain/{quote_path_segment(catalog_id)}/{quote_path_segment(name)}",
            response_type=models.KeychainPutResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def delete_keychain(
        self,
        catalog_id: str | int,
        name: str,
        *,
        scope_type: str | None = None,
        execution_id: str | None = None,
        worker_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.KeychainDeleteResponse:
        """Delete a resolved keychain entry. Requires `cred:admin`, or a worker that holds a command
        of an execution of the definition. The call is audited.
        """
        result: models.KeychainDeleteResponse = self._call(
            "DELETE",
            f"/api/keychain/{quote_path_segment(catalog_id)}/{quote_path_segment(name)}",
            response_type=models.KeychainDeleteResponse,
            query={"scope_type": scope_type, "execution_id": execution_id, "worker_id": worker_id},
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_keychain(
        self,
        catalog_id: str | int,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.KeychainList:
        """List the resolved keychain entries of a definition without their data."""
        result: models.KeychainList = self._call(
            "GET",
            f"/api/keychain/catalog/{quote_path_segment(catalog_id)}",
            response_type=models.KeychainList,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def execute(
        self,
        body: models.ExecuteRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ExecuteResponse:
        """Start an execution. Select the playbook by `path` and optional `version`, or by
        `catalog_id`. `payload` is merged into the workload. A response means that the execution
        is stored durably.
        """
        result: models.ExecuteResponse = self._call(
            "POST",
            "/api/execute",
            response_type=models.ExecuteResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def execute_batch(
        self,
        body: models.ExecuteBatchRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ExecuteBatchResponse:
        """Start several executions. Each item is a body of `POST /api/execute`. Items are processed
        independently; the response contains the outcome of each.
        """
        result: models.ExecuteBatchResponse = self._call(
            "POST",
            "/api/execute/batch",
            response_type=models.ExecuteBatchResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_executions(
        self,
        *,
        status: models.ExecutionStatus | None = None,
        path: str | None = None,
        catalog_id: str | None = None,
        parent: str | None = None,
        label: str | None = None,
        since: str | None = None,
        until: str | None = None,
        q: str | None = None,
        system: bool | None = None,
        roots: bool | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
    ) -> list[models.ExecutionSummary]:
        """List executions, newest first."""
        result: list[models.ExecutionSummary] = self._call(
            "GET",
            "/api/executions",
            response_type=list[models.ExecutionSummary],
            query={"status": status, "path": path, "catalog_id": catalog_id, "parent": parent, "label": label, "since": since, "until": until, "q": q, "system": system, "roots": roots, "limit": limit, "offset": offset, "cursor": cursor},
        )
        return result

    def execution(
        self,
        execution_id: str | int,
        *,
        page: int | None = None,
        page_size: int | None = None,
        since_event_id: str | None = None,
        event_type: str | None = None,
    ) -> models.ExecutionDetail:
        """Get an execution with its workload and a page of its events."""
        result: models.ExecutionDetail = self._call(
            "GET",
            f"/api/executions/{quote_path_segment(execution_id)}",
            response_type=models.ExecutionDetail,
            query={"page": page, "page_size": page_size, "since_event_id": since_event_id, "event_type": event_type},
        )
        return result

    def execution_status(
        self,
        execution_id: str | int,
    ) -> models.ExecutionStatusView:
        """Get the status of an execution, with its variables and its result or error."""
        result: models.ExecutionStatusView = self._call(
            "GET",
            f"/api/executions/{quote_path_segment(execution_id)}/status",
            response_type=models.ExecutionStatusView,
        )
        return result

    def execution_events(
        self,
        execution_id: str | int,
        *,
        after_seq: int | None = None,
        before_seq: int | None = None,
        type: str | None = None,
        step: str | None = None,
        order: models.EventOrder | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.EventPage:
        """List the events of an execution. Pass `next_cursor` as `cursor` to get the next page. It
        is absent on the last page.
        """
        result: models.EventPage = self._call(
            "GET",
            f"/api/executions/{quote_path_segment(execution_id)}/events",
            response_type=models.EventPage,
            query={"after_seq": after_seq, "before_seq": before_seq, "type": type, "step": step, "order": order, "limit": limit, "cursor": cursor},
        )
        return result

    def execution_logs(
        self,
        execution_id: str | int,
        *,
        step: str | None = None,
        attempt: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> models.OutputPage:
        """List the output that tasks of an execution sent while they ran. Tasks that run for less
        than about half a second send none: their output is only in their result. Pass
        `next_after` as `after` to get the next page.
        """
        result: models.OutputPage = self._call(
            "GET",
            f"/api/executions/{quote_path_segment(execution_id)}/logs",
            response_type=models.OutputPage,
            query={"step": step, "attempt": attempt, "after": after, "limit": limit},
        )
        return result

    def explain_execution(
        self,
        execution_id: str | int,
        *,
        step: str | None = None,
        at: str | None = None,
    ) -> models.ExecutionExplanation:
        """Explain why an execution waits, or how it ended."""
        result: models.ExecutionExplanation = self._call(
            "GET",
            f"/api/executions/{quote_path_segment(execution_id)}/explain",
            response_type=models.ExecutionExplanation,
            query={"step": step, "at": at},
        )
        return result

    def analyze_execution(
        self,
        execution_id: str | int,
        body: models.AnalyzeRequest | None = None,
    ) -> models.ExecutionAnalysis:
        """Explain an execution, with a sample of its events (classic clients). Selects
        `event_sample_size` of the last `max_events` events: failures first, then the newest.
        """
        result: models.ExecutionAnalysis = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/analyze",
            response_type=models.ExecutionAnalysis,
            body=body,
        )
        return result

    def replay_state(
        self,
        *,
        execution_id: str,
        as_of_event_id: str | None = None,
        as_of_position: int | None = None,
        as_of_time: str | None = None,
        tenant_id: str | None = None,
        organization_id: str | None = None,
        projection: models.ProjectionKind | None = None,
        limit: int | None = None,
        resolve_payloads: bool | None = None,
    ) -> models.ReplayResponse:
        """Get the state of an execution at a point of its log. The state is computed from the log,
        with a checksum.
        """
        result: models.ReplayResponse = self._call(
            "GET",
            "/api/replay/state",
            response_type=models.ReplayResponse,
            query={"execution_id": execution_id, "as_of_event_id": as_of_event_id, "as_of_position": as_of_position, "as_of_time": as_of_time, "tenant_id": tenant_id, "organization_id": organization_id, "projection": projection, "limit": limit, "resolve_payloads": resolve_payloads},
        )
        return result

    def is_cancelled(
        self,
        execution_id: str | int,
    ) -> models.CancellationCheck:
        """Check if an execution was cancelled."""
        result: models.CancellationCheck = self._call(
            "GET",
            f"/api/executions/{quote_path_segment(execution_id)}/cancellation-check",
            response_type=models.CancellationCheck,
        )
        return result

    def cancel_execution(
        self,
        execution_id: str | int,
        body: models.CancelRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.CancelResponse:
        """Cancel an execution and the child executions that it waits for. If the execution has a
        final step, that runs first, and the status is 'cancelling'. Cancelling again, or with
        `force`, ends the final step. The call is audited.
        """
        result: models.CancelResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/cancel",
            response_type=models.CancelResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def stop_execution(
        self,
        execution_id: str | int,
        body: models.CancelRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.CancelResponse:
        """Cancel an execution (classic clients). The call is audited."""
        result: models.CancelResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/stop",
            response_type=models.CancelResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def pause_execution(
        self,
        execution_id: str | int,
        body: models.ControlRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.ControlResponse:
        """Pause an execution: running commands finish, new ones are not started. The call is
        audited.
        """
        result: models.ControlResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/pause",
            response_type=models.ControlResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def resume_execution(
        self,
        execution_id: str | int,
        body: models.ControlRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.ControlResponse:
        """Resume a paused execution. The call is audited."""
        result: models.ControlResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/resume",
            response_type=models.ControlResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def rerun_execution(
        self,
        execution_id: str | int,
        body: models.RerunRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.ExecuteResponse:
        """Rerun an execution with the same playbook and input. The call is audited."""
        result: models.ExecuteResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/rerun",
            response_type=models.ExecuteResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def finalize_execution(
        self,
        execution_id: str | int,
        body: models.FinalizeRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.FinalizeResponse:
        """Force an execution to end with a given status. The call is audited."""
        result: models.FinalizeResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/finalize",
            response_type=models.FinalizeResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def clean_up_executions(
        self,
        body: models.CleanupRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.CleanupResponse:
        """Cancel idle executions. The call is audited."""
        result: models.CleanupResponse = self._call(
            "POST",
            "/api/executions/cleanup",
            response_type=models.CleanupResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def signal_execution(
        self,
        execution_id: str | int,
        body: models.SignalRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.SignalResponse:
        """Send a signal to an execution. `delivered` is true if the execution was waiting for the
        signal. Otherwise the signal is stored until the execution waits for it. The call is
        audited.
        """
        result: models.SignalResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/signal",
            response_type=models.SignalResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def broadcast_signal(
        self,
        body: models.SignalRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.BroadcastResponse:
        """Send a signal to all executions that wait for it. The call is audited."""
        result: models.BroadcastResponse = self._call(
            "POST",
            "/api/signals",
            response_type=models.BroadcastResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_approvals(
        self,
        *,
        execution_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.ApprovalList:
        """List open approvals. Pass `next_cursor` as `cursor` to get the next page. It is absent on
        the last page.
        """
        result: models.ApprovalList = self._call(
            "GET",
            "/api/approvals",
            response_type=models.ApprovalList,
            query={"execution_id": execution_id, "limit": limit, "cursor": cursor},
        )
        return result

    def approve_execution(
        self,
        execution_id: str | int,
        body: models.ApproveRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ApproveResponse:
        """Submit the decision of an approval. The call is audited."""
        result: models.ApproveResponse = self._call(
            "POST",
            f"/api/executions/{quote_path_segment(execution_id)}/approve",
            response_type=models.ApproveResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def resolve_result(
        self,
        *,
        ref: str,
    ) -> Any:
        """Get a stored result. Returns the data as stored. Data that is not JSON is returned as
        `application/octet-stream`.
        """
        return self._call(
            "GET",
            "/api/result/resolve",
            response_type=Any,
            query={"ref": ref},
        )

    def put_result(
        self,
        execution_id: str | int,
        body: models.ResultPutRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ResultPutResponse:
        """Store a result of an execution."""
        result: models.ResultPutResponse = self._call(
            "PUT",
            f"/api/result/{quote_path_segment(execution_id)}",
            response_type=models.ResultPutResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_variables(
        self,
        execution_id: str | int,
    ) -> models.VariableList:
        """List the variables of an execution."""
        result: models.VariableList = self._call(
            "GET",
            f"/api/vars/{quote_path_segment(execution_id)}",
            response_type=models.VariableList,
        )
        return result

    def set_variables(
        self,
        execution_id: str | int,
        body: dict[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> models.SetVariablesResponse:
        """Set variables of an execution. The body is `{name: value, …}` or `{variables: [{var_name,
        var_value, var_type?, source_step?}]}`.
        """
        result: models.SetVariablesResponse = self._call(
            "POST",
            f"/api/vars/{quote_path_segment(execution_id)}",
            response_type=models.SetVariablesResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def clear_variables(
        self,
        execution_id: str | int,
        *,
        idempotency_key: str | None = None,
    ) -> models.DeleteVariablesResponse:
        """Delete all variables of an execution."""
        result: models.DeleteVariablesResponse = self._call(
            "DELETE",
            f"/api/vars/{quote_path_segment(execution_id)}",
            response_type=models.DeleteVariablesResponse,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def get_variable(
        self,
        execution_id: str | int,
        name: str,
    ) -> models.VariableView:
        """Get a variable of an execution."""
        result: models.VariableView = self._call(
            "GET",
            f"/api/vars/{quote_path_segment(execution_id)}/{quote_path_segment(name)}",
            response_type=models.VariableView,
        )
        return result

    def delete_variable(
        self,
        execution_id: str | int,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> models.DeleteVariablesResponse:
        """Delete a variable of an execution."""
        result: models.DeleteVariablesResponse = self._call(
            "DELETE",
            f"/api/vars/{quote_path_segment(execution_id)}/{quote_path_segment(name)}",
            response_type=models.DeleteVariablesResponse,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def register_worker(
        self,
        body: models.RegisterWorkerRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.RuntimeView:
        """Register a worker."""
        result: models.RuntimeView = self._call(
            "POST",
            "/api/worker/pool/register",
            response_type=models.RuntimeView,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def heartbeat_worker(
        self,
        body: models.WorkerName,
        *,
        idempotency_key: str | None = None,
    ) -> models.PoolHeartbeatResponse:
        """Send a heartbeat of a worker. On `not_found`, the worker must drop its work and register
        again.
        """
        result: models.PoolHeartbeatResponse = self._call(
            "POST",
            "/api/worker/pool/heartbeat",
            response_type=models.PoolHeartbeatResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def deregister_worker(
        self,
        body: models.WorkerName,
        *,
        idempotency_key: str | None = None,
    ) -> models.OkResponse:
        """Deregister a worker; its leases end immediately."""
        result: models.OkResponse = self._call(
            "POST",
            "/api/worker/pool/deregister",
            response_type=models.OkResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def drain_worker(
        self,
        body: models.WorkerName,
        *,
        idempotency_key: str | None = None,
    ) -> models.RuntimeView:
        """Drain a worker: it finishes its commands and stops. The call is audited."""
        result: models.RuntimeView = self._call(
            "POST",
            "/api/worker/pool/drain",
            response_type=models.RuntimeView,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_pools(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> models.PoolListResponse:
        """List workers and the load of their pools."""
        result: models.PoolListResponse = self._call(
            "GET",
            "/api/worker/pools",
            response_type=models.PoolListResponse,
            query={"kind": kind, "status": status, "name": name},
        )
        return result

    def list_commands(
        self,
        *,
        status: models.CommandStatus | None = None,
        pool: str | None = None,
        worker_id: str | None = None,
        execution_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.CommandList:
        """List commands, oldest first."""
        result: models.CommandList = self._call(
            "GET",
            "/api/commands",
            response_type=models.CommandList,
            query={"status": status, "pool": pool, "worker_id": worker_id, "execution_id": execution_id, "limit": limit, "cursor": cursor},
        )
        return result

    def lease_commands(
        self,
        body: models.LeaseRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.LeaseResponse:
        """Lease commands. If no command is available, waits up to `wait_ms`."""
        result: models.LeaseResponse = self._call(
            "POST",
            "/api/commands/lease",
            response_type=models.LeaseResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def renew_commands(
        self,
        body: models.HeartbeatRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.HeartbeatResponse:
        """Renew the leases of commands."""
        result: models.HeartbeatResponse = self._call(
            "POST",
            "/api/commands/heartbeat",
            response_type=models.HeartbeatResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def report_commands(
        self,
        body: models.ReportRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ReportResponse:
        """Report results of commands, and lease the next ones. Reports are processed independently;
        the response contains the outcome of each.
        """
        result: models.ReportResponse = self._call(
            "POST",
            "/api/commands/report",
            response_type=models.ReportResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def store_output(
        self,
        body: models.OutputRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutputResponse:
        """Store output of running commands. Only the holder of a lease can store output. The first
        768 KiB and the last 256 KiB of an attempt are kept, and 64 MiB per execution.
        """
        result: models.OutputResponse = self._call(
            "POST",
            "/api/commands/output",
            response_type=models.OutputResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def classic_command(
        self,
        event_id: str | int,
    ) -> models.ClassicCommand:
        """Get a command by the event that issued it."""
        result: models.ClassicCommand = self._call(
            "GET",
            f"/api/commands/{quote_path_segment(event_id)}",
            response_type=models.ClassicCommand,
        )
        return result

    def claim_command(
        self,
        event_id: str | int,
        body: models.ClaimRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ClaimResponse:
        """Claim a command."""
        result: models.ClaimResponse = self._call(
            "POST",
            f"/api/commands/{quote_path_segment(event_id)}/claim",
            response_type=models.ClaimResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def post_event(
        self,
        body: models.ClassicEventRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ClassicEventResponse:
        """Post an event."""
        result: models.ClassicEventResponse = self._call(
            "POST",
            "/api/events",
            response_type=models.ClassicEventResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def post_events(
        self,
        body: models.ClassicEventBatch,
        *,
        idempotency_key: str | None = None,
    ) -> models.ClassicEventBatchResponse:
        """Post several events of one execution."""
        result: models.ClassicEventBatchResponse = self._call(
            "POST",
            "/api/events/batch",
            response_type=models.ClassicEventBatchResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def livez(
        self,
    ) -> models.LivenessResponse:
        """Liveness probe."""
        result: models.LivenessResponse = self._call(
            "GET",
            "/livez",
            response_type=models.LivenessResponse,
        )
        return result

    def health(
        self,
    ) -> models.LivenessResponse:
        """Liveness probe (alias)."""
        result: models.LivenessResponse = self._call(
            "GET",
            "/health",
            response_type=models.LivenessResponse,
        )
        return result

    def readyz(
        self,
    ) -> models.ReadinessResponse:
        """Readiness probe, with the result of each check."""
        result: models.ReadinessResponse = self._call(
            "GET",
            "/readyz",
            response_type=models.ReadinessResponse,
        )
        return result

    def metrics(
        self,
    ) -> str:
        """Get metrics for Prometheus."""
        result: str = self._call(
            "GET",
            "/metrics",
            response_type=str,
        )
        return result

    def api_health(
        self,
    ) -> models.HealthResponse:
        """Get the health of the server (classic clients)."""
        result: models.HealthResponse = self._call(
            "GET",
            "/api/health",
            response_type=models.HealthResponse,
        )
        return result

    def server_status(
        self,
    ) -> models.ServerStatus:
        """Get the status of the server."""
        result: models.ServerStatus = self._call(
            "GET",
            "/api/status",
            response_type=models.ServerStatus,
        )
        return result

    def pool_status(
        self,
    ) -> models.ServerStatus:
        """Get the status of the server (classic clients)."""
        result: models.ServerStatus = self._call(
            "GET",
            "/api/pool/status",
            response_type=models.ServerStatus,
        )
        return result

    def dashboard_stats(
        self,
    ) -> models.DashboardStatsResponse:
        """Get the statistics of the dashboard."""
        result: models.DashboardStatsResponse = self._call(
            "GET",
            "/api/dashboard/stats",
            response_type=models.DashboardStatsResponse,
        )
        return result

    def dashboard_widgets(
        self,
    ) -> models.DashboardWidgets:
        """Get the widgets of the dashboard."""
        result: models.DashboardWidgets = self._call(
            "GET",
            "/api/dashboard/widgets",
            response_type=models.DashboardWidgets,
        )
        return result

    def shard_info(
        self,
        *,
        execution_id: str,
        shard_count: int | None = None,
    ) -> models.ShardInfo:
        """Get the shard of an execution."""
        result: models.ShardInfo = self._call(
            "GET",
            "/api/runtime/shard-info",
            response_type=models.ShardInfo,
            query={"execution_id": execution_id, "shard_count": shard_count},
        )
        return result

    def openapi(
        self,
    ) -> Any:
        """Get this document."""
        return self._call(
            "GET",
            "/api/openapi.json",
            response_type=Any,
        )

    def json_schema(
        self,
        document: str,
    ) -> Any:
        """Get the JSON Schema `playbook.json` or `config.json`."""
        return self._call(
            "GET",
            f"/api/schema/{quote_path_segment(document)}",
            response_type=Any,
        )

    def validate_database(
        self,
    ) -> models.DatabaseCheckResponse:
        """Check that the tables of the database exist."""
        result: models.DatabaseCheckResponse = self._call(
            "GET",
            "/api/db/validate",
            response_type=models.DatabaseCheckResponse,
        )
        return result

    def init_database(
        self,
        *,
        idempotency_key: str | None = None,
    ) -> models.DatabaseCheckResponse:
        """Create missing tables of the database, as at server start. Calling it again has no
        effect. The call is audited.
        """
        result: models.DatabaseCheckResponse = self._call(
            "POST",
            "/api/db/init",
            response_type=models.DatabaseCheckResponse,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def docs(
        self,
    ) -> str:
        """Get this document as an HTML page."""
        result: str = self._call(
            "GET",
            "/api/docs",
            response_type=str,
        )
        return result

    def whoami(
        self,
    ) -> models.WhoAmI:
        """Get the identity and scopes of the caller."""
        result: models.WhoAmI = self._call(
            "GET",
            "/api/whoami",
            response_type=models.WhoAmI,
        )
        return result

    def validate_session(
        self,
        body: models.SessionRequest | None = None,
    ) -> models.SessionResponse:
        """Validate a token (published console). The token may be in the body, in `Authorization` or
        in `X-Session-Token`.
        """
        result: models.SessionResponse = self._call(
            "POST",
            "/api/auth/validate",
            response_type=models.SessionResponse,
            body=body,
        )
        return result

    def check_session_access(
        self,
        body: models.AccessRequest | None = None,
    ) -> models.AccessResponse:
        """Check if a token allows an action on a playbook (published console)."""
        result: models.AccessResponse = self._call(
            "POST",
            "/api/auth/check-access",
            response_type=models.AccessResponse,
            body=body,
        )
        return result

    def list_tokens(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.TokenList:
        """List the tokens of the tenant without their secrets."""
        result: models.TokenList = self._call(
            "GET",
            "/api/tokens",
            response_type=models.TokenList,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def create_token(
        self,
        body: models.CreateTokenRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.CreatedToken:
        """Create a token; only this response contains its secret. The call is audited."""
        result: models.CreatedToken = self._call(
            "POST",
            "/api/tokens",
            response_type=models.CreatedToken,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def revoke_token(
        self,
        token_id: str | int,
        *,
        idempotency_key: str | None = None,
    ) -> models.TokenView:
        """Revoke a token (takes effect within seconds). The call is audited."""
        result: models.TokenView = self._call(
            "DELETE",
            f"/api/tokens/{quote_path_segment(token_id)}",
            response_type=models.TokenView,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_audit_entries(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AuditPage:
        """List the audit log of the tenant, newest first."""
        result: models.AuditPage = self._call(
            "GET",
            "/api/audit",
            response_type=models.AuditPage,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def stream_status(
        self,
    ) -> models.StreamStatus:
        """Get the status of the event stream."""
        result: models.StreamStatus = self._call(
            "GET",
            "/api/stream/status",
            response_type=models.StreamStatus,
        )
        return result

    def stream_feed(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        wait_ms: int | None = None,
    ) -> models.FeedResponse:
        """Read the feed of all events."""
        result: models.FeedResponse = self._call(
            "GET",
            "/api/stream/feed",
            response_type=models.FeedResponse,
            query={"after": after, "limit": limit, "wait_ms": wait_ms},
        )
        return result

    def stream_event(
        self,
        execution_id: str | int,
        seq: int,
    ) -> Any:
        """Get an event in the format of the stream, without size limit."""
        return self._call(
            "GET",
            f"/api/stream/events/{quote_path_segment(execution_id)}/{quote_path_segment(seq)}",
            response_type=Any,
        )

    def internal_stream_status(
        self,
    ) -> models.StreamStatus:
        """Get the status of the event stream (operators)."""
        result: models.StreamStatus = self._call(
            "GET",
            "/api/internal/stream/status",
            response_type=models.StreamStatus,
        )
        return result

    def rebuild_stream(
        self,
        *,
        idempotency_key: str | None = None,
    ) -> models.StreamStatus:
        """Publish the whole log again. The call is audited."""
        result: models.StreamStatus = self._call(
            "POST",
            "/api/internal/stream/rebuild",
            response_type=models.StreamStatus,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_outbox(
        self,
        *,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> models.OutboxList:
        """List outbox rows, ordered by id."""
        result: models.OutboxList = self._call(
            "GET",
            "/api/internal/outbox",
            response_type=models.OutboxList,
            query={"status": status, "after": after, "limit": limit},
        )
        return result

    def claim_outbox(
        self,
        body: models.OutboxClaimRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutboxClaimResponse:
        """Claim outbox rows for a publisher."""
        result: models.OutboxClaimResponse = self._call(
            "POST",
            "/api/internal/outbox/claim",
            response_type=models.OutboxClaimResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def mark_published(
        self,
        body: models.MarkPublishedRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.MarkPublishedResponse:
        """Mark outbox rows as published."""
        result: models.MarkPublishedResponse = self._call(
            "POST",
            "/api/internal/outbox/mark-published",
            response_type=models.MarkPublishedResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def mark_failed(
        self,
        body: models.MarkFailedRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.MarkFailedResponse:
        """Mark an outbox row as failed."""
        result: models.MarkFailedResponse = self._call(
            "POST",
            "/api/internal/outbox/mark-failed",
            response_type=models.MarkFailedResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def outbox_pending_count(
        self,
    ) -> models.PendingCount:
        """Count the outbox rows that can be claimed."""
        result: models.PendingCount = self._call(
            "GET",
            "/api/internal/outbox/pending-count",
            response_type=models.PendingCount,
        )
        return result

    def outbox_dead(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> models.OutboxList:
        """List outbox rows that reached the maximum number of attempts."""
        result: models.OutboxList = self._call(
            "GET",
            "/api/internal/outbox/dead",
            response_type=models.OutboxList,
            query={"after": after, "limit": limit},
        )
        return result

    def list_quarantine(
        self,
        *,
        source: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> models.QuarantineList:
        """List events in quarantine, oldest first. Contains events that could not be copied into
        the log, and events that the broker rejects. They have the same retention as published
        outbox rows.
        """
        result: models.QuarantineList = self._call(
            "GET",
            "/api/internal/quarantine",
            response_type=models.QuarantineList,
            query={"source": source, "after": after, "limit": limit},
        )
        return result

    def replay_outbox(
        self,
        body: models.OutboxIds,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutboxChangeResponse:
        """Make dead outbox rows claimable again. The call is audited."""
        result: models.OutboxChangeResponse = self._call(
            "POST",
            "/api/internal/outbox/replay",
            response_type=models.OutboxChangeResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def discard_outbox(
        self,
        body: models.OutboxIds,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutboxChangeResponse:
        """Discard dead outbox rows. The call is audited."""
        result: models.OutboxChangeResponse = self._call(
            "POST",
            "/api/internal/outbox/discard",
            response_type=models.OutboxChangeResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def project_events(
        self,
        body: models.ProjectRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ProjectResponse:
        """Copy events from elsewhere into the log."""
        result: models.ProjectResponse = self._call(
            "POST",
            "/api/internal/events/project",
            response_type=models.ProjectResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def materialize_events(
        self,
        body: list[models.RawEvent],
        *,
        idempotency_key: str | None = None,
    ) -> models.MaterializeResponse:
        """Copy events of classic workers into the log."""
        result: models.MaterializeResponse = self._call(
            "POST",
            "/api/internal/events/materialize",
            response_type=models.MaterializeResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def advance_projection(
        self,
        body: models.AdvanceRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.AdvanceResponse:
        """Update read models from their logs."""
        result: models.AdvanceResponse = self._call(
            "POST",
            "/api/internal/projection/advance",
            response_type=models.AdvanceResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def purge(
        self,
        body: models.PurgeRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.PurgeResponse:
        """Delete data beyond its retention. The call is audited."""
        result: models.PurgeResponse = self._call(
            "POST",
            "/api/internal/cleanup/purge",
            response_type=models.PurgeResponse,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def rotate_wallet(
        self,
        body: models.RotationRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.WalletRotation:
        """Encrypt the secrets of all tenants with the current key. The call is audited."""
        result: models.WalletRotation = self._call(
            "POST",
            "/api/internal/wallet/rotate-kek",
            response_type=models.WalletRotation,
            body=body,
            mutates=True,
            idempotency_key=idempotency_key,
        )
        return result

    def wallet_key_status(
        self,
    ) -> models.KeyStatus:
        """Count secrets per encryption key."""
        result: models.KeyStatus = self._call(
            "GET",
            "/api/internal/wallet/key-status",
            response_type=models.KeyStatus,
        )
        return result

    def secret_audit(
        self,
        *,
        credential: str | None = None,
        execution_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        limit: int | None = None,
    ) -> models.SecretAuditResponse:
        """List operations on secrets of all tenants, newest first."""
        result: models.SecretAuditResponse = self._call(
            "GET",
            "/api/internal/secret-audit",
            response_type=models.SecretAuditResponse,
            query={"credential": credential, "execution_id": execution_id, "from": from_, "to": to, "limit": limit},
        )
        return result

    def list_cells(
        self,
    ) -> Any:
        """List cells (always empty)."""
        return self._call(
            "GET",
            "/api/internal/cells",
            response_type=Any,
        )
