"""A file format of one's own: `name: value` lines, the cards of a box separated by lines of dashes."""

from contextlib import contextmanager

import pyarrow as pa

from dpgm.data.formats.base import Format
from dpgm.data.formats.opening import open_bytes
from dpgm.data.stream import Chunk, RowStream
from dpgm.data.values import numbered
from dpgm.errors import InputError


class CardBox(Format):
    writes = "stream"

    def stream(self, source, options, draft=None):
        with open_bytes(source) as file:
            lines = [line.strip() for line in file.read().decode().splitlines()]
        schema = pa.schema([(name, pa.string()) for name in lines[0].removeprefix("box of ").split(", ")])
        card, cards = {}, {}
        for number, line in enumerate(lines[1:], start=2):
            name, colon, value = line.partition(":")
            if line == "---":
                card = cards[number] = {}
            elif not colon or name not in schema.names:
                raise InputError(f"{source}: line {number}: is no `name: value` of the box; correct it.")
            card[name] = value.strip()
        place = numbered(f"{source}: card in line", list(cards))
        table = pa.Table.from_pylist(list(cards.values()), schema=schema)
        return RowStream(str(source), schema, lambda readers: iter([Chunk(table, place)]))

    @contextmanager
    def writer(self, target, written):
        target.write(f"box of {', '.join(written.schema.names)}\n".encode())
        yield lambda records, first: target.writelines(map(_lines, written.cells(records, first).to_pylist()))


def _lines(card):
    return "".join(["---\n", *(f"{name}: {'' if one is None else one}\n" for name, one in card.items())]).encode()
