#!/usr/bin/env python3
"""Writes noetl_client/models.py and noetl_client/operations.py from docs/openapi.json.

    python3 clients/python/generate.py            writes them
    python3 clients/python/generate.py --check    fails where they are not what it would write
"""

from __future__ import annotations

import json
import keyword
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "openapi.json"
PACKAGE = HERE / "noetl_client"
WIDTH = 100
MADE = "# Made from docs/openapi.json by generate.py; do not edit.\n"

SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}


def name_of(wire: str) -> str:
    """A name of the wire as Python can have it."""
    name = wire.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def kind(schema: Any, prefix: str = "") -> str:
    """The type of a schema."""
    if not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        return prefix + str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(word) for word in schema['enum'])}]"
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = schema[key]
            if all("const" in option for option in options):
                return f"Literal[{', '.join(json.dumps(option['const']) for option in options)}]"
            return union([kind(option, prefix) for option in options])
    types = schema.get("type")
    if isinstance(types, list):
        return union([kind({**schema, "type": each}, prefix) for each in types])
    if types == "array":
        return f"list[{kind(schema.get('items', True), prefix)}]"
    if types == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {kind(schema['additionalProperties'], prefix)}]"
    return SCALARS.get(types, "Any") if isinstance(types, str) else "Any"


def union(options: list[str]) -> str:
    if "Any" in options:
        return "Any"
    return " | ".join(sorted(dict.fromkeys(options), key=lambda option: option == "None"))


def quote(text: str, indent: str) -> list[str]:
    """A text as the documentation of what stands above it."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    if len(indent) + len(text) + 6 <= WIDTH and not text.endswith('"'):
        return [f'{indent}"""{text}"""']
    lines = textwrap.wrap(text, WIDTH - len(indent) - 3)
    lines = [f'{indent}"""{lines[0]}', *(indent + line for line in lines[1:])]
    return [*lines, f'{indent}"""']


def model(name: str, schema: Any) -> list[str]:
    if not isinstance(schema, dict) or "properties" not in schema:
        lines = [f"{name} = {kind(schema)}"]
        about = schema.get("description") if isinstance(schema, dict) else None
        return [*lines, *(quote(about, "") if about else [])]
    lines = ["@dataclass(kw_only=True)", f"class {name}:"]
    if about := schema.get("description"):
        lines += [*quote(about, "    "), ""]
    needed = set(schema.get("required", []))
    for wire, field in schema["properties"].items():
        told = kind(field)
        field_name = name_of(wire)
        options = []
        if wire not in needed:
            if told != "Any" and not told.endswith("None"):
                told = f"{told} | None"
            options.append("default=None")
        if field_name != wire:
            options.append(f"metadata={{'name': {json.dumps(wire)}}}".replace("'", '"'))
        value = ""
        if options == ["default=None"]:
            value = " = None"
        elif options:
            value = f" = field({', '.join(options)})"
        lines.append(f"    {field_name}: {told}{value}")
        if isinstance(field, dict) and (about := field.get("description")):
            lines += quote(about, "    ")
    return lines


def models(document: Any) -> str:
    schemas = document["components"]["schemas"]
    plain = [name for name, schema in schemas.items() if "properties" not in schema]
    classes = [name for name in schemas if name not in plain]
    parts = [
        MADE
        + '"""Bodies and answers of the API."""\n\n'
        + "from __future__ import annotations\n\n"
        + "from dataclasses import dataclass, field\n"
        + "from typing import Any, Literal"
    ]
    parts += ["\n".join(model(name, schemas[name])) for name in plain]
    parts += ["\n".join(model(name, schemas[name])) for name in classes]
    return "\n\n\n".join(parts) + "\n"


def answer(operation: Any) -> str | None:
    """The type of an answer; none for those that go on for ever or never come."""
    content = operation["responses"].get("200", {}).get("content")
    if not content or "text/event-stream" in content:
        return None
    media, told = next(iter(content.items()))
    if not media.startswith("application/json"):
        return "str"
    return kind(told["schema"], "models.")


def method(path: str, verb: str, operation: Any) -> list[str]:
    told = answer(operation)
    if told is None or operation.get("deprecated"):
        return []
    parameters = operation.get("parameters", [])
    in_path = [each for each in parameters if each["in"] == "path"]
    in_query = sorted(
        (each for each in parameters if each["in"] == "query"), key=lambda each: not each["required"]
    )
    changes = any(each["name"] == "Idempotency-Key" for each in parameters)
    positional = [f"{name_of(each['name'])}: {path_kind(each)}" for each in in_path]
    named = []
    call = [json.dumps(verb.upper()), address(path, in_path), f"answer={told}"]
    if body := operation.get("requestBody"):
        body_kind = kind(body["content"]["application/json"]["schema"], "models.")
        is_needed = body["required"] or body_kind == "Any"
        positional.append(f"body: {body_kind}" if is_needed else f"body: {body_kind} | None = None")
        call.append("body=body")
    for each in in_query:
        told_kind = kind(each["schema"], "models.")
        named.append(f"{name_of(each['name'])}: {told_kind}" + ("" if each["required"] else " | None = None"))
    if in_query:
        pairs = ", ".join(f"{json.dumps(each['name'])}: {name_of(each['name'])}" for each in in_query)
        call.append(f"query={{{pairs}}}")
    if changes:
        named.append("idempotency_key: str | None = None")
        call += ["changes=True", "idempotency_key=idempotency_key"]
    signature = ["self", *positional, *(["*", *named] if named else [])]
    lines = [f"    def {operation['operationId']}("]
    lines += [f"        {each}," for each in signature]
    lines += [f"    ) -> {told}:"]
    about = operation["summary"] + "."
    if details := operation.get("description"):
        about += " " + details
    lines += quote(about, "        ")
    result = "return self._call(" if told == "Any" else f"result: {told} = self._call("
    lines += [f"        {result}", *(f"            {each}," for each in call), "        )"]
    if told != "Any":
        lines.append("        return result")
    return lines


def path_kind(parameter: Any) -> str:
    """Ids are taken as texts and as numbers."""
    is_id = "pattern" in parameter["schema"]
    return "str | int" if is_id else kind(parameter["schema"])


def address(path: str, parameters: list[Any]) -> str:
    if not parameters:
        return json.dumps(path)
    for each in parameters:
        wire = each["name"]
        path = path.replace(f"{{{wire}}}", f"{{quoted({name_of(wire)})}}")
    return f'f"{path}"'


def operations(document: Any) -> str:
    text = (
        MADE
        + '"""The operations of the API, one method each."""\n\n'
        + "from __future__ import annotations\n\n"
        + "from typing import Any, Literal\n\n"
        + "from . import models\n"
        + "from ._http import Transport, quoted\n\n\n"
        + "class Operations(Transport):\n"
        + '    """Every operation; failures are raised as ProblemError."""\n'
    )
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            if lines := method(path, verb, operation):
                text += "\n" + "\n".join(lines) + "\n"
    return text


def main() -> int:
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    is_check = "--check" in sys.argv[1:]
    stale = []
    for name, text in (("models.py", models(document)), ("operations.py", operations(document))):
        path = PACKAGE / name
        if is_check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{', '.join(stale)} are not up to date: python3 clients/python/generate.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
