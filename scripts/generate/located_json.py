# SPDX-License-Identifier: MIT
"""JSON whose objects and arrays know the lines on which their values stand, for messages like FILE:LINE."""

import json
import json.decoder
import json.scanner


class SpecError(Exception):
    def __init__(self, line, message):
        super().__init__(message)
        self.line = line


class Object(dict):
    """A JSON object that knows its line and the line of each value."""


class Array(list):
    """A JSON array that knows its line and the line of each item."""


class LineDecoder(json.JSONDecoder):
    """The standard decoder, with line numbers kept and duplicate keys refused."""

    def __init__(self):
        super().__init__()
        self.parse_object = self._object
        self.parse_array = self._array
        self.scan_once = json.scanner.py_make_scanner(self)

    @staticmethod
    def _line(text, index):
        return text.count("\n", 0, index) + 1

    def _watch(self, scan_once, lines):
        def scan(text, index):
            lines.append(self._line(text, index))
            return scan_once(text, index)

        return scan

    def _object(self, where, strict, scan_once, _hook, _pairs_hook, memo):
        text, start = where
        lines = []
        pairs, end = json.decoder.JSONObject(where, strict, self._watch(scan_once, lines), None, list, memo)
        result = Object()
        result.line = self._line(text, start)
        result.lines = {}
        # An empty object comes back as the hook's empty list: no pairs either way.
        for (key, value), line in zip(pairs, lines):
            if key in result:
                raise SpecError(line, f"duplicate key '{key}'")
            result[key] = value
            result.lines[key] = line
        return result, end

    def _array(self, where, scan_once):
        text, start = where
        lines = []
        values, end = json.decoder.JSONArray(where, self._watch(scan_once, lines))
        result = Array(values)
        result.line = self._line(text, start)
        result.lines = lines
        return result, end
