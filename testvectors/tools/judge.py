#!/usr/bin/env python3
"""A second receiver for the vectors beside this folder, in plain Python.

It was written from NPAMP-DISC, RFC 8949 and the key tables, not from the Go
packages, and shares no code and no data with them: tables, reader, writer and
JSON form are here. It needs Python 3.8 and nothing else, reads

    python3 judge.py [folder of data]

and prints each vector on which it disagrees with the file: verdict, code, rule,
offset, path, corr, reply, message, skipped records; where `canonical` is set it
also writes the message and compares the octets. The exit status is 1 if there
was any, and the last line says how much was compared.

Reading it is a way to learn what a receiver has to do, in the order in which it
has to be done: see judge().
"""
import json
import pathlib
import struct
import sys

QUERY, RESULT, ERROR, ANNOUNCE, SUBSCRIBE, UPDATE, UNSUBSCRIBE = range(0x100, 0x107)
UINT, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE = range(8)
MAX_DEPTH = 8
MAX_ENTRIES = MAX_PREFIX = MAX_CURSOR = 1024  # this project's limits, not the protocol's


class Fault(Exception):
    def __init__(self, rule, offset, path=None, code=1):
        self.rule, self.offset, self.path, self.code = rule, offset, path, code


class Item:
    """One data item: b[start:end], its major type, and what it holds."""

    def __init__(self, major, start):
        self.major, self.start, self.end = major, start, start
        self.value = None  # int, bytes, list of Item, list of (Item, Item)


# ---- reading: strict, and well-formed only ------------------------------------------------------

def head(b, i):
    """The head at b[i]: major type, argument or None if indefinite, index after it, shortest?"""
    if i >= len(b):
        raise Fault("truncated", i)
    major, info = b[i] >> 5, b[i] & 31
    if info < 24:
        return major, info, i + 1, True
    if info < 28:
        size = 1 << (info - 24)
        if i + 1 + size > len(b):
            raise Fault("truncated", i)
        value = int.from_bytes(b[i + 1:i + 1 + size], "big")
        shortest = value >= (24, 1 << 8, 1 << 16, 1 << 32)[info - 24]
        return major, value, i + 1 + size, shortest
    if info == 31:
        if major in (UINT, NEGATIVE, TAG):
            raise Fault("indefinite", i)
        return major, None, i + 1, True
    raise Fault("simple-value" if major == SIMPLE else "shortest-form", i)


def read(b, i, depth, generation):
    """The item at b[i], deterministically encoded (RFC 8949 4.2.1)."""
    item = Item(b[i] >> 5 if i < len(b) else None, i)
    major, argument, at, shortest = head(b, i)
    if major == SIMPLE:
        item.end = at
        item.value = simple(b, i, at, argument, generation)
        return item
    if argument is None:
        raise Fault("indefinite", i)
    if not shortest:
        raise Fault("shortest-form", i)
    if major in (UINT, NEGATIVE):
        item.value, item.end = (argument if major == UINT else -1 - argument), at
        return item
    if major in (BYTES, TEXT):
        if argument > len(b) - at:
            raise Fault("truncated", i)
        item.value, item.end = b[at:at + argument], at + argument
        if major == TEXT:
            try:
                item.value.decode("utf-8")
            except UnicodeDecodeError:
                raise Fault("utf8", i)
        return item
    if depth > MAX_DEPTH:
        raise Fault("depth", i)
    if major == TAG:
        if generation == 3:
            raise Fault("wrong-type", i)
        content = member(b, i, at, depth, generation)
        if argument in (2, 3) and content.major == BYTES and (len(content.value) <= 8 or content.value[0] == 0):
            raise Fault("shortest-form", i)
        item.value, item.end = content, content.end
        return item
    item.value = []
    previous = b""
    for _ in range(min(argument, len(b) + 1)):
        first = member(b, i, at, depth, generation)
        at = first.end
        if major == ARRAY:
            item.value.append(first)
            continue
        key = b[first.start:first.end]
        if key == previous:
            raise Fault("duplicate-key", first.start)
        if key < previous:
            raise Fault("key-order", first.start)
        previous = key
        second = member(b, i, at, depth, generation)
        at = second.end
        item.value.append((first, second))
    item.end = at
    return item


def member(b, parent, at, depth, generation):
    """The item at b[at] inside the one at b[parent], which is cut short if there is none."""
    if at == len(b):
        raise Fault("truncated", parent)
    return read(b, at, depth + 1, generation)


def simple(b, i, at, argument, generation):
    info = b[i] & 31
    if info == 31:
        raise Fault("indefinite", i)  # a break
    if info < 24:
        return {20: False, 21: True}.get(info, ("simple", info))
    if info == 24:
        if argument < 32:
            raise Fault("simple-value", i)
        return ("simple", argument)
    if generation == 3:
        raise Fault("float-form", i)
    octets = b[i + 1:at]
    half, single, double = ">e", ">f", ">d"
    value = struct.unpack({2: half, 4: single, 8: double}[len(octets)], octets)[0]
    if value != value:
        if octets != b"\x7e\x00":
            raise Fault("float-form", i)
    else:
        for form in (half, single):
            if struct.calcsize(form) < len(octets) and fits(form, value):
                raise Fault("float-form", i)
    return ("float", value)


def fits(form, value):
    try:
        return struct.unpack(form, struct.pack(form, value))[0] == value
    except OverflowError:
        return False


def loose(b, i, depth=1):
    """The item at b[i] if it is well-formed (RFC 8949 1.2), deterministic or not."""
    item = Item(b[i] >> 5 if i < len(b) else None, i)
    major, argument, at, _ = head(b, i)
    item.value = argument
    if major in (UINT, NEGATIVE):
        pass
    elif major == SIMPLE:
        if argument is None or b[i] & 31 == 24 and argument < 32:
            raise Fault("simple-value", i)
    elif major in (BYTES, TEXT) and argument is not None:
        if argument > len(b) - at:
            raise Fault("truncated", i)
        item.value, at = b[at:at + argument], at + argument
    elif major in (BYTES, TEXT):
        while b[at:at + 1] != b"\xff":
            chunk, size, start, _ = head(b, at)
            if chunk != major or size is None or size > len(b) - start:
                raise Fault("indefinite", at)
            at = start + size
        at += 1
    else:
        if depth > MAX_DEPTH:
            raise Fault("depth", i)
        members = []
        count = 1 if major == TAG else argument if major == ARRAY or argument is None else 2 * argument
        while count is None and b[at:at + 1] != b"\xff" or count is not None and len(members) < count:
            members.append(loose(b, at, depth + 1))
            at = members[-1].end
        if count is None:
            if major == MAP and len(members) % 2:
                raise Fault("indefinite", at)
            at += 1
        item.value = list(zip(members[::2], members[1::2])) if major == MAP else members
    item.end = at
    return item


def find_corr(b):
    """The corr to echo: that of a well-formed map with exactly one key 1, if it is usable."""
    try:
        top = loose(b, 0)
    except Fault:
        return None
    if top.major != MAP:
        return None
    found = [value for key, value in top.value if key.major == UINT and key.value == 1]
    if len(found) != 1 or found[0].major != BYTES or found[0].value is None:
        return None
    return found[0].value if 1 <= len(found[0].value) <= 64 else None


# ---- the key tables -----------------------------------------------------------------------------
# A type is (name, least, most): of a uint the value, of a string its octets, of an array its count.

NO_BOUND = 1 << 64
uint, text, octets = ("uint", 0, NO_BOUND), ("text", 0, NO_BOUND), ("bytes", 0, NO_BOUND)
boolean, octet, reference = ("bool", 0, 0), ("uint", 0, 255), ("bytes", 1, 32)


def array(of, least=0):
    return ("array", least, NO_BOUND, of)


BODIES = {  # kind: (key, name, required, type)
    1: [(0, "protocol_id", True, octet), (1, "carriage_class", True, uint), (2, "channels", False, array(uint)),
        (3, "content_types", False, array(uint)), (4, "methods", False, array(text))],
    2: [(0, "carriage_class", True, uint), (1, "content_types", False, array(uint))],
    3: [(0, "name", True, text), (1, "protocol_id", True, octet), (2, "effect", False, uint),
        (3, "schema_ref", False, text)],
    4: [(0, "agent_id", True, ("bytes", 1, 64)), (1, "protocols", True, array(uint, 1)),
        (2, "tools", False, array(reference))],
}
KINDS = {1: "protocol", 2: "carriage_class", 3: "tool", 4: "agent"}
EFFECTS = {0: "read_only", 1: "idempotent_write", 2: "non_idempotent_write", 3: "destructive"}
RECORD = [(0, "record_id", True, reference), (1, "kind", True, uint), (2, "revision", True, uint),
          (3, "label", False, text), (4, "body", True, ("body", 0, 0))]
records = array(("record", 0, 0))
KIND, CORR = (0, "frame_kind", True, uint), (1, "corr", True, ("bytes", 1, 64))
NO_CORR = (1, "corr", False, ("bytes", 1, 64))
FILTER = [(2, "kinds", False, array(uint)), (3, "protocol_ids", False, array(uint)), (4, "name_prefix", False, text)]
PAYLOADS = {
    QUERY: [KIND, CORR] + FILTER + [(5, "tolerant", False, boolean), (6, "cursor", False, octets)],
    RESULT: [KIND, CORR, (2, "records", True, records), (3, "complete", True, boolean), (4, "cursor", False, octets)],
    ERROR: [KIND, NO_CORR, (2, "code", True, uint), (3, "reason", False, text)],
    ANNOUNCE: [KIND, NO_CORR, (2, "records", True, records)],
    SUBSCRIBE: [KIND, CORR] + FILTER,
    UPDATE: [KIND, CORR, (2, "added", False, records), (3, "withdrawn", False, array(reference))],
    UNSUBSCRIBE: [KIND, CORR],
}


def join(path, name):
    return path + "." + name if path else name


def fields(item, table, path):
    """Checks a map's keys, then what is missing; returns the values by name."""
    for key, _ in item.value:
        if key.major == NEGATIVE:
            raise Fault("negative-key", key.start, join(path, str(key.value)))
        if key.major != UINT:
            raise Fault("key-type", key.start, path)
    values = {key.value: value for key, value in item.value}
    for key, name, required, _ in table:
        if required and key not in values:
            raise Fault("missing", item.start, join(path, name))
    return {name: values[key] for key, name, _, _ in table if key in values}


def check(item, kind, path, skipped):
    """Holds an item to its type, and a record to its table."""
    name, least, most = kind[:3]
    wanted = {"uint": UINT, "text": TEXT, "bytes": BYTES, "bool": SIMPLE, "array": ARRAY}.get(name, MAP)
    if item.major != wanted or name == "bool" and item.value not in (False, True):
        raise Fault("wrong-type", item.start, path)
    if name in ("bool", "body"):
        return
    if name == "record":
        check_record(item, path, skipped)
        return
    size = item.value if name == "uint" else len(item.value)
    if size < least:
        raise Fault("empty", item.start, path)
    if size > most:
        raise Fault("range", item.start, path)
    if name == "array":
        for n, element in enumerate(item.value):
            check(element, kind[3], "%s[%d]" % (path, n), skipped)


def check_record(item, path, skipped):
    values = fields(item, RECORD, path)
    for _, name, _, kind in RECORD:
        if name in values:
            check(values[name], kind, join(path, name), skipped)
    table = BODIES.get(values["kind"].value)
    if table is None:
        skipped.append((values["record_id"], values["kind"], join(path, "kind")))
        return
    body = fields(values["body"], table, join(path, "body"))
    for _, name, _, kind in table:
        if name in body:
            check(body[name], kind, join(join(path, "body"), name), skipped)


# ---- the verdict --------------------------------------------------------------------------------

def judge(b, frame_type, generation, tolerant):
    """The message and the skipped records of a payload, or a Fault. The order is the protocol's."""
    if b and b[0] >> 5 != MAP:
        raise Fault("not-a-map", 0, "")
    # 1. The encoding of the whole payload, whatever it means.
    top = read(b, 0, 1, generation)
    if top.end != len(b):
        raise Fault("trailing", top.end, "")
    # 2. frame_kind, which must be the header's frame type.
    values = {key.value: value for key, value in top.value if key.major == UINT}
    if 0 not in values:
        raise Fault("missing", 0, "frame_kind")
    check(values[0], uint, "frame_kind", [])
    if values[0].value != frame_type:
        raise Fault("kind-mismatch", values[0].start, "frame_kind", code=2)
    # 3. corr.
    table = PAYLOADS[frame_type]
    if 1 in values:
        check(values[1], table[1][3], "corr", [])
    elif table[1][2]:
        raise Fault("missing", 0, "corr")
    # 4. Keys, what is missing, types and printed bounds.
    named = fields(top, table, "")
    skipped = []
    for _, name, _, kind in table:
        if name in named:
            check(named[name], kind, name, skipped)
    # 5. What holds between fields, and limits.
    if frame_type in (QUERY, SUBSCRIBE):
        for name, most in (("kinds", MAX_ENTRIES), ("protocol_ids", MAX_ENTRIES), ("name_prefix", MAX_PREFIX)):
            if name in named and len(named[name].value) > most:
                raise Fault("limit", named[name].start, name)
    if frame_type == RESULT and not named["complete"].value:
        if "cursor" not in named:
            raise Fault("missing", 0, "cursor")
        if len(named["cursor"].value) > MAX_CURSOR:
            raise Fault("limit", named["cursor"].start, "cursor")
    if frame_type == UPDATE and not any(named[n].value for n in ("added", "withdrawn") if n in named):
        raise Fault("empty", 0, "")
    # 6. Record kinds: only a RESULT that nobody asked to be tolerant fails for them.
    if skipped and frame_type == RESULT and not tolerant:
        raise Fault("record-kind", skipped[0][1].start, skipped[0][2], code=3)
    left_out = {id(record_id) for record_id, _, _ in skipped}
    message = {}
    for _, name, _, kind in table:
        if name not in named or left_unsaid(frame_type, name, named):
            continue
        message[name] = plain(named[name], kind, name, b, left_out)
    return message, [{"record_id": r.value.hex(), "kind": number(k.value)} for r, k, _ in skipped]


def left_unsaid(frame_type, name, named):
    """A cursor where complete is true, and an empty array of an UPDATE, mean nothing."""
    return frame_type == RESULT and name == "cursor" and named["complete"].value or \
        frame_type == UPDATE and name in ("added", "withdrawn") and not named[name].value


# ---- the JSON form ------------------------------------------------------------------------------

def number(n):
    return n if n <= 1 << 53 else str(n)


def plain(item, kind, name, b, left_out):
    if kind[0] == "record":
        return record_json(item, b)
    if kind[0] == "array":
        return [plain(e, kind[3], name, b, left_out) for e in item.value
                if kind[3][0] != "record" or id(e.value[0][1]) not in left_out]
    if kind[0] == "text":
        return item.value.decode("utf-8")
    if kind[0] == "bytes":
        return item.value.hex()
    return item.value if kind[0] == "bool" else number(item.value)


def record_json(item, b):
    values = {key.value: value for key, value in item.value}
    out = {}
    for key, name, _, kind in RECORD:
        if key not in values:
            continue
        value = values[key]
        if name == "kind":
            out[name] = KINDS[value.value]
        elif name == "revision":
            out[name] = str(value.value)
        elif name == "body":
            out[name] = body_json(value, BODIES[values[1].value], b)
        else:
            out[name] = plain(value, kind, name, b, set())
    return add_extra(out, item, RECORD, b)


def body_json(item, table, b):
    values = {key.value: value for key, value in item.value}
    out = {}
    for key, name, _, kind in table:
        if key in values:
            out[name] = plain(values[key], kind, name, b, set())
            if name == "effect":
                out[name] = EFFECTS.get(out[name], out[name])
    return add_extra(out, item, table, b)


def add_extra(out, item, table, b):
    known = {key for key, _, _, _ in table}
    extra = {str(key.value): b[value.start:value.end].hex() for key, value in item.value if key.value not in known}
    if extra:
        out["extra"] = extra
    return out


# ---- writing ------------------------------------------------------------------------------------

def put_head(major, n):
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << 8 * size:
            return bytes([major << 5 | info]) + n.to_bytes(size, "big")
    raise ValueError(n)


def put(value, kind):
    """The encoding of a value in JSON form."""
    if kind[0] == "uint":
        return put_head(UINT, int(value))
    if kind[0] == "bool":
        return b"\xf5" if value else b"\xf4"
    if kind[0] in ("text", "bytes"):
        raw = value.encode() if kind[0] == "text" else bytes.fromhex(value)
        return put_head(TEXT if kind[0] == "text" else BYTES, len(raw)) + raw
    if kind[0] == "array":
        return put_head(ARRAY, len(value)) + b"".join(put(v, kind[3]) for v in value)
    value = dict(value, kind=by_name(KINDS, value["kind"]))
    return put_map(value, RECORD, BODIES[value["kind"]])


def by_name(names, value):
    """The number of a kind or an effect that may be given by name."""
    return {name: n for n, name in names.items()}.get(value, value)


def put_map(value, table, body=None):
    pairs = []
    for key, name, _, kind in table:
        if name in value:
            v = by_name(EFFECTS, value[name]) if name == "effect" else value[name]
            pairs.append((put_head(UINT, key), put_map(v, body) if kind[0] == "body" else put(v, kind)))
    pairs += [(put_head(UINT, int(key)), bytes.fromhex(v)) for key, v in value.get("extra", {}).items()]
    pairs.sort()
    return put_head(MAP, len(pairs)) + b"".join(key + v for key, v in pairs)


def encode(message):
    return put_map(message, PAYLOADS[message["frame_kind"]])


# ---- paths of faults in the encoding ------------------------------------------------------------

def path_of(b, frame_type, offset):
    """The path of the item that holds b[offset], in a payload that need not be well-formed."""
    out = ""
    i, table, kind, depth = 0, PAYLOADS[frame_type], None, 1

    def end(at):
        try:
            return loose(b, at, depth).end
        except Fault:
            return len(b)
    while True:
        try:
            major, argument, at, _ = head(b, i)
        except Fault:
            return out
        if offset < at or depth > MAX_DEPTH + 1 or major not in (ARRAY, MAP, TAG):
            return out
        depth += 1
        if major == TAG:
            i, table, kind = at, None, None
            continue
        n, seen = 0, {}
        while at < len(b) and (argument is None or n < argument):
            start, key = at, None
            at = end(at)
            if major == MAP:
                try:
                    key = head(b, start)
                except Fault:
                    key = (None, None)
                value = at
                at = end(at)
                try:
                    seen[key[1]] = head(b, value)[1]
                except Fault:
                    pass
            if offset < at:
                break
            n += 1
        else:
            return out
        if major == ARRAY:
            out += "[%d]" % n
            i = start
            kind = kind[3] if kind and kind[0] == "array" else None
            table = RECORD if kind and kind[0] == "record" else None
            continue
        if key[0] not in (UINT, NEGATIVE):
            return out
        known = [f for f in table or () if key[0] == UINT and f[0] == key[1]]
        kind = known[0][3] if known else None
        out = join(out, known[0][1] if known else str(key[1] if key[0] == UINT else -1 - key[1]))
        if offset < value:
            return out
        i = value
        table = BODIES.get(seen.get(1), []) if kind and kind[0] == "body" else None


# ---- comparing ----------------------------------------------------------------------------------

def verdict(v, generation):
    b = bytes.fromhex(v["octets"])
    frame_type = v["frame_type"]
    try:
        message, skipped = judge(b, frame_type, generation, v.get("tolerant", False))
        return {"ok": True, "message": message, "skipped": skipped}
    except Fault as f:
        corr = find_corr(b)
        answered = frame_type in (QUERY, SUBSCRIBE)
        return {"ok": False, "code": f.code, "rule": f.rule, "offset": f.offset,
                "path": path_of(b, frame_type, f.offset) if f.path is None else f.path,
                "reply": "none" if not answered else "uncorrelated" if corr is None else "error",
                "corr": corr.hex() if corr is not None else None}


def main(folder):
    compared = wrong = written = 0

    def differ(name, what, mine, theirs):
        nonlocal wrong
        wrong += 1
        print("%s: %s: %s here, %s in the file" % (name, what, mine, theirs))
    for path in sorted((folder / "payload").glob("*.json")):
        for v in json.loads(path.read_text())["vectors"]:
            for generation in v["generations"]:
                compared += 1
                mine, theirs = verdict(v, generation), v["expect"]
                for key in theirs:
                    if mine.get(key, "nothing") != theirs[key]:
                        differ("%s, generation %d" % (v["name"], generation), key, mine.get(key), theirs[key])
            if v.get("canonical"):
                written += 1
                out = encode(v["expect"]["message"]).hex()
                if out != v["octets"]:
                    differ(v["name"], "encoding", out, v["octets"])
    for path in sorted((folder / "encode").glob("*.json")):
        for v in json.loads(path.read_text())["vectors"]:
            if v["expect"]["ok"]:
                written += 1
                m = dict(v["message"])
                for name in ("kinds", "protocol_ids"):
                    if name in m:
                        m[name] = sorted(set(m[name]))
                if encode(m).hex() != v["expect"]["octets"]:
                    differ(v["name"], "encoding", encode(m).hex(), v["expect"]["octets"])
    for path in sorted((folder / "exchange").glob("*.json")):
        for x in json.loads(path.read_text())["exchanges"]:
            for n, step in enumerate(x["steps"]):
                for record in step.get("set", []) + step.get("change", {}).get("put", []):
                    check_record(read(bytes.fromhex(record), 0, 3, 3), "", [])
                if step.get("frame_type") not in PAYLOADS:
                    continue
                v = {"octets": step["payload"], "frame_type": step["frame_type"], "tolerant": True}
                for generation in (2, 3):
                    compared += 1
                    mine = verdict(v, generation)
                    if mine.get("code") != step.get("fault"):
                        differ("%s, step %d" % (x["name"], n), "code", mine.get("code"), step.get("fault"))
    print("%d verdicts compared, %d messages written, %d differences" % (compared, written, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parent.parent / "data"
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default))
