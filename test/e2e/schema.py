"""As much of JSON Schema and OpenAPI 3.1 as docs/openapi.json uses. Standard library only."""
import json
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "const", "oneOf", "anyOf", "not",
         "writeOnly", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "maxProperties",
         "description", "default", "format", "contentMediaType", "contentSchema"}


class Document:
    def __init__(self, text):
        self.root = json.loads(text)

    def at(self, ref):
        """What a reference leads to; KeyError when nothing is there."""
        here = self.root
        if not ref.startswith("#/"):
            raise KeyError(ref)
        for part in ref[2:].split("/"):
            here = here[part.replace("~1", "/").replace("~0", "~")]
        return here

    def plain(self, value):
        """The object itself, behind its references."""
        while isinstance(value, dict) and "$ref" in value:
            value = self.at(value["$ref"])
        return value

    def faults(self, schema, value, where="$"):
        """What is wrong with a value, as sentences. An object that lists its properties has no others: so the
        test finds fields that nobody described."""
        return list(self._faults(schema, value, where))

    def _faults(self, schema, value, where):
        if "$ref" in schema:
            yield from self._faults(self.at(schema["$ref"]), value, where)
        if "type" in schema and not self._is(schema["type"], value):
            yield "%s is %r, not %s" % (where, value, schema["type"])
            return
        if "const" in schema and value != schema["const"]:
            yield "%s is %r, not %r" % (where, value, schema["const"])
        if "enum" in schema and value not in schema["enum"]:
            yield "%s is %r, not one of %s" % (where, value, schema["enum"])
        if "not" in schema and not self.faults(schema["not"], value, where):
            yield "%s is what it must not be" % where
        for word, most in (("oneOf", 1), ("anyOf", 99)):
            if word in schema:
                wrong = [self.faults(one, value, where) for one in schema[word]]
                if not 1 <= wrong.count([]) <= most:
                    yield "%s fits %d of %s: %s" % (where, wrong.count([]), word, min(wrong, key=len))
        yield from self._bounds(schema, value, where)
        if isinstance(value, dict):
            yield from self._members(schema, value, where)
        if isinstance(value, list) and "items" in schema:
            for place, one in enumerate(value):
                yield from self._faults(schema["items"], one, "%s[%d]" % (where, place))

    @staticmethod
    def _is(kinds, value):
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if kind == "number" and number or kind == "integer" and number and value == int(value):
                return True
            if kind in TYPES and isinstance(value, TYPES[kind]):
                return True
        return False

    @staticmethod
    def _bounds(schema, value, where):
        sized = value if isinstance(value, (str, list, dict)) else ()
        number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        for least, most, have in (("minimum", "maximum", number), ("minLength", "maxLength", len(sized)),
                                  ("minItems", "maxItems", len(sized)), ("", "maxProperties", len(sized))):
            if have is not None and (have < schema.get(least, have) or have > schema.get(most, have)):
                yield "%s: %s is out of bounds" % (where, value)
        if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
            yield "%s: %r does not match %s" % (where, value, schema["pattern"])

    def _members(self, schema, value, where):
        for name in schema.get("required", ()):
            if name not in value:
                yield "%s.%s is missing" % (where, name)
        known = schema.get("properties")
        others = schema.get("additionalProperties", known is None)
        for name, one in value.items():
            if known is not None and name in known:
                yield from self._faults(known[name], one, "%s.%s" % (where, name))
            elif others is False:
                yield "%s.%s is not described" % (where, name)
            elif isinstance(others, dict):
                yield from self._faults(others, one, "%s.%s" % (where, name))

    def odd_words(self, schema, where):
        """Words of a schema that are not understood here, wherever they stand in it."""
        if not isinstance(schema, dict):
            return ["%s is no schema" % where]
        odd = ["%s: %s" % (where, word) for word in schema if word not in KNOWN]
        for name, one in schema.get("properties", {}).items():
            odd += self.odd_words(one, "%s.%s" % (where, name))
        odd += ["%s: %s is required but not described" % (where, name) for name in schema.get("required", ())
                if name not in schema.get("properties", {})]
        for word in ("items", "additionalProperties", "not"):
            if isinstance(schema.get(word), dict):
                odd += self.odd_words(schema[word], "%s.%s" % (where, word))
        for word in ("oneOf", "anyOf"):
            for place, one in enumerate(schema.get(word, ())):
                odd += self.odd_words(one, "%s.%s[%d]" % (where, word, place))
        return odd


def refs(value):
    """Every reference in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = value.values()
    elif not isinstance(value, list):
        return
    for one in value:
        yield from refs(one)
