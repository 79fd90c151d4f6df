#!/usr/bin/env python3
"""Generates noetl_client/models.py and noetl_client/operations.py from docs/openapi.json.

    python3 clients/python/generate.py            writes both files
    python3 clients/python/generate.py --check    fails if a file is out of date
"""

from __future__ import annotations

import json
import keyword
import sys
import textwrap
from pathlib import Path
from typing import Any

CLIENT_DIR = Path(__file__).resolve().parent
OPENAPI_PATH = CLIENT_DIR.parent.parent / "docs" / "openapi.json"
PACKAGE_DIR = CLIENT_DIR / "noetl_client"
MAX_LINE_CHARS = 100
FILE_HEADER = "# Generated from docs/openapi.json by generate.py; do not edit.\n"

SCALAR_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}


def to_python_name(wire_name: str) -> str:
    """Converts a wire name to a valid Python identifier."""
    name = wire_name.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def to_python_type(schema: Any, prefix: str = "") -> str:
    """Returns the type annotation of a schema. ``prefix`` precedes the names of models."""
    if not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        return prefix + str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = schema[key]
            if all("const" in option for option in options):
                return f"Literal[{', '.join(json.dumps(option['const']) for option in options)}]"
            return join_union([to_python_type(option, prefix) for option in options])
    types = schema.get("type")
    if isinstance(types, list):
        return join_union([to_python_type({**schema, "type": item}, prefix) for item in types])
    if types == "array":
        return f"list[{to_python_type(schema.get('items', True), prefix)}]"
    if types == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {to_python_type(schema['additionalProperties'], prefix)}]"
    return SCALAR_TYPES.get(types, "Any") if isinstance(types, str) else "Any"


def join_union(options: list[str]) -> str:
    """Joins types into a union without duplicates, with ``None`` last."""
    if "Any" in options:
        return "Any"
    return " | ".join(sorted(dict.fromkeys(options), key=lambda option: option == "None"))


def format_docstring(text: str, indent: str) -> list[str]:
    """Formats a text as the lines of a docstring."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    if len(indent) + len(text) + 6 <= MAX_LINE_CHARS and not text.endswith('"'):
        return [f'{indent}"""{text}"""']
    lines = textwrap.wrap(text, MAX_LINE_CHARS - len(indent) - 3)
    lines = [f'{indent}"""{lines[0]}', *(indent + line for line in lines[1:])]
    return [*lines, f'{indent}"""']


def generate_model(name: str, schema: Any) -> list[str]:
    """Generates a dataclass, or a type alias for a schema without properties."""
    if not isinstance(schema, dict) or "properties" not in schema:
        lines = [f"{name} = {to_python_type(schema)}"]
        description = schema.get("description") if isinstance(schema, dict) else None
        return [*lines, *(format_docstring(description, "") if description else [])]
    lines = ["@dataclass(kw_only=True)", f"class {name}:"]
    if description := schema.get("description"):
        lines += [*format_docstring(description, "    "), ""]
    required = set(schema.get("required", []))
    for wire_name, field_schema in schema["properties"].items():
        field_type = to_python_type(field_schema)
        field_name = to_python_name(wire_name)
        options = []
        if wire_name not in required:
            if field_type != "Any" and not field_type.endswith("None"):
                field_type = f"{field_type} | None"
            options.append("default=None")
        if field_name != wire_name:
            options.append(f"metadata={{'name': {json.dumps(wire_name)}}}".replace("'", '"'))
        default = ""
        if options == ["default=None"]:
            default = " = None"
        elif options:
            default = f" = field({', '.join(options)})"
        lines.append(f"    {field_name}: {field_type}{default}")
        if isinstance(field_schema, dict) and (description := field_schema.get("description")):
            lines += format_docstring(description, "    ")
    return lines


def generate_models(document: Any) -> str:
    """Generates the content of models.py, with the type aliases before the dataclasses."""
    schemas = document["components"]["schemas"]
    aliases = [name for name, schema in schemas.items() if "properties" not in schema]
    classes = [name for name in schemas if name not in aliases]
    parts = [
        FILE_HEADER
        + '"""Request and response bodies of the API."""\n\n'
        + "from __future__ import annotations\n\n"
        + "from dataclasses import dataclass, field\n"
        + "from typing import Any, Literal"
    ]
    parts += ["\n".join(generate_model(name, schemas[name])) for name in aliases]
    parts += ["\n".join(generate_model(name, schemas[name])) for name in classes]
    return "\n\n\n".join(parts) + "\n"


def find_response_type(operation: Any) -> str | None:
    """Returns the type of the 200 response, or ``None`` for event streams and empty responses."""
    content = operation["responses"].get("200", {}).get("content")
    if not content or "text/event-stream" in content:
        return None
    media_type, media = next(iter(content.items()))
    if not media_type.startswith("application/json"):
        return "str"
    return to_python_type(media["schema"], "models.")


def generate_method(path: str, verb: str, operation: Any) -> list[str]:
    """Generates the method of an operation, or nothing if the client does not offer it."""
    response_type = find_response_type(operation)
    if response_type is None or operation.get("deprecated"):
        return []
    parameters = operation.get("parameters", [])
    path_parameters = [parameter for parameter in parameters if parameter["in"] == "path"]
    query_parameters = sorted(
        (parameter for parameter in parameters if parameter["in"] == "query"),
        key=lambda parameter: not parameter["required"],
    )
    takes_idempotency_key = any(parameter["name"] == "Idempotency-Key" for parameter in parameters)
    positional = [
        f"{to_python_name(parameter['name'])}: {path_parameter_type(parameter)}"
        for parameter in path_parameters
    ]
    keyword_only = []
    call_arguments = [
        json.dumps(verb.upper()),
        format_path(path, path_parameters),
        f"response_type={response_type}",
    ]
    if body := operation.get("requestBody"):
        body_type = to_python_type(body["content"]["application/json"]["schema"], "models.")
        is_required = body["required"] or body_type == "Any"
        positional.append(f"body: {body_type}" if is_required else f"body: {body_type} | None = None")
        call_arguments.append("body=body")
    for parameter in query_parameters:
        parameter_type = to_python_type(parameter["schema"], "models.")
        default = "" if parameter["required"] else " | None = None"
        keyword_only.append(f"{to_python_name(parameter['name'])}: {parameter_type}{default}")
    if query_parameters:
        pairs = ", ".join(
            f"{json.dumps(parameter['name'])}: {to_python_name(parameter['name'])}"
            for parameter in query_parameters
        )
        call_arguments.append(f"query={{{pairs}}}")
    if takes_idempotency_key:
        keyword_only.append("idempotency_key: str | None = None")
        call_arguments += ["mutates=True", "idempotency_key=idempotency_key"]
    signature = ["self", *positional, *(["*", *keyword_only] if keyword_only else [])]
    lines = [f"    def {operation['operationId']}("]
    lines += [f"        {parameter}," for parameter in signature]
    lines += [f"    ) -> {response_type}:"]
    description = operation["summary"] + "."
    if details := operation.get("description"):
        description += " " + details
    lines += format_docstring(description, "        ")
    is_untyped = response_type == "Any"
    statement = "return self._call(" if is_untyped else f"result: {response_type} = self._call("
    lines += [f"        {statement}"]
    lines += [*(f"            {argument}," for argument in call_arguments), "        )"]
    if not is_untyped:
        lines.append("        return result")
    return lines


def path_parameter_type(parameter: Any) -> str:
    """Returns the type of a path parameter. Ids are accepted as strings and as integers."""
    is_id = "pattern" in parameter["schema"]
    return "str | int" if is_id else to_python_type(parameter["schema"])


def format_path(path: str, parameters: list[Any]) -> str:
    """Formats a path template as a string literal or an f-string."""
    if not parameters:
        return json.dumps(path)
    for parameter in parameters:
        wire_name = parameter["name"]
        path = path.replace(f"{{{wire_name}}}", f"{{quote_path_segment({to_python_name(wire_name)})}}")
    return f'f"{path}"'


def generate_operations(document: Any) -> str:
    """Generates the content of operations.py."""
    text = (
        FILE_HEADER
        + '"""Operations of the API, one method each."""\n\n'
        + "from __future__ import annotations\n\n"
        + "from typing import Any, Literal\n\n"
        + "from . import models\n"
        + "from ._http import Transport, quote_path_segment\n\n\n"
        + "class Operations(Transport):\n"
        + '    """One method per operation. Error responses raise ProblemError."""\n'
    )
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            if lines := generate_method(path, verb, operation):
                text += "\n" + "\n".join(lines) + "\n"
    return text


def main() -> int:
    document = json.loads(OPENAPI_PATH.read_text(encoding="utf-8"))
    is_check = "--check" in sys.argv[1:]
    files = {"models.py": generate_models(document), "operations.py": generate_operations(document)}
    outdated = []
    for name, text in files.items():
        path = PACKAGE_DIR / name
        if is_check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                outdated.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if outdated:
        print(
            f"out of date: {', '.join(outdated)}; run python3 clients/python/generate.py",
            file=sys.stderr,
        )
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
