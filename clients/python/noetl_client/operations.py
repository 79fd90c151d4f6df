# Made from docs/openapi.json by generate.py; do not edit.
"""The operations of the API, one method each."""

from __future__ import annotations

from typing import Any, Literal

from . import models
from ._http import Transport, quoted


class Operations(Transport):
    """Every operation; failures are raised as ProblemError."""

    def register_playbook(
        self,
        body: models.RegisterRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.RegisterAnswer:
        """Registers a definition. Stores the document under its path as the next version; the same
        content again is `unchanged`. A document with mistakes is refused with all of them, each
        with its line and column.
        """
        result: models.RegisterAnswer = self._call(
            "POST",
            "/api/catalog/register",
            answer=models.RegisterAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def register_playbooks(
        self,
        body: models.RegisterBatch,
        *,
        idempotency_key: str | None = None,
    ) -> models.RegisterBatchAnswer:
        """Registers many definitions. Each by itself: a mistake in one does not keep the others
        out.
        """
        result: models.RegisterBatchAnswer = self._call(
            "POST",
            "/api/catalog/register/batch",
            answer=models.RegisterBatchAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def put_playbook_content(
        self,
        body: models.ContentRequest,
        *,
        playbook_id: str,
        idempotency_key: str | None = None,
    ) -> models.RegisterAnswer:
        """Registers a text as the next version of a playbook."""
        result: models.RegisterAnswer = self._call(
            "PUT",
            "/api/catalog/playbook/content",
            answer=models.RegisterAnswer,
            body=body,
            query={"playbook_id": playbook_id},
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def playbook_content(
        self,
        *,
        playbook_id: str,
    ) -> models.Content:
        """The text of a playbook."""
        result: models.Content = self._call(
            "GET",
            "/api/catalog/playbook/content",
            answer=models.Content,
            query={"playbook_id": playbook_id},
        )
        return result

    def put_playbook(
        self,
        body: models.RegisterRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.RegisterAnswer:
        """Registers a definition, as classic clients do."""
        result: models.RegisterAnswer = self._call(
            "PUT",
            "/api/catalog/playbook",
            answer=models.RegisterAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def validate_playbook(
        self,
        body: models.ContentRequest,
    ) -> models.Validation:
        """Checks a document and stores nothing."""
        result: models.Validation = self._call(
            "POST",
            "/api/catalog/playbooks/validate",
            answer=models.Validation,
            body=body,
        )
        return result

    def archive_playbook(
        self,
        playbook_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> models.ArchiveAnswer:
        """Puts a playbook into the archive. By its path or its catalog id; slashes of a path are
        written as `%2F`. Refused while runs of it go on.
        """
        result: models.ArchiveAnswer = self._call(
            "DELETE",
            f"/api/catalog/playbooks/{quoted(playbook_id)}",
            answer=models.ArchiveAnswer,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def restore_playbook(
        self,
        body: models.RestoreRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ArchiveAnswer:
        """Takes a definition out of the archive."""
        result: models.ArchiveAnswer = self._call(
            "POST",
            "/api/catalog/restore",
            answer=models.ArchiveAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_playbooks(
        self,
        body: models.ListRequest | None = None,
    ) -> models.CatalogList:
        """The definitions, in the order of their paths."""
        result: models.CatalogList = self._call(
            "POST",
            "/api/catalog/list",
            answer=models.CatalogList,
            body=body,
        )
        return result

    def playbook_paths(
        self,
        kind: str,
    ) -> list[str]:
        """The paths of the definitions of a kind."""
        result: list[str] = self._call(
            "GET",
            f"/api/catalog/list/{quoted(kind)}",
            answer=list[str],
        )
        return result

    def list_agents(
        self,
        body: models.AgentsRequest | None = None,
    ) -> models.CatalogList:
        """The definitions of agents."""
        result: models.CatalogList = self._call(
            "POST",
            "/api/catalog/agents/list",
            answer=models.CatalogList,
            body=body,
        )
        return result

    def get_playbook(
        self,
        body: models.ResourceRequest,
    ) -> models.CatalogItem:
        """A definition, by path or by id."""
        result: models.CatalogItem = self._call(
            "POST",
            "/api/catalog/resource",
            answer=models.CatalogItem,
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
        """The versions of a definition, newest first. Slashes of the path may stand as they are, or
        as `%2F`.
        """
        result: models.CatalogList = self._call(
            "GET",
            f"/api/catalog/{quoted(path)}/versions",
            answer=models.CatalogList,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def playbook_form(
        self,
        path: str,
        *,
        version: str | None = None,
    ) -> models.UiSchema:
        """What a form for the input of a playbook needs to know. Slashes of the path may stand as
        they are, or as `%2F`.
        """
        result: models.UiSchema = self._call(
            "GET",
            f"/api/catalog/{quoted(path)}/ui_schema",
            answer=models.UiSchema,
            query={"version": version},
        )
        return result

    def list_credentials(
        self,
        *,
        type: str | None = None,
        q: str | None = None,
    ) -> models.CredentialList:
        """The credentials, without their secrets."""
        result: models.CredentialList = self._call(
            "GET",
            "/api/credentials",
            answer=models.CredentialList,
            query={"type": type, "q": q},
        )
        return result

    def put_credential(
        self,
        body: models.PutCredential,
        *,
        idempotency_key: str | None = None,
    ) -> models.CredentialView:
        """Keeps a credential; one of the same name is replaced. The secret is sealed and in no
        answer. Leaves a trail.
        """
        result: models.CredentialView = self._call(
            "POST",
            "/api/credentials",
            answer=models.CredentialView,
            body=body,
            changes=True,
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
        """A credential, by its id or its name. With its secret for who has `cred:admin`, and for a
        worker with a live lease in a run that names it. Leaves a trail.
        """
        result: models.CredentialView = self._call(
            "GET",
            f"/api/credentials/{quoted(credential)}",
            answer=models.CredentialView,
            query={"include_data": include_data, "execution_id": execution_id, "worker_id": worker_id},
        )
        return result

    def delete_credential(
        self,
        credential: str,
        *,
        idempotency_key: str | None = None,
    ) -> models.DeletedCredential:
        """Forgets a credential. Leaves a trail."""
        result: models.DeletedCredential = self._call(
            "DELETE",
            f"/api/credentials/{quoted(credential)}",
            answer=models.DeletedCredential,
            changes=True,
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
        """A credential with its secret, sealed for a worker. For who would be shown it too. The
        worker has registered its `public_key`, in `runtime` or in `capabilities`. Leaves a
        trail.
        """
        result: models.SealedCredential = self._call(
            "GET",
            f"/api/credentials/{quoted(credential)}/sealed",
            answer=models.SealedCredential,
            query={"worker_id": worker_id, "execution_id": execution_id},
        )
        return result

    def rotate_credentials(
        self,
        body: models.RotationRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.Rotation:
        """Wraps secrets under the current key. Leaves a trail."""
        result: models.Rotation = self._call(
            "POST",
            "/api/credentials/rotate",
            answer=models.Rotation,
            body=body,
            changes=True,
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
        """What workers resolved for an entry of a keychain. With its data for who has `cred:admin`,
        and for a worker that holds a command of a run of the definition. What is bound to the
        run comes before what the root of its tree shares, and that before what is bound to no
        run. Leaves a trail.
        """
        result: models.KeychainView = self._call(
            "GET",
            f"/api/keychain/{quoted(catalog_id)}/{quoted(name)}",
            answer=models.KeychainView,
            query={"scope_type": scope_type, "execution_id": execution_id, "worker_id": worker_id},
        )
        return result

    def put_keychain(
        self,
        catalog_id: str | int,
        name: str,
        body: models.PutKeychain,
        *,
        idempotency_key: str | None = None,
    ) -> models.KeychainKept:
        """Keeps what was resolved for a while; what was there is replaced. It is sealed, and in no
        answer to others. For a worker that holds a command of a run of the definition, and for
        who has `cred:admin`. Leaves a trail.
        """
        result: models.KeychainKept = self._call(
            "POST",
            f"/api/keychain/{quoted(catalog_id)}/{quoted(name)}",
            answer=models.KeychainKept,
            body=body,
            changes=True,
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
    ) -> models.KeychainDeleted:
        """Forgets what was resolved. For a worker that holds a command of a run of the definition,
        and for who has `cred:admin`. Leaves a trail.
        """
        result: models.KeychainDeleted = self._call(
            "DELETE",
            f"/api/keychain/{quoted(catalog_id)}/{quoted(name)}",
            answer=models.KeychainDeleted,
            query={"scope_type": scope_type, "execution_id": execution_id, "worker_id": worker_id},
            changes=True,
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
        """All that is kept for a definition, without its data."""
        result: models.KeychainList = self._call(
            "GET",
            f"/api/keychain/catalog/{quoted(catalog_id)}",
            answer=models.KeychainList,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def execute(
        self,
        body: models.ExecuteRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ExecuteAnswer:
        """Starts a run. Of `path` (and `version`), or of `catalog_id`, with `payload` laid over the
        workload. An answer means that the run is in the log for good.
        """
        result: models.ExecuteAnswer = self._call(
            "POST",
            "/api/execute",
            answer=models.ExecuteAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def execute_batch(
        self,
        body: models.ExecuteBatch,
        *,
        idempotency_key: str | None = None,
    ) -> models.ExecuteBatchAnswer:
        """Starts many runs, independent of each other. Each item is the body of `POST
        /api/execute`; what became of each is told by itself.
        """
        result: models.ExecuteBatchAnswer = self._call(
            "POST",
            "/api/execute/batch",
            answer=models.ExecuteBatchAnswer,
            body=body,
            changes=True,
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
    ) -> list[models.ExecutionLine]:
        """The runs, newest first."""
        result: list[models.ExecutionLine] = self._call(
            "GET",
            "/api/executions",
            answer=list[models.ExecutionLine],
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
        """A run with its workload and a page of its log."""
        result: models.ExecutionDetail = self._call(
            "GET",
            f"/api/executions/{quoted(execution_id)}",
            answer=models.ExecutionDetail,
            query={"page": page, "page_size": page_size, "since_event_id": since_event_id, "event_type": event_type},
        )
        return result

    def execution_status(
        self,
        execution_id: str | int,
    ) -> models.StatusView:
        """Where a run stands, its variables, its result or error."""
        result: models.StatusView = self._call(
            "GET",
            f"/api/executions/{quoted(execution_id)}/status",
            answer=models.StatusView,
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
        order: models.Order | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.EventPage:
        """The log of a run. `next_cursor` is the `cursor` of the next page, and absent at the end.
        """
        result: models.EventPage = self._call(
            "GET",
            f"/api/executions/{quoted(execution_id)}/events",
            answer=models.EventPage,
            query={"after_seq": after_seq, "before_seq": before_seq, "type": type, "step": step, "order": order, "limit": limit, "cursor": cursor},
        )
        return result

    def explain_execution(
        self,
        execution_id: str | int,
        *,
        step: str | None = None,
        at: str | None = None,
    ) -> models.Explanation:
        """Why a run waits, or how it came to its end."""
        result: models.Explanation = self._call(
            "GET",
            f"/api/executions/{quoted(execution_id)}/explain",
            answer=models.Explanation,
            query={"step": step, "at": at},
        )
        return result

    def analyze_execution(
        self,
        execution_id: str | int,
        body: models.AnalyzeRequest | None = None,
    ) -> models.Analysis:
        """The same with some of its events, as classic clients ask. Of the last `max_events` events
        it shows `event_sample_size`: those that tell of a failure, then the newest.
        """
        result: models.Analysis = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/analyze",
            answer=models.Analysis,
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
        projection: models.Projection | None = None,
        limit: int | None = None,
        resolve_payloads: bool | None = None,
    ) -> models.ReplayAnswer:
        """What a run looked like at any moment of it. Folded from its log, with a checksum."""
        result: models.ReplayAnswer = self._call(
            "GET",
            "/api/replay/state",
            answer=models.ReplayAnswer,
            query={"execution_id": execution_id, "as_of_event_id": as_of_event_id, "as_of_position": as_of_position, "as_of_time": as_of_time, "tenant_id": tenant_id, "organization_id": organization_id, "projection": projection, "limit": limit, "resolve_payloads": resolve_payloads},
        )
        return result

    def is_cancelled(
        self,
        execution_id: str | int,
    ) -> models.CancellationCheck:
        """Whether somebody ended a run."""
        result: models.CancellationCheck = self._call(
            "GET",
            f"/api/executions/{quoted(execution_id)}/cancellation-check",
            answer=models.CancellationCheck,
        )
        return result

    def cancel_execution(
        self,
        execution_id: str | int,
        body: models.CancelRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.CancelAnswer:
        """Ends a run, and the runs that it waits for. Doing it again changes nothing. Leaves a
        trail.
        """
        result: models.CancelAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/cancel",
            answer=models.CancelAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def stop_execution(
        self,
        execution_id: str | int,
        body: models.CancelRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.CancelAnswer:
        """Ends a run, as classic clients do."""
        result: models.CancelAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/stop",
            answer=models.CancelAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def pause_execution(
        self,
        execution_id: str | int,
        body: models.SteerRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.SteerAnswer:
        """Holds a run: nothing new is started, what runs ends."""
        result: models.SteerAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/pause",
            answer=models.SteerAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def resume_execution(
        self,
        execution_id: str | int,
        body: models.SteerRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.SteerAnswer:
        """Lets a run go on."""
        result: models.SteerAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/resume",
            answer=models.SteerAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def rerun_execution(
        self,
        execution_id: str | int,
        body: models.RerunRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.ExecuteAnswer:
        """The same playbook and input once more."""
        result: models.ExecuteAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/rerun",
            answer=models.ExecuteAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def finalize_execution(
        self,
        execution_id: str | int,
        body: models.FinalizeRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.FinalizeAnswer:
        """Ends a run that cannot end by itself."""
        result: models.FinalizeAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/finalize",
            answer=models.FinalizeAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def clean_up_executions(
        self,
        body: models.CleanupRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.CleanupAnswer:
        """Ends runs that nothing happens to any more."""
        result: models.CleanupAnswer = self._call(
            "POST",
            "/api/executions/cleanup",
            answer=models.CleanupAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def signal_execution(
        self,
        execution_id: str | int,
        body: models.SignalRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.SignalAnswer:
        """Sends a signal to a run. `delivered` says whether it waited for it; else it is kept."""
        result: models.SignalAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/signal",
            answer=models.SignalAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def broadcast_signal(
        self,
        body: models.SignalRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.BroadcastAnswer:
        """Sends a signal to every run that waits for it."""
        result: models.BroadcastAnswer = self._call(
            "POST",
            "/api/signals",
            answer=models.BroadcastAnswer,
            body=body,
            changes=True,
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
        """What waits for a person. `next_cursor` is the `cursor` of the next page, and absent at
        the end.
        """
        result: models.ApprovalList = self._call(
            "GET",
            "/api/approvals",
            answer=models.ApprovalList,
            query={"execution_id": execution_id, "limit": limit, "cursor": cursor},
        )
        return result

    def decide(
        self,
        execution_id: str | int,
        body: models.ApproveRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ApproveAnswer:
        """Decides about something that a run waits for."""
        result: models.ApproveAnswer = self._call(
            "POST",
            f"/api/executions/{quoted(execution_id)}/approve",
            answer=models.ApproveAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def resolve_result(
        self,
        *,
        ref: str,
    ) -> Any:
        """Data that is kept beside the log. As it was kept. What is no JSON comes as
        `application/octet-stream`.
        """
        return self._call(
            "GET",
            "/api/result/resolve",
            answer=Any,
            query={"ref": ref},
        )

    def put_result(
        self,
        execution_id: str | int,
        body: models.PutResult,
        *,
        idempotency_key: str | None = None,
    ) -> models.KeptResult:
        """Keeps data beside the log of a run."""
        result: models.KeptResult = self._call(
            "PUT",
            f"/api/result/{quoted(execution_id)}",
            answer=models.KeptResult,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_variables(
        self,
        execution_id: str | int,
    ) -> models.Vars:
        """The variables of a run."""
        result: models.Vars = self._call(
            "GET",
            f"/api/vars/{quoted(execution_id)}",
            answer=models.Vars,
        )
        return result

    def set_variables(
        self,
        execution_id: str | int,
        body: dict[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> models.VarsSet:
        """Sets variables of a run. Either `{name: value, …}`, or `{variables: [{var_name,
        var_value, var_type?, source_step?}]}`.
        """
        result: models.VarsSet = self._call(
            "POST",
            f"/api/vars/{quoted(execution_id)}",
            answer=models.VarsSet,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def clear_variables(
        self,
        execution_id: str | int,
        *,
        idempotency_key: str | None = None,
    ) -> models.VarsDeleted:
        """Forgets all variables of a run."""
        result: models.VarsDeleted = self._call(
            "DELETE",
            f"/api/vars/{quoted(execution_id)}",
            answer=models.VarsDeleted,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def get_variable(
        self,
        execution_id: str | int,
        name: str,
    ) -> models.VarView:
        """A variable of a run."""
        result: models.VarView = self._call(
            "GET",
            f"/api/vars/{quoted(execution_id)}/{quoted(name)}",
            answer=models.VarView,
        )
        return result

    def delete_variable(
        self,
        execution_id: str | int,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> models.VarsDeleted:
        """Forgets a variable of a run."""
        result: models.VarsDeleted = self._call(
            "DELETE",
            f"/api/vars/{quoted(execution_id)}/{quoted(name)}",
            answer=models.VarsDeleted,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def register_worker(
        self,
        body: models.RegisterWorker,
        *,
        idempotency_key: str | None = None,
    ) -> models.RuntimeView:
        """Makes a worker known."""
        result: models.RuntimeView = self._call(
            "POST",
            "/api/worker/pool/register",
            answer=models.RuntimeView,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def worker_alive(
        self,
        body: models.WorkerName,
        *,
        idempotency_key: str | None = None,
    ) -> models.PoolHeartbeatAnswer:
        """Notes that a worker lives. `not_found` means: drop all work and register again."""
        result: models.PoolHeartbeatAnswer = self._call(
            "POST",
            "/api/worker/pool/heartbeat",
            answer=models.PoolHeartbeatAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def worker_leaves(
        self,
        body: models.WorkerName,
        *,
        idempotency_key: str | None = None,
    ) -> models.Done:
        """Lets a worker go; its leases end at once."""
        result: models.Done = self._call(
            "POST",
            "/api/worker/pool/deregister",
            answer=models.Done,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def drain_worker(
        self,
        body: models.WorkerName,
        *,
        idempotency_key: str | None = None,
    ) -> models.RuntimeView:
        """Asks a worker to finish and leave."""
        result: models.RuntimeView = self._call(
            "POST",
            "/api/worker/pool/drain",
            answer=models.RuntimeView,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def list_pools(
        self,
        *,
        kind: str | None = None,
        status: str | None = None,
        name: str | None = None,
    ) -> models.Pools:
        """The workers, and how busy their pools are."""
        result: models.Pools = self._call(
            "GET",
            "/api/worker/pools",
            answer=models.Pools,
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
        """The queue, oldest first."""
        result: models.CommandList = self._call(
            "GET",
            "/api/commands",
            answer=models.CommandList,
            query={"status": status, "pool": pool, "worker_id": worker_id, "execution_id": execution_id, "limit": limit, "cursor": cursor},
        )
        return result

    def lease_commands(
        self,
        body: models.LeaseRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.LeaseAnswer:
        """Hands out commands. Waits up to `wait_ms` where there are none."""
        result: models.LeaseAnswer = self._call(
            "POST",
            "/api/commands/lease",
            answer=models.LeaseAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def keep_commands(
        self,
        body: models.HeartbeatRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.HeartbeatAnswer:
        """Keeps commands: their leases are renewed."""
        result: models.HeartbeatAnswer = self._call(
            "POST",
            "/api/commands/heartbeat",
            answer=models.HeartbeatAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def report_commands(
        self,
        body: models.ReportRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ReportAnswer:
        """Takes what became of commands, and hands out the next. Each report stands for itself; the
        answer says of each whether it counts.
        """
        result: models.ReportAnswer = self._call(
            "POST",
            "/api/commands/report",
            answer=models.ReportAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def classic_command(
        self,
        event_id: str | int,
    ) -> models.ClassicCommand:
        """A command, by the event that issued it."""
        result: models.ClassicCommand = self._call(
            "GET",
            f"/api/commands/{quoted(event_id)}",
            answer=models.ClassicCommand,
        )
        return result

    def claim_command(
        self,
        event_id: str | int,
        body: models.ClaimRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ClaimAnswer:
        """Gives a command to a worker that names it."""
        result: models.ClaimAnswer = self._call(
            "POST",
            f"/api/commands/{quoted(event_id)}/claim",
            answer=models.ClaimAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def post_event(
        self,
        body: models.EventPost,
        *,
        idempotency_key: str | None = None,
    ) -> models.EventAnswer:
        """Takes an event of a worker."""
        result: models.EventAnswer = self._call(
            "POST",
            "/api/events",
            answer=models.EventAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def post_events(
        self,
        body: models.EventBatch,
        *,
        idempotency_key: str | None = None,
    ) -> models.EventBatchAnswer:
        """Takes several events of one run."""
        result: models.EventBatchAnswer = self._call(
            "POST",
            "/api/events/batch",
            answer=models.EventBatchAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def livez(
        self,
    ) -> models.Alive:
        """The process lives."""
        result: models.Alive = self._call(
            "GET",
            "/livez",
            answer=models.Alive,
        )
        return result

    def health(
        self,
    ) -> models.Alive:
        """The same, for probes that ask there."""
        result: models.Alive = self._call(
            "GET",
            "/health",
            answer=models.Alive,
        )
        return result

    def readyz(
        self,
    ) -> models.Ready:
        """Whether the server can work; each check by name."""
        result: models.Ready = self._call(
            "GET",
            "/readyz",
            answer=models.Ready,
        )
        return result

    def metrics(
        self,
    ) -> str:
        """What the server counts, for Prometheus."""
        result: str = self._call(
            "GET",
            "/metrics",
            answer=str,
        )
        return result

    def api_health(
        self,
    ) -> models.HealthAnswer:
        """How the server is, as classic clients ask."""
        result: models.HealthAnswer = self._call(
            "GET",
            "/api/health",
            answer=models.HealthAnswer,
        )
        return result

    def server_status(
        self,
    ) -> models.ServerStatus:
        """What the server knows of itself."""
        result: models.ServerStatus = self._call(
            "GET",
            "/api/status",
            answer=models.ServerStatus,
        )
        return result

    def pool_status(
        self,
    ) -> models.ServerStatus:
        """The same, as classic clients ask."""
        result: models.ServerStatus = self._call(
            "GET",
            "/api/pool/status",
            answer=models.ServerStatus,
        )
        return result

    def dashboard_stats(
        self,
    ) -> models.StatsAnswer:
        """How much there is of everything."""
        result: models.StatsAnswer = self._call(
            "GET",
            "/api/dashboard/stats",
            answer=models.StatsAnswer,
        )
        return result

    def dashboard_widgets(
        self,
    ) -> models.Widgets:
        """The same as tiles."""
        result: models.Widgets = self._call(
            "GET",
            "/api/dashboard/widgets",
            answer=models.Widgets,
        )
        return result

    def shard_info(
        self,
        *,
        execution_id: str,
        shard_count: int | None = None,
    ) -> models.ShardInfo:
        """Where a run is placed among shards."""
        result: models.ShardInfo = self._call(
            "GET",
            "/api/runtime/shard-info",
            answer=models.ShardInfo,
            query={"execution_id": execution_id, "shard_count": shard_count},
        )
        return result

    def openapi(
        self,
    ) -> Any:
        """This document."""
        return self._call(
            "GET",
            "/api/openapi.json",
            answer=Any,
        )

    def json_schema(
        self,
        document: str,
    ) -> Any:
        """The JSON Schema of `playbook.json`, `subscription.json` or `config.json`."""
        return self._call(
            "GET",
            f"/api/schema/{quoted(document)}",
            answer=Any,
        )

    def validate_database(
        self,
    ) -> models.DatabaseAnswer:
        """Whether the tables of the database are there."""
        result: models.DatabaseAnswer = self._call(
            "GET",
            "/api/db/validate",
            answer=models.DatabaseAnswer,
        )
        return result

    def init_database(
        self,
        *,
        idempotency_key: str | None = None,
    ) -> models.DatabaseAnswer:
        """Prepares the database, as a server does when it starts. Doing it again changes nothing.
        Leaves a trail.
        """
        result: models.DatabaseAnswer = self._call(
            "POST",
            "/api/db/init",
            answer=models.DatabaseAnswer,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def docs(
        self,
    ) -> str:
        """This document for people."""
        result: str = self._call(
            "GET",
            "/api/docs",
            answer=str,
        )
        return result

    def whoami(
        self,
    ) -> models.WhoAmI:
        """Who the server takes the caller for, and what it may do."""
        result: models.WhoAmI = self._call(
            "GET",
            "/api/whoami",
            answer=models.WhoAmI,
        )
        return result

    def list_tokens(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.TokenList:
        """The tokens of the tenant, without their secrets."""
        result: models.TokenList = self._call(
            "GET",
            "/api/tokens",
            answer=models.TokenList,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def create_token(
        self,
        body: models.NewToken,
        *,
        idempotency_key: str | None = None,
    ) -> models.CreatedToken:
        """Makes a token, which is shown in this answer and never again. Leaves a trail."""
        result: models.CreatedToken = self._call(
            "POST",
            "/api/tokens",
            answer=models.CreatedToken,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def revoke_token(
        self,
        token_id: str | int,
        *,
        idempotency_key: str | None = None,
    ) -> models.TokenView:
        """Takes a token back. Leaves a trail."""
        result: models.TokenView = self._call(
            "DELETE",
            f"/api/tokens/{quoted(token_id)}",
            answer=models.TokenView,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def audit_trail(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AuditPage:
        """What was done in the tenant, newest first."""
        result: models.AuditPage = self._call(
            "GET",
            "/api/audit",
            answer=models.AuditPage,
            query={"limit": limit, "cursor": cursor},
        )
        return result

    def stream_status(
        self,
    ) -> models.StreamStatus:
        """Where the stream of all events stands."""
        result: models.StreamStatus = self._call(
            "GET",
            "/api/stream/status",
            answer=models.StreamStatus,
        )
        return result

    def stream_feed(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        wait_ms: int | None = None,
    ) -> models.FeedAnswer:
        """A part of the feed of all events."""
        result: models.FeedAnswer = self._call(
            "GET",
            "/api/stream/feed",
            answer=models.FeedAnswer,
            query={"after": after, "limit": limit, "wait_ms": wait_ms},
        )
        return result

    def stream_event(
        self,
        execution_id: str | int,
        seq: int,
    ) -> Any:
        """An event as the stream carries it, whatever its size."""
        return self._call(
            "GET",
            f"/api/stream/events/{quoted(execution_id)}/{quoted(seq)}",
            answer=Any,
        )

    def stream_standing(
        self,
    ) -> models.StreamStatus:
        """Where the stream of all events stands, for operators."""
        result: models.StreamStatus = self._call(
            "GET",
            "/api/internal/stream/status",
            answer=models.StreamStatus,
        )
        return result

    def rebuild_stream(
        self,
        *,
        idempotency_key: str | None = None,
    ) -> models.StreamStatus:
        """Has the whole log published again."""
        result: models.StreamStatus = self._call(
            "POST",
            "/api/internal/stream/rebuild",
            answer=models.StreamStatus,
            changes=True,
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
        """Rows of the outbox, by id."""
        result: models.OutboxList = self._call(
            "GET",
            "/api/internal/outbox",
            answer=models.OutboxList,
            query={"status": status, "after": after, "limit": limit},
        )
        return result

    def claim_outbox(
        self,
        body: models.OutboxClaimRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutboxClaimAnswer:
        """Hands rows of the outbox to a publisher."""
        result: models.OutboxClaimAnswer = self._call(
            "POST",
            "/api/internal/outbox/claim",
            answer=models.OutboxClaimAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def mark_published(
        self,
        body: models.MarkPublishedRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.MarkPublishedAnswer:
        """Rows of the outbox are out."""
        result: models.MarkPublishedAnswer = self._call(
            "POST",
            "/api/internal/outbox/mark-published",
            answer=models.MarkPublishedAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def mark_failed(
        self,
        body: models.MarkFailedRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.MarkFailedAnswer:
        """A row of the outbox could not be published."""
        result: models.MarkFailedAnswer = self._call(
            "POST",
            "/api/internal/outbox/mark-failed",
            answer=models.MarkFailedAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def outbox_pending_count(
        self,
    ) -> models.PendingCount:
        """How many rows could be claimed."""
        result: models.PendingCount = self._call(
            "GET",
            "/api/internal/outbox/pending-count",
            answer=models.PendingCount,
        )
        return result

    def outbox_dead(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
    ) -> models.OutboxList:
        """Rows that failed too often."""
        result: models.OutboxList = self._call(
            "GET",
            "/api/internal/outbox/dead",
            answer=models.OutboxList,
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
        """What was refused while its neighbours went on, oldest first. Events that could not be
        copied into the log, and such that no broker takes. They are kept as long as rows of the
        outbox that are published.
        """
        result: models.QuarantineList = self._call(
            "GET",
            "/api/internal/quarantine",
            answer=models.QuarantineList,
            query={"source": source, "after": after, "limit": limit},
        )
        return result

    def replay_outbox(
        self,
        body: models.OutboxIds,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutboxChanged:
        """Sends dead rows out again."""
        result: models.OutboxChanged = self._call(
            "POST",
            "/api/internal/outbox/replay",
            answer=models.OutboxChanged,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def discard_outbox(
        self,
        body: models.OutboxIds,
        *,
        idempotency_key: str | None = None,
    ) -> models.OutboxChanged:
        """Gives dead rows up."""
        result: models.OutboxChanged = self._call(
            "POST",
            "/api/internal/outbox/discard",
            answer=models.OutboxChanged,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def project_events(
        self,
        body: models.ProjectRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.ProjectAnswer:
        """Copies events of others into the log."""
        result: models.ProjectAnswer = self._call(
            "POST",
            "/api/internal/events/project",
            answer=models.ProjectAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def materialize_events(
        self,
        body: list[models.SentEvent],
        *,
        idempotency_key: str | None = None,
    ) -> models.MaterializeAnswer:
        """The same, as workers tell them."""
        result: models.MaterializeAnswer = self._call(
            "POST",
            "/api/internal/events/materialize",
            answer=models.MaterializeAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def advance_projection(
        self,
        body: models.AdvanceRequest,
        *,
        idempotency_key: str | None = None,
    ) -> models.AdvanceAnswer:
        """Lets read models follow their logs."""
        result: models.AdvanceAnswer = self._call(
            "POST",
            "/api/internal/projection/advance",
            answer=models.AdvanceAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def purge(
        self,
        body: models.PurgeRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.PurgeAnswer:
        """Drops what is old."""
        result: models.PurgeAnswer = self._call(
            "POST",
            "/api/internal/cleanup/purge",
            answer=models.PurgeAnswer,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def rotate_wallet(
        self,
        body: models.RotationRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> models.WalletRotation:
        """Wraps the secrets of all tenants under the current key. Leaves a trail."""
        result: models.WalletRotation = self._call(
            "POST",
            "/api/internal/wallet/rotate-kek",
            answer=models.WalletRotation,
            body=body,
            changes=True,
            idempotency_key=idempotency_key,
        )
        return result

    def wallet_key_status(
        self,
    ) -> models.KeyStatus:
        """How many secrets are under which key."""
        result: models.KeyStatus = self._call(
            "GET",
            "/api/internal/wallet/key-status",
            answer=models.KeyStatus,
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
    ) -> models.SecretAuditRows:
        """What was done to the secrets of all tenants, newest first."""
        result: models.SecretAuditRows = self._call(
            "GET",
            "/api/internal/secret-audit",
            answer=models.SecretAuditRows,
            query={"credential": credential, "execution_id": execution_id, "from": from_, "to": to, "limit": limit},
        )
        return result

    def list_cells(
        self,
    ) -> Any:
        """The cells that there are."""
        return self._call(
            "GET",
            "/api/internal/cells",
            answer=Any,
        )
