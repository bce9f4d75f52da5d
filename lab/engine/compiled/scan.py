"""Lines of JSON or CSV into typed values, in one pass over their bytes.

      {"id": 7, "order": {"total": 21.5, "note": "x\\u0041", "more": [..]}}
       ──────►  a member's name is looked up among those that the schema expects in this object:
                a field is read in its type, an object around fields is entered, anything else is skipped

      7,2013-01-01 00:00:00,,21.5
       ──────►  each cell is read in the type of its field, of which it has the number

A line is left unread here, for `Schema.events` to read or to refuse, as soon as it has anything unusual: names with escapes,
members that come twice, cells in quotes, numbers that a field does not take, texts that are not valid Unicode, anything that
is neither JSON nor CSV.
What is read here has the value that `Schema.events` gives. Each byte is looked at once, or a bounded number of times.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from lab.model.jsontext import MAX_DEPTH, MAX_LINE_BYTES
from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS

INTEGER, DECIMAL, TEXT, BOOLEAN, TIME_NUMBER, TIME_TEXT, DATE_OR_TIME_TEXT = range(7)  # kinds of values
ABSENT, PRESENT, NOT_A_NUMBER = 0, 1, 2  # states of a field in a row
FAILED = -1  # in place of a position: leave the line

QUOTE, BACKSLASH, COMMA, COLON, MINUS, PLUS, POINT = (ord(each) for each in '"\\,:-+.')
ZERO, NINE, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = (ord(each) for each in "09{}[]")
BLANK, TAB, SMALL_E, LARGE_E, SMALL_U = (ord(each) for each in " \teEu")
LARGE_T, LARGE_Z = ord("T"), ord("Z")
BYTE_ORDER_MARK = 0xEF  # its first byte; that of some other characters, too
TIME_TEXT_SIZES = (len("2013-01-01 00:00:00"), len("2013-01-01 00:00:00.000"))
NULL, TRUE, FALSE, NAN, INFINITY = (
    np.frombuffer(each, np.uint8) for each in (b"null", b"true", b"false", b"NaN", b"Infinity")
)
SIMPLE_ESCAPES = np.zeros(256, np.uint8)  # the character behind a backslash -> what both mean
for _escape, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    SIMPLE_ESCAPES[_escape] = _meaning

LARGEST = (1 << 63) - 1
MOST_DIGITS = 19  # of a number; any of them fit 64 bits without a sign

# records, whose fields have names also where nothing is compiled
MEMBER = np.dtype(
    (
        np.record,
        [
            ("name", np.int64),  # where it begins in `Expected.names`
            ("size", np.int64),  # bytes of its name
            ("field", np.int64),  # the number of the field that is its value, or FAILED
            ("object", np.int64),  # that of the object around fields that is its value, or FAILED
        ],
    )
)
OBJECT = np.dtype(
    (np.record, [("first", np.int64), ("last", np.int64)])
)  # its members; `last` is behind them
FIELD = np.dtype(
    (
        np.record,
        [
            ("kind", np.int64),
            # of a text, the most bytes; longer ones are left, as they may have few characters
            # a number is kept times 10 to the power `kept`, below `most`; of `allowed` digits after the point the others are dropped
            ("kept", np.int64),
            ("allowed", np.int64),
            ("most", np.uint64),
            (
                "divisor",
                np.uint64,
            ),  # from a number so kept to the value: divided, rounded down, then multiplied
            ("multiplier", np.int64),
        ],
    )
)


class Expected(NamedTuple):
    """What records have, as a schema says. The record itself is object 0."""

    names: np.ndarray  # uint8: the members' names in UTF-8, one behind the other
    members: np.ndarray  # MEMBER
    objects: np.ndarray  # OBJECT
    fields: np.ndarray  # FIELD
    take_nan: bool  # NaN and the like are read as null
    take_objects: bool  # records may be JSON objects
    separator: int  # the byte between the cells of records that are CSV, FAILED if none may be
    long_time: int  # the field that is the event time as an integer, in CSV also as a text; FAILED if none is


class Values(NamedTuple):
    """What was read, for each field and row; of texts, where they stand. A size below 0: it has escapes."""

    numbers: np.ndarray  # int64
    starts: np.ndarray  # int64
    sizes: np.ndarray  # int32
    states: np.ndarray  # uint8


_njit = njit(cache=True, nogil=True, _nrt=False, forceinline=True)


@_njit
def skip_blanks(text, i, end):
    while i < end and (text[i] == BLANK or text[i] == TAB):
        i += 1
    return i


@_njit
def starts_with(text, i, end, word):
    """Whether a word stands at a position."""
    if end - i < len(word):
        return False
    for k in range(len(word)):
        if text[i + k] != word[k]:
            return False
    return True


@_njit
def after_utf8(text, i, end):
    """The position behind one character that is not ASCII, or FAILED: overlong forms and surrogates are no characters."""
    first = text[i]
    if first < 0xC2 or first > 0xF4:
        return FAILED
    more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    if end - i <= more:
        return FAILED
    least, most = 0x80, 0xBF
    if first == 0xE0:
        least = 0xA0
    elif first == 0xED:
        most = 0x9F
    elif first == 0xF0:
        least = 0x90
    elif first == 0xF4:
        most = 0x8F
    if text[i + 1] < least or text[i + 1] > most:
        return FAILED
    for k in range(2, more + 1):
        if text[i + k] < 0x80 or text[i + k] > 0xBF:
            return FAILED
    return i + more + 1


@_njit
def hex_number(text, i, end):
    """The number that four hexadecimal digits write, or FAILED."""
    if end - i < 4:
        return FAILED
    number = 0
    for k in range(4):
        digit = text[i + k]
        if ZERO <= digit <= NINE:
            digit -= ZERO
        elif 65 <= digit <= 70:
            digit -= 55
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            return FAILED
        number = number * 16 + digit
    return number


@_njit
def after_escape(text, i, end):
    """The position behind an escape, a pair of surrogates as one; FAILED if it writes no character."""
    if i + 1 >= end:
        return FAILED
    if text[i + 1] != SMALL_U:
        return i + 2 if SIMPLE_ESCAPES[text[i + 1]] else FAILED
    number = hex_number(text, i + 2, end)
    if number < 0 or 0xDC00 <= number <= 0xDFFF:
        return FAILED
    if number < 0xD800 or number > 0xDFFF:
        return i + 6
    if not (i + 7 < end and text[i + 6] == BACKSLASH and text[i + 7] == SMALL_U):
        return FAILED
    return i + 12 if 0xDC00 <= hex_number(text, i + 8, end) <= 0xDFFF else FAILED


@_njit
def closing_quote(text, i, end):
    """The position of the quote that ends a string, from behind its first one, or FAILED; and whether there are escapes."""
    has_escapes = False
    while i < end:
        byte = text[i]
        if byte == QUOTE:
            return i, has_escapes
        if byte == BACKSLASH:
            has_escapes = True
            i = after_escape(text, i, end)
        elif byte >= 0x80:
            i = after_utf8(text, i, end)
        elif byte < BLANK:
            return FAILED, False
        else:
            i += 1
        if i < 0:
            return FAILED, False
    return FAILED, False


@_njit
def after_number(text, i, end):
    """The position behind a number as JSON writes it, or FAILED."""
    if i < end and text[i] == MINUS:
        i += 1
    begin = i
    while i < end and ZERO <= text[i] <= NINE:
        i += 1
    if i == begin or (text[begin] == ZERO and i > begin + 1):
        return FAILED
    if i < end and text[i] == POINT:
        begin = i = i + 1
        while i < end and ZERO <= text[i] <= NINE:
            i += 1
        if i == begin:
            return FAILED
    if i < end and (text[i] == SMALL_E or text[i] == LARGE_E):
        i += 1
        if i < end and (text[i] == MINUS or text[i] == PLUS):
            i += 1
        begin = i
        while i < end and ZERO <= text[i] <= NINE:
            i += 1
        if i == begin:
            return FAILED
    return i


@_njit
def integer(text, begin, end):
    """The integer of signed 64 bit that a number of JSON is, and whether it is one."""
    negative = text[begin] == MINUS
    first, value = (begin + 1 if negative else begin), np.uint64(0)
    if end - first > MOST_DIGITS:
        return 0, False
    for i in range(first, end):
        if text[i] > NINE or text[i] < ZERO:
            return 0, False
        value = value * np.uint64(10) + np.uint64(text[i] - ZERO)
    if value > np.uint64(LARGEST):
        return 0, False
    return (-np.int64(value) if negative else np.int64(value)), True


@_njit
def scaled(text, begin, end, kept, allowed, most):
    """A number of JSON without its sign, times 10 to the power `kept`, and whether it is one that the field takes.

    It has at most `allowed` digits after the point, of which those after `kept` are dropped, and so scaled it is below `most`.
    """
    ten, value, digits, fraction, after_point = np.uint64(10), np.uint64(0), 0, 0, False
    i = begin + 1 if text[begin] == MINUS else begin
    while i < end and text[i] != SMALL_E and text[i] != LARGE_E:
        if text[i] == POINT:
            after_point = True
        else:
            value = value * ten + np.uint64(text[i] - ZERO)
            digits += digits > 0 or text[i] != ZERO
            fraction += after_point
            if digits > MOST_DIGITS:
                return value, False
        i += 1
    if i < end:
        i += 1
        down = text[i] == MINUS
        if down or text[i] == PLUS:
            i += 1
        if end - i > 4:
            return value, False
        exponent = 0
        while i < end:
            exponent = exponent * 10 + (np.int64(text[i]) - ZERO)
            i += 1
        fraction += exponent if down else -exponent
    while value and fraction > kept:
        if fraction > allowed and value % ten:
            return value, False
        value //= ten
        fraction -= 1
    while value and fraction < kept:
        if value > (most - np.uint64(1)) // ten:
            return value, False
        value *= ten
        fraction += 1
    return value, value < most


@_njit
def two_digits(text, i):
    """The number that two digits write, or a number above 99."""
    tens, ones = np.int64(text[i]) - ZERO, np.int64(text[i + 1]) - ZERO
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else 100


@_njit
def days_of_date(text, i):
    """Days since 1970 of `yyyy-MM-dd`, from the year 1000, and whether it is a date."""
    year = two_digits(text, i) * 100 + two_digits(text, i + 2)
    month, day = two_digits(text, i + 5), two_digits(text, i + 8)
    if (
        not 1000 <= year <= 9999
        or text[i] == ZERO
        or two_digits(text, i) > 99
        or two_digits(text, i + 2) > 99
    ):
        return 0, False
    if text[i + 4] != MINUS or text[i + 7] != MINUS or not 1 <= month <= 12 or not 1 <= day <= 31:
        return 0, False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > (29 if leap else 28) and month == 2 or day == 31 and month in (4, 6, 9, 11):
        return 0, False
    year -= month <= 2  # so that a year ends with February
    days_before = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + days_before - 719_468, True


@_njit
def time_of_text(text, begin, end, with_zone):
    """ms since the epoch of a time of ISO 8601, and whether it is one: with its zone, or without, and then perhaps only a date."""
    if end - begin < 10:
        return 0, False
    days, is_date = days_of_date(text, begin)
    i = begin + 10
    if not is_date or i == end:
        return days * DAY_MS, is_date and not with_zone
    if end - i < 6 or (text[i] != LARGE_T and text[i] != BLANK) or text[i + 3] != COLON:
        return 0, False
    hour, minute, second, ms = two_digits(text, i + 1), two_digits(text, i + 4), 0, 0
    i += 6
    if i < end and text[i] == COLON:
        if end - i < 3:
            return 0, False
        second = two_digits(text, i + 1)
        i += 3
        if i < end and text[i] == POINT:
            first = i = i + 1
            while i < end and ZERO <= text[i] <= NINE:
                if i < first + 3:
                    ms = ms * 10 + (np.int64(text[i]) - ZERO)
                i += 1
            if not 1 <= i - first <= 9:
                return 0, False
            for _ in range(i - first, 3):
                ms *= 10
    if hour > 23 or minute > 59 or second > 59:
        return 0, False
    time = ((days * 24 + hour) * 60 + minute) * MINUTE_MS + second * 1000 + ms
    if not with_zone:
        return time, i == end
    offset, is_zone = zone_offset(text, i, end)
    return time - offset, is_zone


@_njit
def zone_offset(text, i, end):
    """ms that clocks of a zone are ahead: Z, ±HH, ±HHMM or ±HH:MM up to the end; and whether it is one."""
    size = end - i
    if size == 1 and text[i] == LARGE_Z:
        return 0, True
    if (
        size not in (3, 5, 6)
        or (text[i] != PLUS and text[i] != MINUS)
        or (size == 6 and text[i + 3] != COLON)
    ):
        return 0, False
    hours, minutes = two_digits(text, i + 1), 0
    if size > 3:
        minutes = two_digits(text, end - 2)
    if hours > 23 or minutes > 59:
        return 0, False
    offset = hours * HOUR_MS + minutes * MINUTE_MS
    return (-offset if text[i] == MINUS else offset), True


@_njit
def after_name(text, i, end):
    """The position of the value of a member, from that of its name, or FAILED."""
    if i >= end or text[i] != QUOTE:
        return FAILED
    i = closing_quote(text, i + 1, end)[0]
    return after_colon(text, i + 1, end) if i >= 0 else FAILED


@_njit
def after_colon(text, i, end):
    """The position of the value of a member, from behind its name, or FAILED."""
    i = skip_blanks(text, i, end)
    return skip_blanks(text, i + 1, end) if i < end and text[i] == COLON else FAILED


@_njit
def after_nan(text, i, end):
    """The position behind NaN, Infinity or -Infinity, which are not JSON but what many write; or FAILED."""
    if i < end and text[i] == MINUS:
        i += 1
    elif starts_with(text, i, end, NAN):
        return i + len(NAN)
    return i + len(INFINITY) if starts_with(text, i, end, INFINITY) else FAILED


@_njit
def after_literal(text, i, end, take_nan):
    """The position behind true, false, null, or NaN and the like if these are taken; or FAILED."""
    if starts_with(text, i, end, NULL) or starts_with(text, i, end, TRUE):
        return i + len(NULL)
    if starts_with(text, i, end, FALSE):
        return i + len(FALSE)
    return after_nan(text, i, end) if take_nan else FAILED


@_njit
def after_value(text, i, end, opened, deepest, take_nan):
    """The position behind any value of JSON, or FAILED. `opened`: room for the `deepest` objects and lists that may be open."""
    depth = 0
    while i < end:
        byte = text[i]
        if byte == QUOTE:
            i = closing_quote(text, i + 1, end)[0]
            if i < 0:
                return FAILED
            i += 1
        elif byte == OPEN or byte == OPEN_LIST:
            if depth == deepest:
                return FAILED
            opened[depth] = byte
            depth += 1
            i = skip_blanks(text, i + 1, end)
            if i < end and text[i] != byte + 2:  # the bracket that closes it
                if byte == OPEN:
                    i = after_name(text, i, end)
                    if i < 0:
                        return FAILED
                continue
        elif byte == MINUS and i + 1 < end and text[i + 1] == INFINITY[0]:
            i = after_literal(text, i, end, take_nan)
        elif byte == MINUS or ZERO <= byte <= NINE:
            i = after_number(text, i, end)
        else:
            i = after_literal(text, i, end, take_nan)
        if i < 0:
            return FAILED
        while depth:
            i = skip_blanks(text, i, end)
            if i >= end:
                return FAILED
            if text[i] == COMMA:
                i = skip_blanks(text, i + 1, end)
                if opened[depth - 1] == OPEN:
                    i = after_name(text, i, end)
                    if i < 0:
                        return FAILED
                break
            if text[i] != opened[depth - 1] + 2:
                return FAILED
            depth -= 1
            i += 1
        if not depth:
            return i
    return FAILED


@_njit
def behind_name(text, i, end, expected, number):
    """The position of the quote behind a member's name, if it stands there; or FAILED."""
    name, size = expected.members[number].name, expected.members[number].size
    if end - i <= size or text[i + size] != QUOTE:
        return FAILED
    for k in range(size):
        if text[i + k] != expected.names[name + k]:
            return FAILED
    return i + size


@_njit
def find_member(text, i, end, expected, object_, guess):
    """The number of the member of an object whose name stands there, or FAILED if none has it; and the quote behind the name.

    Members mostly come in one order: the guess is tried first.
    """
    first, last = expected.objects[object_].first, expected.objects[object_].last
    if guess < last:
        close = behind_name(text, i, end, expected, guess)
        if close != FAILED:
            return guess, close
    close, has_escapes = closing_quote(text, i, end)
    if close == FAILED or has_escapes:
        return FAILED, FAILED
    for number in range(first, last):
        if behind_name(text, i, end, expected, number) != FAILED:
            return number, close
    return FAILED, close


@_njit
def read_field(text, i, end, field, values, number, row):
    """Reads a field's value into its row; the position behind it, or FAILED."""
    if i >= end:
        return FAILED
    is_text = text[i] == QUOTE
    kind, begin = field.kind, i + is_text
    if text[i] == NULL[0]:
        return i + len(NULL) if starts_with(text, i, end, NULL) else FAILED
    if kind == TEXT or kind == BOOLEAN or kind == TIME_TEXT or kind == DATE_OR_TIME_TEXT:
        return read_text(text, i, end, field, values, number, row)
    behind = after_number(text, begin, end)
    if behind < 0 or (is_text and (kind == INTEGER or behind >= end or text[behind] != QUOTE)):
        return FAILED
    return behind + is_text if read_number(text, begin, behind, field, values, number, row) else FAILED


@_njit
def read_number(text, begin, behind, field, values, number, row):
    """Reads a number of JSON into its row; whether the field takes it."""
    kind = field.kind
    if kind == INTEGER:
        value, is_right = integer(text, begin, behind)
    else:
        size, is_right = scaled(text, begin, behind, field.kept, field.allowed, field.most)
        value = np.int64(size // field.divisor) * field.multiplier
        if text[begin] == MINUS:
            value = -value
            is_right = is_right and kind == DECIMAL  # times before 1970 round downwards, and are rare
    values.numbers[number, row] = value
    values.states[number, row] = PRESENT
    return is_right


@_njit
def read_text(text, i, end, field, values, number, row):
    """As `read_field`, for fields whose values are texts in JSON."""
    kind, begin, close, has_escapes = field.kind, i + 1, FAILED, False
    if text[i] == QUOTE:
        close, has_escapes = closing_quote(text, begin, end)
    elif kind == BOOLEAN:
        begin = i
        close = i + len(FALSE) if text[i] == FALSE[0] else i + len(TRUE)
    if close < 0 or (has_escapes and kind != TEXT) or (kind == TEXT and close - begin > field.most):
        return FAILED
    if kind == BOOLEAN:
        size = close - begin
        if not (
            (size == len(TRUE) and starts_with(text, begin, end, TRUE))
            or (size == len(FALSE) and starts_with(text, begin, end, FALSE))
        ):
            return FAILED
    elif kind != TEXT:
        time, is_time = time_of_text(text, begin, close, kind == TIME_TEXT)
        if not is_time:
            return FAILED
        values.numbers[number, row] = time
    values.starts[number, row] = begin
    values.sizes[number, row] = begin - close if has_escapes else close - begin
    values.states[number, row] = PRESENT
    return close + 1 if text[i] == QUOTE else close


@_njit
def read_cell(text, i, end, expected, values, number, row):
    """Reads a cell, which is not empty, into its row; whether it could."""
    field = expected.fields[number]
    kind = field.kind
    values.starts[number, row] = i
    values.sizes[number, row] = end - i
    values.states[number, row] = PRESENT
    if kind == TEXT:
        return end - i <= field.most
    if kind == BOOLEAN:
        is_true = end - i == len(TRUE) and starts_with(text, i, end, TRUE)
        return is_true or (end - i == len(FALSE) and starts_with(text, i, end, FALSE))
    if kind == TIME_TEXT or kind == DATE_OR_TIME_TEXT:
        values.numbers[number, row], is_time = time_of_text(text, i, end, kind == TIME_TEXT)
        return is_time
    if number == expected.long_time and end - i in TIME_TEXT_SIZES and text[i + 10] == BLANK:
        values.numbers[number, row], is_time = time_of_text(text, i, end, False)
        return is_time
    return after_number(text, i, end) == end and read_number(text, i, end, field, values, number, row)


@_njit
def scan_cells(text, i, end, row, expected, values):
    """Reads one line of CSV into its row; whether it could."""
    if i >= end or end - i > MAX_LINE_BYTES or text[i] <= BLANK or text[i] == BYTE_ORDER_MARK:
        return False
    separator, first = expected.separator, i
    for number in range(len(expected.fields)):
        begin = i
        while i < end and text[i] != separator:
            byte = text[i]
            if byte == QUOTE or (byte < BLANK and byte != TAB):
                return False
            i = after_utf8(text, i, end) if byte >= 0x80 else i + 1
            if i < 0:
                return False
        if i > begin and not read_cell(text, begin, i, expected, values, number, row):
            return False
        if i == end:
            return begin > first
        i += 1
    return False


@_njit
def scan_line(text, i, end, row, expected, values, seen, around, opened):
    """Reads one line into its row; whether it could. `seen`: the row in which a member came last, counted from 1."""
    if expected.separator != FAILED and i < end and text[i] != OPEN:
        return scan_cells(text, i, end, row, expected, values)
    if i >= end or end - i > MAX_LINE_BYTES or text[i] != OPEN or not expected.take_objects:
        return False
    i = skip_blanks(text, i + 1, end)
    depth, object_, guess, is_first = 0, 0, 0, True
    while i < end:
        if text[i] != CLOSE or not is_first:
            if text[i] != QUOTE:
                return False
            number, close = find_member(text, i + 1, end, expected, object_, guess)
            i = after_colon(text, close + 1, end) if close != FAILED else FAILED
            if i < 0 or i >= end:
                return False
            if number == FAILED:
                i = after_value(text, i, end, opened, MAX_DEPTH - 1 - depth, expected.take_nan)
            else:
                if seen[number] == row + 1:
                    return False
                seen[number] = row + 1
                guess = number + 1
                member = expected.members[number]
                if member.field != FAILED and expected.take_nan and is_nan(text, i, end):
                    values.states[member.field, row] = NOT_A_NUMBER
                    i = after_nan(text, i, end)
                elif member.field != FAILED:
                    field = expected.fields[member.field]
                    i = read_field(text, i, end, field, values, member.field, row)
                elif text[i] == OPEN and depth < MAX_DEPTH - 1:
                    around[depth] = object_
                    depth += 1
                    object_ = member.object
                    guess = expected.objects[object_].first
                    i = skip_blanks(text, i + 1, end)
                    is_first = True
                    continue
                else:
                    i = i + len(NULL) if starts_with(text, i, end, NULL) else FAILED
            if i < 0:
                return False
            i = skip_blanks(text, i, end)
        while i < end and text[i] == CLOSE:
            i = skip_blanks(text, i + 1, end)
            if depth == 0:
                return i == end
            depth -= 1
            object_ = around[depth]
            guess = expected.objects[object_].first
        if i >= end or text[i] != COMMA:
            return False
        i = skip_blanks(text, i + 1, end)
        is_first = False
    return False


@_njit
def is_nan(text, i, end):
    """Whether NaN or the like may stand there."""
    byte = text[i]
    return (
        byte == NAN[0]
        or byte == INFINITY[0]
        or (byte == MINUS and i + 1 < end and text[i + 1] == INFINITY[0])
    )


@_njit
def scan_lines(text, starts, ends, expected, values, read, seen, around, opened):
    """Reads lines, one a row, and says in `read` which rows could be read: in others, values are left open."""
    for row in range(len(starts)):
        read[row] = scan_line(text, starts[row], ends[row], row, expected, values, seen, around, opened)


@_njit
def copy_texts(text, starts, sizes, present, ends, copied):
    """Texts one behind the other as UTF-8; `ends[row + 1]` is where that of a row ends. A size below 0: with escapes."""
    at = 0
    for row in range(len(starts)):
        if present[row]:
            i, end = starts[row], starts[row] + abs(sizes[row])
            if sizes[row] >= 0:
                for k in range(i, end):
                    copied[at] = text[k]
                    at += 1
            while sizes[row] < 0 and i < end:
                if text[i] == BACKSLASH:
                    at = write_escaped(text, i, end, copied, at)
                    i = after_escape(text, i, end)
                else:
                    copied[at] = text[i]
                    at += 1
                    i += 1
        ends[row + 1] = at


@_njit
def write_escaped(text, i, end, copied, at):
    """Writes the character of an escape as UTF-8; the position behind it."""
    if text[i + 1] != SMALL_U:
        copied[at] = SIMPLE_ESCAPES[text[i + 1]]
        return at + 1
    number = hex_number(text, i + 2, end)
    if number >= 0xD800 and number <= 0xDFFF:
        number = 0x10000 + ((number - 0xD800) << 10) + hex_number(text, i + 8, end) - 0xDC00
    if number < 0x80:
        copied[at] = number
        return at + 1
    more = 1 if number < 0x800 else 2 if number < 0x10000 else 3
    copied[at] = (0xF80 >> more) & 0xFF | number >> 6 * more
    for k in range(more):
        copied[at + 1 + k] = 0x80 | (number >> 6 * (more - 1 - k)) & 0x3F
    return at + 1 + more
