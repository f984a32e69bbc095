"""The OpenAPI document, made from the table of resources."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hermetic.serve.refusals import Failure
from hermetic.serve.routes import Resource

_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")
REFERENCE = "#/components/schemas/{name}"


Schemas = Mapping[Any, dict[str, Any]]  # of each type; most are references to a component


def document(resources: Iterable[Resource], version: str) -> dict[str, Any]:
    """The document for these resources."""
    listed = list(resources)
    types = list(
        dict.fromkeys(
            kind for one in listed for kind in (one.answer, one.body, one.query, Failure) if kind
        )
    )
    found, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schemas = dict(zip(types, found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        operation = _operation(one, schemas)
        if one.query is not None:
            operation["parameters"] += _query(
                components[schemas[one.query]["$ref"].rpartition("/")[2]]
            )
        paths.setdefault(_PARAMETER.sub(r"{\1}", one.full_path), {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermetic console", "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `hermetic serve token`.",
                }
            },
        },
    }


def _operation(one: Resource, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": one.summary,
        "operationId": f"{one.method.lower()}_{re.sub(r'[^a-z]+', '_', one.path).strip('_')}",
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(one.full_path)
        ],
        "responses": {
            "204" if one.answer is None and one.method != "GET" else "200": _success(one, schemas),
            "default": {"description": "Refused.", "content": _content(schemas[Failure])},
        },
        "x-scope": one.scope,
    }
    if one.scope is not None:
        operation["security"] = [{"bearer": []}]
    if one.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(schemas[one.body])}
    return operation


def _success(one: Resource, schemas: Schemas) -> dict[str, Any]:
    if one.answer is None:
        return {"description": "Done." if one.method != "GET" else "Bytes or text."}
    return {"description": "The answer.", "content": _content(schemas[one.answer])}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _query(shape: dict[str, Any]) -> list[dict[str, Any]]:
    required = shape.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in shape["properties"].items()
    ]
